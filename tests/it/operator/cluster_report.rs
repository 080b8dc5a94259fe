//! The reports of the program verify: what the daemon shows of them, and for how long.

use std::fs;
use std::time::Duration;

use bed::driver::Call;
use bed::scene::{A_WHILE, KEEP, NAME, OTHER, SOON, reason};
use bed::{
    Behaviour, ClusterFinding, DriverStatus, Process, Release, Scene, Status, eventually, repair,
    report_cluster, report_cluster_late, stays, stderr, stdout,
};
use tonic::Code;

use crate::http_client::{get, wait_code};
use crate::lifecycle::notify::under_systemd;
use crate::setup;

const LOST: &str = "CSINode node-1 does not list it";

/// A finding of verify.
fn finding(driver: &str, registrations: u64, in_cluster: bool, difference: &str) -> ClusterFinding {
    ClusterFinding {
        driver: driver.to_owned(),
        registrations,
        in_cluster,
        difference: difference.to_owned(),
    }
}

#[track_caller]
fn report<K, D>(scene: &Scene<K, D>, findings: &[ClusterFinding]) {
    report_cluster(&scene.control(), findings.to_vec()).unwrap();
}

#[track_caller]
fn driver<K, D>(scene: &Scene<K, D>) -> DriverStatus {
    let status = scene.registrar.status().unwrap();
    status.driver(scene.id).unwrap().clone()
}

/// The reason without the age.
fn words(driver: &DriverStatus) -> String {
    let (before, rest) = reason(driver).split_once("checked ").unwrap();
    let (age, after) = rest.split_once(" ago").unwrap();
    let number = age.strip_suffix(['s', 'm']).map(str::parse::<u8>);
    assert!(matches!(number, Some(Ok(_))), "{}", reason(driver));
    format!("{before}checked AGE ago{after}")
}

#[test]
fn what_the_cluster_has_is_not_known_before_any_report() {
    let (scene, _driver, _kubelet) = setup().http().registered();
    let json = stdout(&scene.registrar.run_cli(["status", "--json"]));
    assert!(
        json.contains("\"in_cluster\":null,\"cluster_checked\":null"),
        "{json}"
    );
    let metrics = get(&scene.http(), "/metrics").body;
    assert!(!metrics.contains("_in_cluster") && !metrics.contains("cluster_checked"));
    report(&scene, &[]);
    let metrics = get(&scene.http(), "/metrics").body;
    assert!(!metrics.contains("_in_cluster"), "{metrics}");
    assert!(
        metrics.contains("\nnsdr_cluster_checked_timestamp_seconds 1"),
        "{metrics}"
    );
    assert_eq!(driver(&scene).in_cluster, None);
}

