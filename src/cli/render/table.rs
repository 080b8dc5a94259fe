//! The table of drivers: a row for each driver, and its reason below.

use anstyle::Style;
use jiff::Timestamp;

use super::paint::{BAD, GOOD, PENDING, Paint, QUIET, TITLE, style_of};
use super::wrap;
use crate::api::{age, cluster, status, volumes};
use crate::grpc::proto::control::{Driver, Status};
use crate::os::columns::{columns, padded, shortened};
use crate::os::text::printable;

/// A longer id gets a line of its own: cut short, a user could not type it again.
const WIDEST_DRIVER: usize = 28;
const READY: usize = "READY".len();
/// `waiting-for-kubelet`
const PHASE: usize = 19;
const SINCE: usize = 5;
const VOLUMES: usize = "VOLUMES".len();
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
    /// The user asked for these drivers.
    is_detailed: bool,
}

/// The status in lines for a terminal of this width, without a line feed at the end. Without a width,
/// no line is broken or cut. For drivers that the user named, `is_detailed`, it tells more.
pub(crate) fn table(
    status: &Status,
    width: Option<usize>,
    now: Timestamp,
    paint: Paint,
    is_detailed: bool,
) -> String {
    let ids = status.drivers.iter().map(|driver| columns(&driver.id));
    let longest = ids.filter(|length| *length <= WIDEST_DRIVER).max();
    let table = Table {
        width: width.map(|width| width.max(NARROWEST)),
        driver: longest.unwrap_or(0).max("DRIVER".len()),
        paint,
        is_detailed,
    };
    let mut lines = Vec::new();
    if status.drivers.is_empty() {
        lines.push("no drivers are configured or discovered".to_owned());
    } else {
        let plain = Style::new();
        let titles = table.row(
            ["DRIVER", "READY", "PHASE", "SINCE", "VOLUMES", "NODE ID"],
            [plain, plain],
        );
        lines.push(paint.paint(TITLE, &titles));
    }
    for driver in &status.drivers {
        table.driver(driver, now, &mut lines);
    }
    let mut unknown = status.drivers.iter();
    let unknown = unknown.find_map(|driver| driver.volumes_unknown.as_ref());
    if let Some(why) = unknown.filter(|_| !is_detailed) {
        table.note(&format!("VOLUMES is not known: {why}"), &mut lines);
    }
    for note in &status.notes {
        table.note(note, &mut lines);
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
        let ready = status::readiness(driver);
        let since = age(&driver.since, now);
        let volumes = status::volumes(driver);
        let cells: [&str; 6] = [&id, ready, &driver.phase, &since, &volumes, &node_id];
        lines.push(self.row(cells, [ready_style(driver), phase_style(driver)]));
        let in_use = volumes::of(driver).and_then(|found| found.words());
        let in_use = in_use.filter(|_| self.is_detailed);
        for text in [Some(cluster::reason(driver, now)), in_use]
            .into_iter()
            .flatten()
        {
            for line in wrap(&text, self.width.map(|width| width - INDENT)) {
                lines.push(self.paint.paint(QUIET, &format!("{:INDENT$}{line}", "")));
            }
        }
    }

    /// A note in red. A refused configuration has a line for each of its faults.
    fn note(&self, note: &str, lines: &mut Vec<String>) {
        let mut said = note.lines();
        let first = format!("note: {}", printable(said.next().unwrap_or_default()));
        let first = wrap(&first, self.width);
        let more = said.flat_map(|line| {
            let wrapped = wrap(&printable(line), self.width.map(|width| width - INDENT));
            wrapped
                .into_iter()
                .map(|line| format!("{:INDENT$}{line}", ""))
        });
        let painted = first.into_iter().chain(more);
        lines.extend(painted.map(|line| self.paint.paint(BAD, &line)));
    }

    fn row(
        &self,
        [driver, ready, phase, since, volumes, node_id]: [&str; 6],
        [ready_style, phase_style]: [Style; 2],
    ) -> String {
        let before = self.driver + READY + PHASE + SINCE + VOLUMES + 5 * GAP;
        let room = self.width.map(|width| width.saturating_sub(before));
        [
            padded(driver, self.driver),
            // Padded before it is painted: `format!` would count the escape sequences.
            self.paint.paint(ready_style, &format!("{ready:<READY$}")),
            self.paint.paint(phase_style, &format!("{phase:<PHASE$}")),
            format!("{since:>SINCE$}"),
            format!("{volumes:>VOLUMES$}"),
            room.map_or_else(|| node_id.to_owned(), |room| shortened(node_id, room)),
        ]
        .join(&" ".repeat(GAP))
    }
}

/// The style of the readiness. A driver without a Node service is never registered.
fn ready_style(driver: &Driver) -> Style {
    if status::is_ready(driver) {
        GOOD
    } else if status::is_unready(driver) {
        BAD
    } else {
        QUIET
    }
}

