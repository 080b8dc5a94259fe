//! The table of drivers: a row for each driver, and its reason below.

use anstyle::Style;
use jiff::Timestamp;

use super::paint::{BAD, Paint, QUIET, TITLE, style_of};
use super::wrap;
use crate::api::age;
use crate::grpc::proto::control::{Driver, Status};
use crate::os::columns::{columns, padded, shortened};
use crate::os::text::printable;

/// A longer id gets a line of its own: cut short, a user could not type it again.
const WIDEST_DRIVER: usize = 32;
/// `waiting-for-kubelet`
const PHASE: usize = 19;
const SINCE: usize = 5;
const GAP: usize = 2;
const INDENT: usize = 2;
/// A narrower terminal gets lines that are too long.
const NARROWEST: usize = 60;

struct Table {
    /// The columns of a line, if there is a limit.
    width: Option<usize>,
    /// The columns of an id.
    driver: usize,
    paint: Paint,
}

/// The status in lines for a terminal of this width, without a line feed at the end. Without a width,
/// no line is broken or cut.
pub(crate) fn table(status: &Status, width: Option<usize>, now: Timestamp, paint: Paint) -> String {
    let ids = status.drivers.iter().map(|driver| columns(&driver.id));
    let longest = ids.filter(|length| *length <= WIDEST_DRIVER).max();
    let table = Table {
        width: width.map(|width| width.max(NARROWEST)),
        driver: longest.unwrap_or(0).max("DRIVER".len()),
        paint,
    };
    let mut lines = Vec::new();
    if status.drivers.is_empty() {
        lines.push("no drivers are configured or discovered".to_owned());
    } else {
        let titles = table.row(["DRIVER", "PHASE", "SINCE", "NODE ID"], Style::new());
        lines.push(paint.paint(TITLE, &titles));
    }
    for driver in &status.drivers {
        table.driver(driver, now, &mut lines);
    }
    for note in &status.notes {
        let note = wrap(&format!("note: {}", printable(note)), table.width);
        lines.extend(note.iter().map(|line| paint.paint(BAD, line)));
    }
    lines.join("\n")
}

impl Table {
    fn driver(&self, driver: &Driver, now: Timestamp, lines: &mut Vec<String>) {
        let mut id = printable(&driver.id);
        if columns(&id) > self.driver {
            lines.push(std::mem::take(&mut id));
        }
        let node_id = printable(driver.node_id.as_deref().unwrap_or("-"));
        let cells: [&str; 4] = [&id, &driver.phase, &age(&driver.since, now), &node_id];
        lines.push(self.row(cells, style_of(&driver.phase)));
        for line in wrap(&driver.reason, self.width.map(|width| width - INDENT)) {
            lines.push(self.paint.paint(QUIET, &format!("{:INDENT$}{line}", "")));
        }
    }

    fn row(&self, [driver, phase, since, node_id]: [&str; 4], style: Style) -> String {
        let before = self.driver + PHASE + SINCE + 3 * GAP;
        let room = self.width.map(|width| width.saturating_sub(before));
        [
            padded(driver, self.driver),
            // Padded before it is painted: `format!` would count the escape sequences.
            self.paint.paint(style, &format!("{phase:<PHASE$}")),
            format!("{since:>SINCE$}"),
            room.map_or_else(|| node_id.to_owned(), |room| shortened(node_id, room)),
        ]
        .join(&" ".repeat(GAP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(id: &str, phase: &str, node_id: Option<&str>, reason: &str) -> Driver {
        Driver {
            id: id.to_owned(),
            phase: phase.to_owned(),
            reason: reason.to_owned(),
            since: "2026-03-02T09:48:00Z".to_owned(),
            node_id: node_id.map(str::to_owned),
            ..Driver::default()
        }
    }

    fn shown(drivers: Vec<Driver>, paint: Paint) -> String {
        let now = "2026-03-02T10:00:00Z".parse().unwrap();
        let status = Status {
            drivers,
            ..Status::default()
        };
        table(&status, Some(80), now, paint)
    }

    #[test]
    fn a_row_has_what_an_operator_asks_first_and_the_reason_below() {
        let drivers = vec![
            driver(
                "nfs.csi.k8s.io",
                "registered",
                Some("node-1"),
                "registered by kubelet (pid 7)",
            ),
            driver("a", "waiting-for-driver", None, "waiting for /a/csi.sock"),
        ];
        assert_eq!(
            shown(drivers, Paint::Plain),
            "\
DRIVER          PHASE                SINCE  NODE ID
nfs.csi.k8s.io  registered             12m  node-1
  registered by kubelet (pid 7)
a               waiting-for-driver     12m  -
  waiting for /a/csi.sock"
        );
    }

    #[test]
    fn nothing_but_a_word_of_its_own_is_wider_than_80_columns_whatever_the_driver_says() {
        let long = "x".repeat(63);
        let path = "/p".repeat(200);
        let words = "the kubelet said: 存储卷不存在 ".repeat(20) + &path;
        let drivers = vec![
            driver(&long, "waiting-for-kubelet", Some(&"n".repeat(256)), &words),
            driver(
                &long[..32],
                "waiting-for-kubelet",
                Some(&"n".repeat(256)),
                &words,
            ),
        ];
        let table = shown(drivers, Paint::Plain);
        for line in table.lines() {
            let is_a_word = line.trim() == path;
            let taken = columns(line);
            assert!(is_a_word || taken <= 80, "{taken} columns: {line}");
        }
        assert!(table.lines().any(|line| line == long), "{table}");
    }

    #[test]
    fn wide_characters_do_not_move_the_columns() {
        let drivers = vec![
            driver("存储", "registered", Some("节点"), "so"),
            driver("local", "registered", Some("n"), "so"),
        ];
        let table = shown(drivers, Paint::Plain);
        let before_phase = table
            .lines()
            .filter_map(|line| line.split_once("registered"));
        let taken: Vec<usize> = before_phase.map(|(before, _)| columns(before)).collect();
        assert_eq!(taken, [8, 8], "{table}");
    }

    #[test]
    fn without_a_width_nothing_is_broken_or_cut() {
        let node_id = "n".repeat(256);
        let words = "the kubelet said: ".repeat(20).trim().to_owned();
        let drivers = vec![driver("a", "registered", Some(&node_id), &words)];
        let status = Status {
            drivers,
            notes: vec![words.clone()],
            ..Status::default()
        };
        let table = table(&status, None, Timestamp::now(), Paint::Plain);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[1].ends_with(&node_id), "{table}");
        assert_eq!(lines[2..], [format!("  {words}"), format!("note: {words}")]);
    }

    #[test]
    fn a_node_id_with_escape_sequences_does_not_reach_the_terminal() {
        let drivers = vec![driver("a", "registered", Some("n\u{1b}[2J\n"), "so")];
        let table = shown(drivers, Paint::Plain);
        assert!(
            !table.contains('\u{1b}') && table.lines().count() == 3,
            "{table}"
        );
    }

    #[test]
    fn colours_do_not_move_the_columns() {
        let drivers = vec![driver("a", "conflict", Some("n"), "so")];
        let coloured = shown(drivers.clone(), Paint::Coloured);
        assert!(coloured.contains("\x1b[31mconflict"), "{coloured}");
        let codes = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m"];
        let bare = codes
            .into_iter()
            .fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(bare, shown(drivers, Paint::Plain));
    }
}