#[test]
fn a_report_shows_in_the_reason_in_json_and_in_readiness_and_announces_nothing() {
    let (scene, _driver, kubelet) = setup().http().registered();
    let (mark, before) = (kubelet.mark(), driver(&scene));
    let by = reason(&before).to_owned();
    assert!(by.starts_with("registered by kubelet (pid "), "{by}");

    report(&scene, &[finding(NAME, 1, true, "")]);
    let well = driver(&scene);
    assert_eq!(
        words(&well),
        format!("{by}; in the cluster, checked AGE ago")
    );
    assert_eq!(well.in_cluster, Some(true));
    let checked: jiff::Timestamp = well.cluster_checked.clone().unwrap().parse().unwrap();
    assert!(jiff::Timestamp::now().duration_since(checked).as_secs() < 40);
    scene.registrar.succeed(&["status"]);
    assert_eq!(wait_code(&scene.http(), "/readyz", 200), "ok");

    report(&scene, &[finding(NAME, 1, false, LOST)]);
    let lost = driver(&scene);
    assert_eq!(words(&lost), format!("{by}, but {LOST} (checked AGE ago)"));
    assert_eq!(
        (lost.in_cluster, lost.phase.as_str()),
        (Some(false), "registered")
    );
    assert_eq!(
        (&lost.since, lost.announcements),
        (&before.since, before.announcements)
    );
    let table = scene.registrar.run_cli(["status"]);
    assert_eq!(table.status.code(), Some(1));
    let table = stdout(&table);
    assert!(table.contains("no     registered"), "{table}");
    assert!(
        table.contains(&format!("  {by}, but {LOST} (checked ")),
        "{table}"
    );
    for page in ["/readyz", &format!("/readyz/{NAME}")] {
        let why = wait_code(&scene.http(), page, 503);
        let begin = format!("{NAME}: registered: {by}, but {LOST} (checked ");
        assert!(why.starts_with(&begin), "{why}");
    }
    assert_eq!(wait_code(&scene.http(), "/healthz", 200), "ok");
    let page = get(&scene.http(), "/").body;
    assert!(page.contains(&format!("but {LOST} (checked ")), "{page}");
    scene
        .registrar
        .succeed(&["wait", "--for", "registered", "--timeout", "1s"]);
    let waiting = scene
        .registrar
        .run_cli(["wait", "--for", "ready", "--timeout", "100ms"]);
    assert!(stderr(&waiting).contains(LOST), "{waiting:?}");
    let series = format!("nsdr_driver_in_cluster{{driver=\"{NAME}\"}}");
    assert!(
        get(&scene.http(), "/metrics")
            .body
            .contains(&format!("{series} 0\n"))
    );

    report(
        &scene,
        &[finding(NAME, 1, true, "the Node has zone = \"b\"")],
    );
    let differs = driver(&scene);
    let difference = "in the cluster, but the Node has zone = \"b\" (checked AGE ago)";
    assert_eq!(words(&differs), format!("{by}; {difference}"));
    assert_eq!(wait_code(&scene.http(), "/readyz", 200), "ok");
    assert!(
        get(&scene.http(), "/metrics")
            .body
            .contains(&format!("{series} 1\n"))
    );

    let counts = kubelet.counts_since(mark);
    assert_eq!(
        (
            counts.registrations,
            counts.deregistrations,
            counts.api_writes()
        ),
        (0, 0, 0)
    );
    assert_eq!(driver(&scene).announcements, before.announcements);
}

#[test]
fn a_report_about_an_earlier_registration_or_an_unknown_driver_is_ignored() {
    let (scene, _driver, _kubelet) = setup().drivers(&[NAME, OTHER]).registered();
    report(
        &scene,
        &[
            finding(NAME, 0, false, LOST),
            finding(NAME, 2, false, LOST),
            finding(OTHER, 0, false, LOST),
            finding("nobody", 1, false, LOST),
            finding("", 0, false, LOST),
        ],
    );
    let status = scene.registrar.status().unwrap();
    for driver in &status.drivers {
        assert_eq!((driver.in_cluster, &driver.cluster_checked), (None, &None));
        assert!(!reason(driver).contains("cluster"), "{driver:?}");
    }
    assert!(!scene.registrar.logs().contains(LOST));
}

#[test]
fn a_word_about_a_registration_ends_with_it() {
    for way in ["reannounce", "restart of the kubelet", "withdraw"] {
        eprintln!("{way}");
        let scene = setup().kubelet(Release::V1_36).set();
        let mut scene = scene.registered();
        report(&scene, &[finding(NAME, 1, false, LOST)]);
        assert_eq!(driver(&scene).in_cluster, Some(false));
        match way {
            "reannounce" => drop(scene.registrar.succeed(&["reannounce", NAME])),
            "withdraw" => {
                scene.registrar.succeed(&["withdraw", NAME]);
                assert_eq!(driver(&scene).in_cluster, None);
                scene.registrar.succeed(&["publish", NAME]);
            }
            _ => scene.kubelet.restart(),
        }
        scene.wait_driver("registered again", |driver| {
            assert!(
                driver.registrations == 1 || driver.in_cluster.is_none(),
                "{driver:?}"
            );
            driver.phase == "registered" && driver.registrations == 2
        });
        assert_eq!(driver(&scene).cluster_checked, None);
        scene.registrar.succeed(&["status"]);
        // What verify still says of the registration before is late.
        report(&scene, &[finding(NAME, 1, false, LOST)]);
        assert_eq!(driver(&scene).in_cluster, None);
    }
}

