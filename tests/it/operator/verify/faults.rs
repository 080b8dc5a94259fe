//! API servers that are down, hang, refuse or lie: exit 69, and nothing changes for any driver.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use bed::api_server::{Door, Fault};
use bed::kubelet::Counts;
use bed::scene::{NAME, nothing_since};
use bed::{ApiServer, DriverStatus};
use serde_json::{Value, json};

use super::{Stage, Verdict};

/// More than `--timeout`: the machine may be busy.
const LATEST: Duration = Duration::from_secs(15);
/// For an answer that comes, however slow the machine is.
const LONG: &str = "10s";
/// For an answer that does not come.
const SHORT: &str = "1s";

/// The status without the age of the cluster's word.
fn unchanged(driver: &DriverStatus) -> DriverStatus {
    let mut driver = driver.clone();
    let text = driver.reason.take().unwrap();
    driver.reason = text.split("; in the cluster").next().map(str::to_owned);
    driver
}

/// The run ends in time with 69 and names the server, and the daemon notices nothing.
#[track_caller]
fn is_not_asked(stage: &Stage, what: &str, words: &str, run: impl FnOnce() -> Verdict) {
    let before = unchanged(&stage.driver());
    let mark = stage.scene.kubelet.mark();
    let start = Instant::now();
    let verdict = run();
    assert!(start.elapsed() < LATEST, "{what}: {:?}", start.elapsed());
    assert_eq!(
        verdict.code,
        Some(69),
        "{what}: {} {}",
        verdict.report,
        verdict.words
    );
    assert_eq!(verdict.report, Value::Null, "{what}");
    assert_eq!(
        verdict.words.lines().count(),
        1,
        "{what}: {}",
        verdict.words
    );
    for words in ["error: the cluster could not be asked: ", words] {
        assert!(
            verdict.words.contains(words),
            "{what}: no {words:?} in {}",
            verdict.words
        );
    }
    assert_eq!(unchanged(&stage.driver()), before, "{what}");
    assert_eq!(
        stage.scene.kubelet.counts_since(mark),
        Counts::default(),
        "{what}"
    );
}

fn other_kind() -> Value {
    json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": []})
}

/// Every answer that is none, the time for it, and words of the reason.
fn faults(other: &ApiServer) -> Vec<(Fault, &'static str, &'static str)> {
    let long = |(fault, words)| (fault, LONG, words);
    let short = |(fault, words)| (fault, SHORT, words);
    let at_once = [
        (Fault::Status(401), "401"),
        (Fault::Status(403), "403"),
        (Fault::Status(409), "409"),
        (Fault::Status(500), "500"),
        (Fault::TooManyRequests(3600), "429"),
        (Fault::TooManyRequests(u64::MAX), "429"),
        (Fault::NoPage, "404 of another server"),
        (Fault::Redirect(other.url()), "307"),
        (Fault::NotJson, "it is not JSON"),
        (Fault::Object(other_kind()), "cannot be used"),
        (Fault::Huge, "cannot be used"),
        (Fault::Cut, "cannot be used"),
    ];
    let in_the_end = [
        (Fault::Status(503), "503"),
        (Fault::TooManyRequests(1), "429"),
        (Fault::Hang, "did not answer within 1s"),
        (Fault::Drip, "did not answer within 1s"),
    ];
    let at_once = at_once.into_iter().map(long);
    at_once.chain(in_the_end.into_iter().map(short)).collect()
}

const PATHS: [&str; 2] = ["/api/v1/nodes/", "/apis/storage.k8s.io/v1/csinodes/"];

#[test]
fn what_is_only_told_fails_no_run() {
    let stage = Stage::set();
    let other = ApiServer::start("node-1");
    for (fault, timeout, words) in faults(&other) {
        stage
            .server
            .fault("/apis/storage.k8s.io/v1/csidrivers/", fault);
        let verdict = stage.verify(&["--timeout", timeout]);
        verdict
            .ends_with(0)
            .says("which CSIDriver objects exist is not known")
            .says(words);
        assert_eq!(verdict.differences(), json!([]));
    }
}

