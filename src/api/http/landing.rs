//! The page at `/`: a table of the drivers, for a browser.

use jiff::Timestamp;

use crate::api::{age, cluster, status};
use crate::grpc::proto::control::{Driver, Status};
use crate::os::text::printable;

/// The page reloads itself after so many seconds.
const REFRESH: u32 = 5;

const STYLE: &str = include_str!("landing.css");

/// The whole page.
pub(super) fn page(status: &Status) -> String {
    let now = Timestamp::now();
    let rows = status.drivers.iter().map(|driver| row(driver, now));
    let rows: String = rows.collect();
    let drivers = if rows.is_empty() {
        "<p>No drivers are configured.</p>\n".to_owned()
    } else {
        format!(
            "<table>\n<tr><th>Driver<th>Phase<th>Ready<th>Since<th>Volumes<th>Node id<th>Reason\n{rows}</table>\n"
        )
    };
    let note = |note: &String| format!("<p class=\"note\">{}</p>\n", escape(note));
    let notes: String = status.notes.iter().map(note).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"refresh\" content=\"{REFRESH}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>node-storage-driver-registrar</title>\n<style>\n{STYLE}</style>\n\
         <h1>node-storage-driver-registrar {}</h1>\n{drivers}{notes}\
         <p><a href=\"metrics\">metrics</a> · <a href=\"status\">status</a> · \
         <a href=\"healthz\">healthz</a> · <a href=\"readyz\">readyz</a></p>\n</html>\n",
        escape(&status.version)
    )
}

fn row(driver: &Driver, now: Timestamp) -> String {
    let class = match status::is_unready(driver) {
        true => " class=\"unready\"",
        false => "",
    };
    let ready = status::readiness(driver);
    let volumes = status::volumes(driver);
    format!(
        "<tr><td>{}<td class=\"phase {phase}\">{phase}<td{class}>{ready}<td>{}<td>{volumes}<td>{}<td>{}\n",
        escape(&driver.id),
        age(&driver.since, now),
        escape(driver.node_id.as_deref().unwrap_or("-")),
        escape(&cluster::reason(driver, now)),
        phase = escape(&driver.phase),
    )
}

/// Text from a driver, harmless in HTML text and in a quoted attribute.
fn escape(text: &str) -> String {
    // The ampersand first: the other replacements contain it.
    printable(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registered_driver_that_does_not_answer_shows_at_a_glance() {
        let driver = |answering| Driver {
            phase: "registered".to_owned(),
            answering,
            ..Driver::default()
        };
        let shown = |driver: &Driver| row(driver, Timestamp::now());
        assert!(shown(&driver(true)).contains("<td>yes<td>"));
        assert!(shown(&driver(false)).contains("<td class=\"unready\">no<td>"));
        let controller = Driver {
            without_node_service: true,
            ..Driver::default()
        };
        assert!(shown(&controller).contains("<td>-<td>"));
    }

    #[test]
    fn what_a_driver_says_stays_text() {
        let driver = Driver {
            id: "a".to_owned(),
            phase: "rejected".to_owned(),
            reason: "the kubelet said: <script>alert('x')</script> & \"y\"".to_owned(),
            node_id: Some("<b>".to_owned()),
            ..Driver::default()
        };
        let status = Status {
            drivers: vec![driver],
            notes: vec!["<i>".to_owned()],
            ..Status::default()
        };
        let page = page(&status);
        for forbidden in ["<script", "<b>", "<i>"] {
            assert!(!page.contains(forbidden), "{page}");
        }
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)"), "{page}");
        assert!(page.contains("http-equiv=\"refresh\""));
    }
}