#[test]
fn a_word_survives_a_restart_of_the_daemon_and_the_kubelet_notices_nothing() {
    let (mut scene, _driver, kubelet) = setup().http().more(KEEP).registered();
    report(&scene, &[finding(NAME, 1, false, LOST)]);
    let (before, mark) = (driver(&scene), kubelet.mark());
    let checked = |scene: &Scene| {
        let metrics = get(&scene.http(), "/metrics").body;
        let mut lines = metrics.lines().map(str::to_owned);
        lines.find(|line| line.starts_with("nsdr_cluster_checked_timestamp_seconds "))
    };
    let checked_before = checked(&scene).unwrap();
    for end in ["kill -9", "stop"] {
        match end {
            "stop" => drop(scene.registrar.stop()),
            _ => scene.registrar.kill9(),
        }
        scene.registrar.start();
        let is_back = |driver: &DriverStatus| driver.phase == "registered" && driver.answering;
        let after = scene
            .registrar
            .wait_driver("it is back", NAME, SOON, is_back);
        assert_eq!(after.cluster_checked, before.cluster_checked, "{end}");
        assert_eq!(words(&after), words(&before), "{end}");
        assert_eq!(checked(&scene).as_ref(), Some(&checked_before), "{end}");
    }
    let counts = kubelet.counts_since(mark);
    assert_eq!((counts.registrations, counts.deregistrations), (0, 0));
    // The journal has said it: a restart does not say it again.
    report(&scene, &[finding(NAME, 1, false, LOST)]);
    assert_eq!(scene.registrar.logs().matches(LOST).count(), 1);
}

#[test]
fn a_state_file_with_a_bad_word_costs_the_word_and_no_registration() {
    let (mut scene, _driver, kubelet) = setup().registered();
    report(&scene, &[finding(NAME, 1, true, "")]);
    let file = scene.node.runtime_dir().join("state.json");
    let checked = driver(&scene).cluster_checked.unwrap();
    let mark = kubelet.mark();
    scene.registrar.kill9();
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.matches(&checked).count() >= 2, "{text}");
    fs::write(&file, text.replace(&checked, "yesterday")).unwrap();
    scene.registrar.start();
    let after = scene.phase(NAME, "registered");
    assert_eq!((after.in_cluster, after.registrations), (None, 1));
    assert!(!scene.registrar.logs().contains("not trusted"));
    assert_eq!(kubelet.counts_since(mark).deregistrations, 0);
}

#[test]
fn a_word_goes_with_the_driver_to_another_id() {
    let (scene, _driver, _kubelet) = setup().registered();
    report(&scene, &[finding(NAME, 1, false, LOST)]);
    let table = format!(
        "[drivers.new]\ncsi_socket = {:?}\n",
        scene.node.csi_socket(NAME)
    );
    scene.node.write_default_config(&[], &table);
    scene.registrar.succeed(&["reload"]);
    let renamed = scene.phase("new", "registered");
    assert_eq!(
        (renamed.in_cluster, renamed.registrations),
        (Some(false), 1)
    );
    report(&scene, &[finding("new", 1, true, "")]);
    assert_eq!(scene.phase("new", "registered").in_cluster, Some(true));
}

