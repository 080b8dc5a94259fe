//! The metrics: exactly the promised names, and a text that Prometheus' own tool accepts.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use bed::scene::{NAME, OTHER, SOON};
use bed::{ClusterFinding, RawListener, Scene, eventually, has_program, report_cluster, stderr};

use crate::http_client::get;
use crate::setup;

/// Every metric.
pub(crate) const NAMES: [&str; 21] = [
    "csi_sidecar_operations_seconds",
    "nsdr_build_info",
    "nsdr_cluster_checked_timestamp_seconds",
    "nsdr_config_last_reload_success_timestamp_seconds",
    "nsdr_config_last_reload_successful",
    "nsdr_directories_without_socket",
    "nsdr_driver_announcements_total",
    "nsdr_driver_disconnects_total",
    "nsdr_driver_in_cluster",
    "nsdr_driver_link_repairs_total",
    "nsdr_driver_phase",
    "nsdr_driver_registered_volume_limit",
    "nsdr_driver_registrations_total",
    "nsdr_driver_rejections_total",
    "nsdr_driver_time_to_register_seconds",
    "nsdr_driver_up",
    "nsdr_driver_volume_limit",
    "nsdr_driver_volumes",
    "nsdr_drivers",
    "nsdr_problems",
    "process_start_time_seconds",
];

fn scrape(scene: &Scene) -> String {
    let answer = get(&scene.http(), "/metrics");
    assert_eq!(answer.code, 200);
    assert!(
        answer
            .head
            .contains("content-type: text/plain; version=0.0.4"),
        "{}",
        answer.head
    );
    answer.body
}

fn families(text: &str) -> BTreeSet<&str> {
    let typed = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    typed.filter_map(|rest| rest.split(' ').next()).collect()
}

/// The cluster has the driver, as the program verify would find.
pub(crate) fn report_in_cluster(scene: &Scene) {
    let found = ClusterFinding {
        driver: NAME.to_owned(),
        registrations: 1,
        in_cluster: true,
        difference: String::new(),
    };
    report_cluster(&scene.control(), vec![found]).unwrap();
}

