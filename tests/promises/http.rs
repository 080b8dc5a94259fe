//! HTTP: the paths with their codes, the metrics with their types and labels, and the phases.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use bed::scene::{NAME, OTHER, SOON};
use bed::{ClusterFinding, FakeDriver, Scene, TestKubelet, eventually, report_cluster};

use crate::list::keeps;
use crate::setup;

/// The code and the type of an answer, and its body.
struct Answer {
    code: String,
    content_type: String,
    body: String,
}

fn get(scene: &Scene, path: &str) -> Answer {
    let socket = scene.http();
    let mut stream = eventually("http is served", SOON, || UnixStream::connect(&socket));
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        let is_type = name.eq_ignore_ascii_case("content-type");
        is_type.then(|| value.to_owned())
    };
    Answer {
        code: head.split(' ').nth(1).unwrap().to_owned(),
        content_type: head.lines().find_map(header).unwrap_or_default(),
        body: body.to_owned(),
    }
}

/// A node with a registered driver, which the cluster has, and with a driver that does not run.
fn node() -> (Scene, FakeDriver, TestKubelet) {
    let (scene, driver, kubelet) = setup().drivers(&[NAME, OTHER]).http().registered();
    let found = ClusterFinding {
        driver: NAME.to_owned(),
        registrations: 1,
        in_cluster: true,
        difference: String::new(),
    };
    report_cluster(&scene.control(), vec![found]).unwrap();
    (scene, driver, kubelet)
}

#[test]
fn every_promised_path_has_its_code_and_its_type() {
    let (scene, _driver, _kubelet) = node();
    // The other driver does not run.
    let (ready, unready) = (format!("/readyz/{NAME}"), format!("/readyz/{OTHER}"));
    let answer = |(path, words): (&str, &str)| {
        let Answer {
            code,
            content_type,
            body,
        } = get(&scene, path);
        let is_probe = path.contains("z") && code == "200";
        let body = if is_probe { &*body } else { "" };
        format!("{words}: {code} {content_type} {}", body.trim())
            .trim_end()
            .to_owned()
    };
    let cases = [
        ("/", "/"),
        ("/healthz", "/healthz"),
        ("/readyz", "/readyz of a node that is not ready"),
        (&*ready, "/readyz/ID of a ready driver"),
        (&*unready, "/readyz/ID of a driver that is not ready"),
        ("/readyz/none", "/readyz/ID of a driver that does not exist"),
        ("/status", "/status"),
        ("/metrics", "/metrics"),
    ];
    let mut lines = cases.map(answer).to_vec();
    let _other = scene.node.driver(OTHER);
    scene.phase(OTHER, "registered");
    lines.push(answer(("/readyz", "/readyz of a node that is ready")));
    keeps("http", lines);
}

#[test]
fn the_status_over_http_is_the_status_of_the_command() {
    let (scene, _driver, _kubelet) = node();
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let mut over_http = parse(&get(&scene, "/status").body);
    let output = scene.registrar.run_cli(["status", "--json"]);
    let mut of_command = parse(&bed::stdout(&output));
    // The reason has an age.
    for status in [&mut over_http, &mut of_command] {
        for driver in status["drivers"].as_array_mut().unwrap() {
            driver["reason"] = "".into();
        }
    }
    assert_eq!(over_http, of_command);
}

/// The labels of a sample, without those of a histogram's buckets.
fn labels(sample: &str) -> BTreeMap<&str, &str> {
    let labels = sample
        .split_once('{')
        .and_then(|(_, rest)| rest.rsplit_once('}'));
    let pairs = labels.map_or("", |(labels, _)| labels).split("\",");
    let pairs = pairs.filter_map(|pair| pair.split_once("=\""));
    let pairs = pairs.map(|(name, value)| (name, value.trim_end_matches('"')));
    pairs.filter(|(name, _)| *name != "le").collect()
}

#[test]
fn every_promised_metric_has_its_type_and_its_labels() {
    let (scene, _driver, _kubelet) = node();
    let text = get(&scene, "/metrics").body;
    let mut lines = BTreeSet::new();
    let mut phases = BTreeSet::new();
    for block in text.split("# HELP ").skip(1) {
        let kind = block.lines().find_map(|line| line.strip_prefix("# TYPE "));
        let (name, kind) = kind.unwrap().split_once(' ').unwrap();
        for sample in block.lines().skip(1).filter(|line| !line.starts_with('#')) {
            let labels = labels(sample);
            let names: Vec<&str> = labels.keys().copied().collect();
            lines.insert(match names.is_empty() {
                true => format!("{name} {kind}"),
                false => format!("{name}{{{}}} {kind}", names.join(",")),
            });
            phases.extend(labels.get("phase").map(|phase| (*phase).to_owned()));
        }
    }
    keeps("metric", lines);
    keeps("phase", phases);
}