#[test]
fn the_journal_and_systemd_are_told_once_for_each_registration_of_a_loss_and_once_of_its_end() {
    let (mut scene, notify) = under_systemd(&[NAME], "");
    scene.registrar.start();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    let by = reason(&scene.phase(NAME, "registered")).to_owned();
    for _ in 0..3 {
        report(&scene, &[finding(NAME, 1, false, LOST)]);
    }
    let status = format!("1 of 1 drivers registered; {NAME}: {by}, but {LOST}");
    eventually("systemd is told", SOON, || {
        let told = notify.status();
        (told.as_ref() == Some(&status))
            .then_some(())
            .ok_or(format!("{told:?}"))
    });
    // A new registration may not help: that is no end of the loss, and is told once more.
    scene.registrar.succeed(&["reannounce", NAME]);
    scene
        .registrar
        .wait_driver("registered again", NAME, SOON, |driver| {
            driver.registrations == 2
        });
    report(&scene, &[finding(NAME, 2, false, LOST)]);
    let warning = format!("{NAME}: registered by the kubelet, but {LOST}");
    let logs = || scene.registrar.logs();
    report(&scene, &[finding(NAME, 2, false, LOST)]);
    assert_eq!(logs().matches(&warning).count(), 2, "{}", logs());
    assert!(!logs().contains("in the cluster again"));
    for _ in 0..3 {
        report(&scene, &[finding(NAME, 2, true, "")]);
    }
    let back = format!("{NAME}: in the cluster again after ");
    eventually("the journal is told", SOON, || {
        logs().matches(&back).count() == 1
    });
    stays("it is said once", A_WHILE, || {
        logs().matches(&back).count() == 1
    });
    assert_eq!(
        notify.status().as_deref(),
        Some("1 of 1 drivers registered")
    );
}

#[test]
fn hostile_text_in_a_report_stays_text() {
    let (scene, _driver, _kubelet) = setup().http().registered();
    let hostile = format!("<script>\u{1b}[2J\nx\u{202e}{}", "y".repeat(10_000));
    report(&scene, &[finding(NAME, 1, false, &hostile)]);
    report(&scene, &[finding("\u{1b}[2J\nnobody", 1, false, &hostile)]);
    let table = stdout(&scene.registrar.run_cli(["status"]));
    let page = get(&scene.http(), "/").body;
    let ready = get(&scene.http(), "/readyz").body;
    for shown in [&table, &page, &ready, &scene.registrar.logs()] {
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
        assert!(shown.contains("yyy…"), "{shown}");
        assert!(shown.len() < 20_000, "{} bytes", shown.len());
    }
    assert!(!page.contains("<script"), "{page}");
    assert_eq!(ready.lines().count(), 1, "{ready}");
    // A report that is larger than a message may be is refused as a whole.
    let huge = finding(NAME, 1, true, &"y".repeat(8 << 20));
    assert!(report_cluster(&scene.control(), vec![huge]).is_err());
    assert_eq!(driver(&scene).in_cluster, Some(false));
}

/// Only a report is news, and not that time goes by.
#[test]
fn watching_tells_of_reports_and_not_of_ages() {
    let (scene, _driver, _kubelet) = setup().registered();
    report(&scene, &[finding(NAME, 1, true, "")]);
    let output = scene.node.root().join("watching");
    let mut command = scene.registrar.command("status");
    let _watching = Process::logging(command.args(["--watch", "--json"]), &output);
    let told = || -> Vec<Option<bool>> {
        let lines = fs::read_to_string(&output).unwrap_or_default();
        let statuses = lines.lines().map(|line| Status::parse(line.as_bytes()));
        statuses
            .map(|status| status.driver(NAME).unwrap().in_cluster)
            .collect()
    };
    eventually("the first status", SOON, || told() == [Some(true)]);
    stays("an age is no news", 4 * A_WHILE, || told().len() == 1);
    report(&scene, &[finding(NAME, 1, false, LOST)]);
    eventually("the report is news", SOON, || {
        told() == [Some(true), Some(false)]
    });
}

#[test]
fn a_repair_announces_as_reannounce_does_and_does_not_say_by_hand() {
    let (scene, _driver, kubelet) = setup().registered();
    let mark = kubelet.mark();
    report(&scene, &[finding(NAME, 1, false, LOST)]);
    repair(&scene.control(), NAME, 1).unwrap();
    let repaired = scene
        .registrar
        .wait_driver("registered again", NAME, SOON, |driver| {
            driver.registrations == 2 && driver.phase == "registered"
        });
    assert_eq!((repaired.announcements, repaired.in_cluster), (2, None));
    let counts = kubelet.counts_since(mark);
    assert_eq!((counts.registrations, counts.deregistrations), (1, 1));
    let logs = scene.registrar.logs();
    let line = format!("{NAME}: announced again: the cluster had lost the driver");
    assert!(logs.contains(&line), "{logs}");
    assert!(!logs.contains("by hand"), "{logs}");
}