#[track_caller]
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find(|line| {
        line.strip_prefix(series)
            .is_some_and(|rest| rest.starts_with(' '))
    });
    let line = line.unwrap_or_else(|| panic!("no {series} in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_registered_driver_shows_in_every_promised_metric_and_in_no_other() {
    let scene = setup().drivers(&[NAME, OTHER]).http().started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    report_in_cluster(&scene);
    let text = scrape(&scene);
    assert_eq!(families(&text), NAMES.into());
    assert!(!text.contains(&format!("nsdr_driver_volume_limit{{driver=\"{OTHER}\"}}")));
    let of = |metric: &str, driver: &str| value(&text, &format!("{metric}{{driver=\"{driver}\"}}"));
    assert_eq!(of("nsdr_driver_up", NAME), 1.0);
    assert_eq!(of("nsdr_driver_up", OTHER), 0.0);
    assert_eq!(of("nsdr_driver_in_cluster", NAME), 1.0);
    assert!(!text.contains(&format!("nsdr_driver_in_cluster{{driver=\"{OTHER}\"}}")));
    assert_eq!(of("nsdr_driver_volumes", NAME), 0.0);
    assert!(!text.contains(&format!("nsdr_driver_volumes{{driver=\"{OTHER}\"}}")));
    assert_eq!(of("nsdr_driver_registrations_total", NAME), 1.0);
    assert_eq!(of("nsdr_driver_announcements_total", NAME), 1.0);
    assert_eq!(of("nsdr_driver_time_to_register_seconds_count", NAME), 1.0);
    for (driver, phase, is) in [
        (NAME, "registered", 1.0),
        (NAME, "conflict", 0.0),
        (OTHER, "waiting-for-driver", 1.0),
    ] {
        let series = format!("nsdr_driver_phase{{driver=\"{driver}\",phase=\"{phase}\"}}");
        assert_eq!(value(&text, &series), is, "{series}");
    }
    let calls = format!(
        "csi_sidecar_operations_seconds_count{{driver_name=\"{NAME}\",grpc_status_code=\"OK\",method_name=\"/csi.v1.Node/NodeGetInfo\"}}"
    );
    assert_eq!(value(&text, &calls), 1.0);
    let version = format!(
        "nsdr_build_info{{version=\"{}\"}}",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(value(&text, &version), 1.0);
    #[allow(clippy::cast_precision_loss, reason = "the year is not 285 million")]
    let now = jiff::Timestamp::now().as_second() as f64;
    for time in [
        "process_start_time_seconds",
        "nsdr_cluster_checked_timestamp_seconds",
    ] {
        let then = value(&text, time);
        assert!(
            (now - 120.0..=now + 2.0).contains(&then),
            "{time} {then} at {now}"
        );
    }
}

/// A driver that crashes again and again may be up at each scrape.
#[test]
fn each_end_of_the_driver_is_counted() {
    let scene = setup().http().started();
    let _kubelet = scene.node.kubelet();
    let ends = || {
        let series = format!("nsdr_driver_disconnects_total{{driver=\"{NAME}\"}}");
        value(&scrape(&scene), &series)
    };
    for count in 0..3 {
        let driver = scene.node.driver(NAME);
        let is_up = |driver: &bed::DriverStatus| driver.answering;
        scene.registrar.wait_driver("up", NAME, SOON, is_up);
        assert_eq!(ends(), f64::from(count));
        drop(driver);
        let is_down = |driver: &bed::DriverStatus| !driver.answering;
        scene.registrar.wait_driver("down", NAME, SOON, is_down);
    }
    assert_eq!(ends(), 3.0);
    let mut scene = scene;
    scene.registrar.kill9();
    scene.registrar.start();
    scene.wait_up();
    let series = format!("nsdr_driver_disconnects_total{{driver=\"{NAME}\"}}");
    assert_eq!(value(&scrape(&scene), &series), 3.0);
}

/// The new process takes the socket's place before the old one ends, so that no question goes unanswered.
#[test]
fn a_restart_without_a_gap_is_counted_too() {
    let scene = setup().http().started();
    let _kubelet = scene.node.kubelet();
    let old = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    let new = scene.named(OTHER, NAME);
    std::fs::rename(new.path(), old.path()).unwrap();
    let series = format!("nsdr_driver_disconnects_total{{driver=\"{NAME}\"}}");
    eventually("the restart is counted", SOON, || {
        value(&scrape(&scene), &series) == 1.0
    });
    assert_eq!(scene.phase(NAME, "registered").registrations, 1);
}

#[test]
fn a_refused_configuration_shows_until_one_is_accepted() {
    let scene = setup().http().started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    scene.registrar.succeed(&["status"]);
    let now = || {
        let text = scrape(&scene);
        let accepted = value(&text, "nsdr_config_last_reload_success_timestamp_seconds");
        (value(&text, "nsdr_config_last_reload_successful"), accepted)
    };
    let (successful, at_start) = now();
    assert_eq!(successful, 1.0);
    let good = std::fs::read_to_string(scene.node.config_file()).unwrap();
    scene.node.write_config(&format!("{good}\nnonsense = 1\n"));
    let refused = scene.registrar.run_cli(["reload"]);
    assert_eq!(refused.status.code(), Some(78), "{}", stderr(&refused));
    assert_eq!(now(), (0.0, at_start));
    let notes = scene.registrar.status().unwrap().notes;
    assert!(
        notes.iter().any(|note| note.contains("nonsense")),
        "{notes:?}"
    );
    assert_eq!(scene.registrar.run_cli(["status"]).status.code(), Some(1));
    scene.node.write_config(&good);
    scene.registrar.succeed(&["reload"]);
    let (successful, accepted) = now();
    assert_eq!(successful, 1.0);
    assert!(accepted > at_start, "{accepted} {at_start}");
    assert!(scene.registrar.status().unwrap().notes.is_empty());
    scene.registrar.succeed(&["status"]);
}

/// The kubelet does not notice the fight.
#[test]
fn a_fight_over_the_socket_is_no_registration() {
    let scene = setup().http().started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    let socket = scene.node.reg_socket(NAME);
    let stranger = RawListener::instead(&socket);
    scene.phase(NAME, "conflict");
    drop(stranger);
    scene.phase(NAME, "registered");
    let text = scrape(&scene);
    for count in ["registrations_total", "time_to_register_seconds_count"] {
        let series = format!("nsdr_driver_{count}{{driver=\"{NAME}\"}}");
        assert_eq!(value(&text, &series), 1.0, "{series}");
    }
}

#[test]
fn a_driver_that_is_no_longer_configured_is_gone_from_the_metrics() {
    let scene = setup().drivers(&[NAME, OTHER]).http().started();
    let _kubelet = scene.node.kubelet();
    let _drivers = [scene.node.driver(NAME), scene.node.driver(OTHER)];
    scene.phase(OTHER, "registered");
    scene.listen(&[NAME], &format!("unix:{}", scene.http().display()));
    assert!(scene.registrar.run_cli(["reload"]).status.success());
    eventually("it is gone", SOON, || {
        let text = scrape(&scene);
        let label = format!("driver=\"{OTHER}\"");
        (!text.contains(&label)).then_some(()).ok_or(text)
    });
}

#[test]
fn promtool_accepts_the_metrics() {
    if !has_program("promtool") {
        return;
    }
    let scene = setup().http().started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    let output = pipe("promtool", &["check", "metrics"], &scrape(&scene));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stderr(&output), "");
}

/// The benchmark judges the whole memory; most of it is pages of the program that the kernel reads
/// ahead.
#[test]
fn being_scraped_does_not_make_the_daemon_larger_each_time() {
    let scene = setup().http().started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    let unasked = scene.registrar.rss_kb();
    let ask = |times: usize| {
        for path in ["/metrics", "/", "/status"].iter().cycle().take(times) {
            get(&scene.http(), path);
        }
        scene.registrar.rss_kb()
    };
    let (few, many) = (ask(30), ask(300));
    eprintln!("resident: {unasked} KiB unasked, {few} KiB after 30 requests, {many} KiB after 330");
    assert!(many <= few + 256, "{few} KiB, then {many} KiB");
}

/// Runs a program with this on its stdin.
#[track_caller]
fn pipe(program: &str, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}