/// The style of the phase: a registered driver that is not ready is not green.
fn phase_style(driver: &Driver) -> Style {
    match style_of(&driver.phase) {
        GOOD if !status::is_ready(driver) => PENDING,
        style => style,
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
            answering: node_id.is_some(),
            ..Driver::default()
        }
    }

    fn shown(drivers: Vec<Driver>, paint: Paint) -> String {
        let now = "2026-03-02T10:00:00Z".parse().unwrap();
        let status = Status {
            drivers,
            ..Status::default()
        };
        table(&status, Some(80), now, paint, false)
    }

    #[test]
    fn a_row_has_what_an_operator_asks_first_and_the_reason_below() {
        let drivers = vec![
            Driver {
                volumes: Some(2),
                pods: vec!["uid-1".to_owned()],
                ..driver(
                    "nfs.csi.k8s.io",
                    "registered",
                    Some("node-1"),
                    "registered by kubelet (pid 7)",
                )
            },
            driver("a", "waiting-for-driver", None, "waiting for /a/csi.sock"),
        ];
        assert_eq!(
            shown(drivers, Paint::Plain),
            "\
DRIVER          READY  PHASE                SINCE  VOLUMES  NODE ID
nfs.csi.k8s.io  yes    registered             12m        2  node-1
  registered by kubelet (pid 7)
a               no     waiting-for-driver     12m        -  -
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
                &long[..WIDEST_DRIVER],
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
        assert_eq!(taken, [15, 15], "{table}");
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
        let table = table(&status, None, Timestamp::now(), Paint::Plain, false);
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
    fn a_driver_that_was_asked_for_shows_its_pods_or_why_they_are_not_known() {
        let known = Driver {
            volumes: Some(1),
            pods: vec!["uid-1".to_owned()],
            ..driver("a", "registered", Some("n"), "so")
        };
        let not_known = Driver {
            volumes_unknown: Some("cannot read /k/pods: Permission denied".to_owned()),
            ..driver("b", "registered", Some("n"), "so")
        };
        let free = Driver {
            volumes: Some(0),
            ..driver("c", "registered", Some("n"), "so")
        };
        let status = Status {
            drivers: vec![known, not_known, free],
            ..Status::default()
        };
        let detailed = table(&status, None, Timestamp::now(), Paint::Plain, true);
        let lines: Vec<&str> = detailed.lines().collect();
        assert_eq!(lines.len(), 9, "{detailed}");
        assert_eq!(lines[3], "  1 volume is in use by pod uid-1");
        let why = "cannot read /k/pods: Permission denied";
        let words = format!("  it is not known whether volumes are in use: {why}");
        assert_eq!(lines[6], words);
        let short = table(&status, None, Timestamp::now(), Paint::Plain, false);
        assert_eq!(short.lines().count(), 8, "{short}");
        let last = format!("note: VOLUMES is not known: {why}");
        assert_eq!(short.lines().last(), Some(&*last));
    }

    #[test]
    fn colours_do_not_move_the_columns() {
        let drivers = vec![driver("a", "conflict", Some("n"), "so")];
        let coloured = shown(drivers.clone(), Paint::Coloured);
        assert!(coloured.contains("\x1b[31mconflict"), "{coloured}");
        let codes = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m"];
        let bare = codes
            .into_iter()
            .fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(bare, shown(drivers, Paint::Plain));
    }

    #[test]
    fn a_registered_driver_that_does_not_answer_is_seen_at_a_glance() {
        let stopped = Driver {
            answering: false,
            ..driver("a", "registered", Some("n"), "so")
        };
        let table = shown(vec![stopped], Paint::Coloured);
        assert!(table.contains("\x1b[31mno   \x1b[0m"), "{table:?}");
        assert!(table.contains("\x1b[33mregistered"), "{table:?}");
        let well = driver("a", "registered", Some("n"), "so");
        let table = shown(vec![well], Paint::Coloured);
        assert!(table.contains("\x1b[32myes  \x1b[0m"), "{table:?}");
        assert!(table.contains("\x1b[32mregistered"), "{table:?}");
    }

    #[test]
    fn a_registered_driver_that_the_cluster_lacks_is_seen_at_a_glance_and_its_reason_ages() {
        let lost = Driver {
            in_cluster: Some(false),
            cluster_checked: Some("2026-03-02T09:59:20Z".to_owned()),
            cluster_difference: "CSINode n does not list it".to_owned(),
            ..driver(
                "a",
                "registered",
                Some("n"),
                "registered by kubelet (pid 7)",
            )
        };
        let table = shown(vec![lost.clone()], Paint::Coloured);
        assert!(table.contains("\x1b[31mno   \x1b[0m"), "{table:?}");
        assert!(table.contains("\x1b[33mregistered"), "{table:?}");
        let table = shown(vec![lost], Paint::Plain);
        let reason =
            "  registered by kubelet (pid 7), but CSINode n does not list it (checked 40s\n  ago)";
        assert!(table.ends_with(reason), "{table}");
    }

    #[test]
    fn a_driver_without_a_node_service_is_neither_ready_nor_unready() {
        let controller = Driver {
            without_node_service: true,
            ..driver("a", "waiting-for-driver", None, "so")
        };
        let table = shown(vec![controller], Paint::Plain);
        assert!(table.contains("\na       -      waiting"), "{table}");
    }

    #[test]
    fn a_note_of_several_lines_keeps_them() {
        let status = Status {
            drivers: vec![driver("a", "registered", Some("n"), "so")],
            notes: vec!["refused: two faults:\nthe first\n  the second\u{1b}".to_owned()],
            ..Status::default()
        };
        let table = table(&status, Some(80), Timestamp::now(), Paint::Plain, false);
        let lines: Vec<&str> = table.lines().skip(3).collect();
        let expected = [
            "note: refused: two faults:",
            "  the first",
            "  the second\\u{1b}",
        ];
        assert_eq!(lines, expected);
    }
}