#[track_caller]
fn refused<K, D>(scene: &Scene<K, D>, words: &str) {
    let announcements = driver(scene).announcements;
    let refusal = repair(&scene.control(), NAME, 1).unwrap_err();
    assert_eq!(refusal.code(), Code::FailedPrecondition);
    assert!(refusal.message().contains(words), "{refusal}");
    assert_eq!(driver(scene).announcements, announcements);
}

#[test]
fn a_driver_that_is_not_registered_is_not_repaired() {
    let scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    refused(&scene, "has no link");
    let mut behaving = scene.node.driver(NAME);
    scene.wait_published(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    refused(
        &scene,
        "is not registered, and cannot be repaired: waiting-for-kubelet: the link exists",
    );
    let kubelet = scene.node.kubelet();
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    behaving.kill();
    scene.reason(NAME, "registered", "not responding");
    refused(&scene, "does not answer");
    let unknown = repair(&scene.control(), "nobody", 1).unwrap_err();
    assert!(
        unknown.message().contains("there is no driver"),
        "{unknown}"
    );
}

/// The kubelet has started again since verify looked, and the cluster has what it wrote.
#[test]
fn a_driver_that_was_registered_again_is_not_repaired() {
    let (scene, _driver, kubelet) = setup().registered();
    repair(&scene.control(), NAME, 1).unwrap();
    scene
        .registrar
        .wait_driver("registered again", NAME, SOON, |driver| {
            driver.registrations == 2 && driver.phase == "registered"
        });
    let mark = kubelet.mark();
    refused(&scene, "was registered again since the cluster was asked");
    assert_eq!(kubelet.counts_since(mark).api_writes(), 0);
}

#[test]
fn a_report_that_comes_late_shows_its_age_and_replaces_no_newer_one() {
    let (scene, _driver, _kubelet) = setup().registered();
    let minute = Duration::from_secs(60);
    let late = |in_cluster, age| {
        let findings = vec![finding(NAME, 1, in_cluster, "")];
        report_cluster_late(&scene.control(), findings, age).unwrap();
    };
    late(false, 2 * minute);
    let word = reason(&driver(&scene)).to_owned();
    assert!(word.contains("(checked 2m ago)"), "{word}");
    late(true, minute);
    assert_eq!(driver(&scene).in_cluster, Some(true));
    late(false, 2 * minute);
    assert_eq!(driver(&scene).in_cluster, Some(true));
    late(false, Duration::ZERO);
    assert_eq!(driver(&scene).in_cluster, Some(false));
}

/// The kubelet would refuse the driver, which is registered now, and the driver would be lost for good.
#[test]
fn a_driver_whose_topology_collides_is_not_repaired() {
    let in_zone = |zone: &str| Behaviour::named(NAME).with_topology("zone", zone);
    let mut scene = setup().kubelet(Release::V1_36).set();
    scene.driver.change(in_zone("a"));
    let mut scene = scene.registered();
    let mark = scene.kubelet.mark();
    scene.driver.restart(in_zone("b"));
    scene.wait_reason("remove the label");
    refused(&scene, "the kubelet would refuse it: kept as registered");
    report(&scene, &[finding(NAME, 1, false, LOST)]);
    let reason = reason(&driver(&scene)).to_owned();
    assert!(
        reason.contains(&format!("then reannounce; {LOST} (checked ")),
        "{reason}"
    );
    scene.ends_registered(mark, 0, 0);
}

/// Nothing is known of the answer yet: it may be one that the kubelet refuses.
#[test]
fn a_driver_that_has_not_answered_since_the_restart_is_not_repaired() {
    let (mut scene, mut behaving, _kubelet) = setup().registered();
    scene.registrar.kill9();
    behaving.kill();
    behaving.restart(Behaviour::named(NAME).hanging_on(Call::NodeGetInfo));
    scene.registrar.start();
    scene.phase(NAME, "registered");
    let refusal = repair(&scene.control(), NAME, 1).unwrap_err();
    assert_eq!(refusal.code(), Code::FailedPrecondition, "{refusal}");
    assert_eq!(driver(&scene).announcements, 1);
}
