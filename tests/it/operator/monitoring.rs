//! Monitoring of a fleet: the alert rules, the dashboard, and a Prometheus that scrapes the daemon and
//! loads the rules.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bed::scene::{NAME, SOON};
use bed::{Process, eventually, has_program, stdout};
use serde_json::Value;

use crate::http_client::{get, read};
use crate::operator::metrics::{NAMES, report_in_cluster};
use crate::setup;

/// Labels that Prometheus itself adds, or that belong to a histogram.
const FOREIGN_LABELS: [&str; 3] = ["instance", "job", "le"];

fn packaged(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("packaging/prometheus")
        .join(file)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// The names of metrics in a text.
fn metrics(text: &str) -> BTreeSet<&str> {
    let prefixes = ["nsdr_", "csi_sidecar_", "process_"];
    words(text)
        .filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)))
        .collect()
}

/// The queries of the dashboard, those of its variables included.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                match inner {
                    Value::String(text) if key == "expr" || key == "definition" => {
                        found.push(text.clone());
                    }
                    _ => queries(inner, found),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|inner| queries(inner, found)),
        _ => {}
    }
}

/// The names of all series that a daemon with a registered driver has, and of their labels.
fn existing() -> (BTreeSet<String>, BTreeSet<String>) {
    let scene = setup().http().started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    report_in_cluster(&scene);
    let text = get(&scene.http(), "/metrics").body;
    let mut labels: BTreeSet<String> = FOREIGN_LABELS.map(str::to_owned).into();
    let mut series = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        series.insert(words(line).next().unwrap().to_owned());
        let pairs = line.split(['{', ',']).skip(1);
        let keys = pairs.filter_map(|pair| pair.split_once("=\"").map(|(key, _)| key));
        labels.extend(keys.map(str::to_owned));
    }
    (series, labels)
}

#[test]
fn every_query_of_the_dashboard_and_of_the_alerts_is_about_metrics_that_exist() {
    let (series, labels) = existing();
    let dashboard = fs::read_to_string(packaged("dashboard.json")).unwrap();
    let mut all = Vec::new();
    queries(&serde_json::from_str(&dashboard).unwrap(), &mut all);
    assert!(all.len() > 10, "{all:?}");
    let rules = fs::read_to_string(packaged("alerts.yml")).unwrap();
    let asked = all.join("\n") + &rules;
    for metric in metrics(&asked) {
        assert!(series.contains(metric), "{metric} is not among {series:?}");
    }
    for query in &all {
        let pairs = query.split(['{', ',']).skip(1);
        for key in pairs.filter_map(|pair| pair.split_once(['=', '!']).map(|(key, _)| key.trim())) {
            let is_name = key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(!is_name || labels.contains(key), "{key} in {query}");
        }
    }
    // Every metric is used by an alert or by the dashboard.
    for name in NAMES {
        assert!(asked.contains(name), "no alert or panel uses {name}");
    }
}

#[test]
fn the_documented_metrics_and_alerts_are_the_ones_that_exist() {
    let page = include_str!("../../../docs/fleet.md");
    // Other tables come before it.
    let (_, page) = page.split_once("\n## Metrics\n").unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let first: BTreeSet<&str> = rows.filter_map(|row| row.split(" | ").next()).collect();
    let documented = first
        .iter()
        .filter_map(|cell| words(cell.strip_prefix('`')?).next());
    assert_eq!(documented.collect::<BTreeSet<_>>(), NAMES.into());
    let rules = fs::read_to_string(packaged("alerts.yml")).unwrap();
    let alerts = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let told = first
        .iter()
        .copied()
        .filter(|cell| cell.starts_with("Storage"));
    assert_eq!(told.collect::<BTreeSet<_>>(), alerts.collect());
}

#[test]
fn promtool_accepts_the_alerts_and_their_tests_pass() {
    if !has_program("promtool") {
        return;
    }
    for arguments in [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts_test.yml"],
    ] {
        let output = Command::new("promtool")
            .args(arguments)
            .current_dir(packaged(""))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(stdout(&output).contains("SUCCESS"), "{output:?}");
    }
}

/// Every alert has a test that fires it.
#[test]
fn every_alert_is_fired_by_a_test() {
    let rules = fs::read_to_string(packaged("alerts.yml")).unwrap();
    let tests = fs::read_to_string(packaged("alerts_test.yml")).unwrap();
    let alerts = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let mut count = 0;
    for alert in alerts {
        let fired = format!("alertname: {alert}\n        exp_alerts:");
        assert!(tests.contains(&fired), "no test fires {alert}");
        count += 1;
    }
    assert!(count >= 5);
}

fn ask(port: u16, path: &str) -> Result<String, std::io::Error> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
    Ok(read(&mut stream)?.body)
}

#[test]
fn a_real_prometheus_scrapes_it_and_evaluates_the_alerts() {
    if !has_program("prometheus") {
        return;
    }
    let (ours, theirs) = (bed::free_port(), bed::free_port());
    let mut scene = setup().set();
    scene.listen(&[NAME], &format!("127.0.0.1:{ours}"));
    scene.registrar.start();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    let config = scene.node.root().join("prometheus.yml");
    let text = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{:?}]\n\
         scrape_configs:\n- job_name: node-storage-driver-registrar\n  static_configs:\n  - targets: ['127.0.0.1:{ours}']\n",
        packaged("alerts.yml")
    );
    fs::write(&config, text).unwrap();
    let _prometheus = Process::start(
        Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                scene.node.root().join("tsdb").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{theirs}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    );
    let query = "/api/v1/query?query=nsdr_driver_phase%7Bphase%3D%22registered%22%7D%3D%3D1";
    let answer = eventually("it has scraped the driver", SOON, || {
        let answer = ask(theirs, query).map_err(|error| error.to_string())?;
        if answer.contains(NAME) {
            Ok(answer)
        } else {
            Err(answer)
        }
    });
    assert!(answer.contains(&format!("127.0.0.1:{ours}")), "{answer}");
    eventually("the rules are evaluated", SOON, || {
        let rules = ask(theirs, "/api/v1/rules").map_err(|error| error.to_string())?;
        let well = rules.matches("\"health\":\"ok\"").count();
        if well >= 6 { Ok(()) } else { Err(rules) }
    });
}