#[test]
fn a_node_of_another_machine_is_not_compared() {
    let stage = Stage::settled();
    stage.change(|state| {
        state.csi_node = None;
        let node = state.node.as_mut().unwrap();
        node["status"]["nodeInfo"] = json!({"architecture": "", "bootID": "other", "containerRuntimeVersion": "",
            "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "",
            "operatingSystem": "", "osImage": "", "systemUUID": ""});
    });
    is_not_asked(&stage, "another machine", "runs on another machine", || {
        stage.verify(&["--repair"])
    });
    stage.restore();
    stage.verify(&[]).ends_with(0);
}

/// Hosts from one image may share their machine id.
#[test]
fn a_node_of_another_machine_with_the_same_machine_id_is_not_compared() {
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    if id.trim().is_empty() || Path::new("/run/systemd/container").exists() {
        return bed::skipped("a machine id, and a host that is no container");
    }
    let stage = Stage::settled();
    stage.change(|state| {
        state.csi_node = None;
        let node = state.node.as_mut().unwrap();
        node["status"]["nodeInfo"] = json!({"bootID": "other", "machineID": id.trim()});
    });
    is_not_asked(&stage, "another machine", "runs on another machine", || {
        stage.verify(&["--repair"])
    });
}

/// As after a boot, while the kubelet does not run.
#[test]
fn the_boot_of_a_node_does_not_matter_while_no_driver_is_registered() {
    let stage = Stage::set();
    stage.change(|state| {
        let node = state.node.as_mut().unwrap();
        node["status"]["nodeInfo"] = json!({"bootID": "other"});
    });
    stage
        .scene
        .registrar
        .succeed(&["withdraw", "--force", NAME]);
    stage.scene.phase(NAME, "withdrawn");
    stage.verify(&["--repair"]).ends_with(0);
}

/// An object that no kubelet has written to yet.
#[test]
fn a_node_that_does_not_say_on_which_machine_it_is_gets_no_repair() {
    let stage = Stage::settled();
    stage.change(|state| {
        state.csi_node = None;
        let node = state.node.as_mut().unwrap();
        node["status"]["nodeInfo"] = json!({});
    });
    let before = stage.announcements();
    let verdict = stage.verify(&["--repair"]);
    verdict
        .ends_with(1)
        .says("it is not known whether the Node object is this machine's")
        .says("the daemon is not told");
    assert_eq!(stage.announcements(), before);
    assert_eq!(stage.driver().in_cluster, None);
}

#[test]
fn a_mistyped_node_changes_nothing_that_is_shown() {
    let stage = Stage::set();
    stage.change(|state| (state.node, state.csi_node) = (None, None));
    stage.is_not_told(&["--node", "node-1"]);
    // It may be a kubeconfig of another cluster as well.
    stage.is_not_told(&[]);
}

#[test]
fn an_object_that_cannot_be_had_leaves_the_cluster_unasked() {
    bed::scene::for_each(&PATHS, |path| {
        let stage = Stage::settled();
        let other = ApiServer::start("node-1");
        // At first the daemon knows nothing of the cluster, and then that the cluster has the driver: a server
        // that fails is no reason to forget it, nor to announce.
        for round in 0..2 {
            for (fault, timeout, words) in faults(&other) {
                stage.server.fault(path, fault.clone());
                let what = format!("{fault:?} {path} {round}");
                is_not_asked(&stage, &what, words, || {
                    stage.verify(&["--repair", "--timeout", timeout])
                });
            }
            stage.server.heal();
            stage.verify(&[]).ends_with(0);
        }
        assert_eq!(stage.driver().in_cluster, Some(true));
        // No redirect was followed, with or without credentials.
        assert_eq!(other.requests(), []);
        assert!(!stage.memory().exists());
    });
}

#[test]
fn a_review_that_fails_leaves_the_cluster_unasked() {
    let stage = Stage::set();
    let other = ApiServer::start("node-1");
    for (fault, timeout, words) in faults(&other) {
        // 403 or a page without an object is the answer of a release that does not have it, and an object without a user
        // name tells none.
        let tells_nothing = [
            Fault::Status(403),
            Fault::NoPage,
            Fault::Object(other_kind()),
        ];
        let tells_nothing = tells_nothing.contains(&fault);
        stage.server.fault("/apis/authentication", fault.clone());
        if !tells_nothing {
            is_not_asked(&stage, &format!("{fault:?}"), words, || {
                stage.verify(&["--timeout", timeout])
            });
        }
    }
    assert_eq!(other.requests(), []);
}

