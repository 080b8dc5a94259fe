//! Whatever comes over an HTTP connection, there is one well-formed answer or none, and only GET
//! and HEAD are given anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::caller::Caller;
use super::connection::answer;
use super::page::Pages;
use crate::api::metrics::Metrics;
use crate::api::snapshot::{Daemon, Snapshot, Snapshots};
use crate::disk::reach::Reach;
use crate::grpc::proto::control::Driver;
use crate::kubelet::volumes::VolumeReader;
use crate::os::fuzz::Fuzz;

/// Stands in the status, and may come out of it only as text.
const HOSTILE: &str = "</td><script>\u{1b}[2J\"\n\\\u{202e}";

const WORDS: &[&str] = &[
    "GET / HTTP/1.1\r\n",
    "HEAD /metrics HTTP/1.1\r\n",
    "POST /status HTTP/1.1\r\n",
    "CONNECT / HTTP/1.1\r\n",
    "GET /healthz HTTP/1.0\r\n",
    "GET /healthz HTTP/0.9\r\n",
    "Host: a\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: -1\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: upgrade\r\nUpgrade: h2c\r\n",
    "Expect: 100-continue\r\n",
    "\r\n\r\n",
    "0\r\n\r\n",
    "/%2e%2e/",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];

#[test]
fn no_request_gets_more_than_a_page() {
    let scene = Scene::new();
    Fuzz::new("http", WORDS).short(|input| scene.check(input));
}

#[test]
#[ignore = "the long run"]
fn no_request_gets_more_than_a_page_for_long() {
    let scene = Scene::new();
    Fuzz::new("http", WORDS).long(|input| scene.check(input));
}

struct Scene {
    /// With a clock that jumps, so that deadlines pass as soon as nothing else is to be done.
    runtime: Runtime,
    pages: Pages,
    _board: watch::Sender<Arc<Snapshot>>,
}

impl Scene {
    fn new() -> Scene {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        let (board, receiver) = watch::channel(Arc::new(snapshot()));
        let volumes = VolumeReader::new(vec!["/nowhere".into()], Reach::default());
        Scene {
            pages: Pages::new(Snapshots::new(receiver), volumes, Metrics::new()),
            _board: board,
            runtime,
        }
    }

    fn check(&self, input: &[u8]) -> (u16, usize) {
        let output = self.runtime.block_on(async {
            let (client, server) = duplex(256 * 1024);
            let served = tokio::spawn(answer(
                Box::new(server),
                Caller::default(),
                self.pages.clone(),
            ));
            let (mut from, mut to) = tokio::io::split(client);
            let mut output = Vec::new();
            // The server may close before it has read everything.
            drop(to.write_all(input).await);
            from.read_to_end(&mut output).await.unwrap();
            served.await.unwrap();
            output
        });
        if output.is_empty() {
            return (0, 0);
        }
        check_answer(input, &output)
    }
}

fn check_answer(input: &[u8], output: &[u8]) -> (u16, usize) {
    let text = str::from_utf8(output).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let (first, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    let mut words = first.split(' ');
    let version = words.next().unwrap_or_default();
    assert!(matches!(version, "HTTP/1.1" | "HTTP/1.0"), "{first}");
    let code: u16 = words.next().unwrap_or_default().parse().expect("a code");
    let header = |name: &str| {
        let mut lines = headers
            .split("\r\n")
            .filter_map(|line| line.split_once(": "));
        lines.find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value))
    };
    let is_head = input.trim_ascii_start().starts_with(b"HEAD ");
    match header("content-length").map(|length| length.parse::<usize>().unwrap()) {
        Some(length) if is_head => assert!(body.is_empty() && length < 100_000),
        Some(length) => assert_eq!(length, body.len(), "more than one answer: {text}"),
        None => assert!(body.is_empty(), "no length: {text}"),
    }
    if code == StatusCode::OK {
        let asked = input.trim_ascii_start();
        assert!(
            asked.starts_with(b"GET ") || is_head,
            "given to another method"
        );
        assert_eq!(header("x-content-type-options"), Some("nosniff"));
        match header("content-type") {
            Some("text/html; charset=utf-8") => {
                assert!(
                    !body.contains("<script") && !body.contains('\u{1b}'),
                    "{body}"
                );
            }
            Some("application/json") => assert!(!body.contains(char::is_control), "{body}"),
            // A line for each value, whatever a driver is called.
            _ => assert!(
                body == "ok" || is_head || body.lines().all(is_of_metrics),
                "{body}"
            ),
        }
    } else {
        assert!((400..=505).contains(&code), "{first}");
    }
    (code, body.len())
}

fn is_of_metrics(line: &str) -> bool {
    let series = ["# ", "nsdr_", "csi_", "process_"];
    series.iter().any(|start| line.starts_with(start))
}

fn snapshot() -> Snapshot {
    let driver = Driver {
        id: HOSTILE.to_owned(),
        phase: "registered".to_owned(),
        reason: HOSTILE.to_owned(),
        node_id: Some(HOSTILE.to_owned()),
        vendor_version: Some(HOSTILE.to_owned()),
        ..Driver::default()
    };
    Snapshot {
        daemon: Daemon {
            notes: vec![HOSTILE.to_owned()],
            ..Daemon::default()
        },
        drivers: BTreeMap::from([(HOSTILE.into(), Arc::new(driver))]),
        ..Snapshot::default()
    }
}