#[test]
fn a_connection_that_cannot_be_had_leaves_the_cluster_unasked() {
    let stage = Stage::settled();
    for (door, words) in [
        (Door::HangsBeforeTls, "did not answer within 1s"),
        (Door::Closes, "cannot reach the API server"),
        (Door::OtherAuthority, "certificate"),
        (Door::NotHttp, "cannot reach the API server"),
    ] {
        stage.server.door(door);
        is_not_asked(&stage, &format!("{door:?}"), words, || {
            stage.verify(&["--repair", "--timeout", "1s"])
        });
        is_not_asked(&stage, &format!("{door:?}"), &stage.server.url(), || {
            stage.verify(&["--timeout", "1s"])
        });
    }
    assert_eq!(stage.server.requests(), []);
}

#[test]
fn a_server_that_is_down_or_far_away_leaves_the_cluster_unasked() {
    let mut stage = Stage::settled();
    let pki = stage.scene.node.root().join("far");
    for url in [
        // Nobody routes it, and nobody has the name.
        "https://192.0.2.1:6443",
        "https://api.invalid:6443",
        "https://[::1]:1",
    ] {
        stage.kubeconfig = stage.server.kubeconfig().url(url).write(&pki);
        is_not_asked(&stage, url, url, || stage.verify(&["--timeout", "1s"]));
    }
    stage.kubeconfig = stage.server.kubeconfig().write(&pki);
    let url = stage.server.url();
    stage.server = ApiServer::start("node-1");
    is_not_asked(&stage, "down", &url, || stage.verify(&["--repair"]));
}

#[test]
fn credentials_that_no_longer_count_are_named_with_their_kubeconfig() {
    let stage = Stage::set();
    stage.verify(&[]).ends_with(0);
    stage.server.revoke();
    let path = stage.kubeconfig.display().to_string();
    is_not_asked(&stage, "revoked", &path, || stage.verify(&[]));
    is_not_asked(&stage, "revoked", "401 Unauthorized", || stage.verify(&[]));
    // What the daemon was told before, it still shows.
    assert_eq!(stage.driver().in_cluster, Some(true));
}

#[test]
fn an_object_of_hostile_shape_does_no_harm() {
    let stage = Stage::set();
    let mark = stage.scene.kubelet.mark();
    type Change = fn(&mut Value);
    let changes: [Change; 9] = [
        |object| object["metadata"] = Value::Null,
        |object| object["metadata"]["name"] = "node-2".into(),
        |object| object["spec"] = "none".into(),
        |object| object["spec"]["drivers"] = "none".into(),
        |object| object["spec"]["drivers"] = json!([null]),
        |object| object["spec"]["drivers"] = json!([3, {}]),
        |object| object["metadata"]["ownerReferences"] = "none".into(),
        |object| *object = Value::Null,
        |object| *object = json!([object.clone()]),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut object = stage.server.state().csi_node.unwrap();
        change(&mut object);
        stage.server.fault(PATHS[1], Fault::Object(object));
        is_not_asked(&stage, &format!("{number}"), "cannot be used", || {
            stage.verify(&[])
        });
    }
    stage.restore();
    stage.change(|state| {
        let hostile = "\u{1b}[31mid\u{202e}\n".repeat(50);
        state.change_listed(NAME, |listed| listed["nodeID"] = hostile.into());
    });
    let mut command = stage.scene.registrar.command("verify");
    let output = command
        .arg("--kubeconfig")
        .arg(&stage.kubeconfig)
        .output()
        .unwrap();
    let text = bed::stdout(&output) + &bed::stderr(&output);
    assert!(
        !text.contains('\u{1b}') && !text.contains('\u{202e}'),
        "{text:?}"
    );
    let status = bed::stdout(&stage.scene.registrar.run_cli(["status"]));
    assert!(
        !status.contains('\u{1b}') && !status.contains('\u{202e}'),
        "{status:?}"
    );
    assert!(!stage.scene.registrar.logs().contains('\u{1b}'));
    nothing_since(&stage.scene.kubelet, mark);
}
