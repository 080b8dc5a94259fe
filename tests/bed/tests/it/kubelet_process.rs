//! The kubelet in its own process, and single calls of a kubelet.

use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bed::kubelet::{Event, KubeletProcess};
use bed::scene::{NAME, SOON};
use bed::{Behaviour, FakeDriver, Node, Release, eventually, wire};

use crate::scene::ROUNDS;
use crate::stand_in::StandIn;

fn parties(node: &Node) -> (FakeDriver, StandIn) {
    let behaviour = Behaviour::named(NAME).with_topology("zone", "a");
    let driver = FakeDriver::start_in_new_directory(node.csi_socket(NAME), behaviour);
    std::fs::create_dir_all(node.registry_dir()).unwrap();
    let registrar = StandIn::serve(&node.reg_socket(NAME), NAME, driver.path());
    (driver, registrar)
}

#[test]
fn registers_from_a_process_of_its_own_and_survives_kill_9() {
    let node = Node::new();
    let (_driver, registrar) = parties(&node);
    let mut kubelet = KubeletProcess::start(node.kubelet_settings(Release::V1_35));
    symlink(&registrar.path, node.link(NAME)).unwrap();
    kubelet.wait_registered(NAME, SOON);
    let first = kubelet.pid().unwrap();
    assert_ne!(first, std::process::id());

    kubelet.kill9();
    assert!(kubelet.registered().is_empty() && kubelet.pid().is_none());
    let socket = kubelet.settings().pod_resources_socket();
    UnixStream::connect(&socket).unwrap_err();

    let mark = kubelet.mark();
    kubelet.restart();
    UnixStream::connect(&socket).unwrap();
    kubelet.wait_registered(NAME, SOON);
    assert_ne!(kubelet.pid().unwrap(), first);
    // The API objects survive the process.
    let counts = kubelet.counts_since(mark);
    assert_eq!((counts.registrations, counts.api_writes()), (1, 0));
    let records = kubelet.records();
    assert_eq!(records.last().unwrap().generation, 2);
    assert!(records.is_sorted_by_key(|record| record.at));
}

#[test]
fn takes_faults_and_labels_from_its_owner() {
    let node = Node::new();
    let (_driver, registrar) = parties(&node);
    let mut kubelet = KubeletProcess::start(node.kubelet_settings(Release::V1_36));
    kubelet.fault(|faults| faults.refuse = Some("closed".to_owned()));
    symlink(&registrar.path, node.link(NAME)).unwrap();
    kubelet.wait_for("refuse", Default::default(), SOON, |event| {
        matches!(event, Event::Rejected { .. })
    });
    kubelet.fault(|faults| faults.refuse = None);
    kubelet.wait_registered(NAME, SOON);
    assert_eq!(kubelet.cluster().labels["zone"], "a");
    kubelet.remove_label("zone");
    assert!(kubelet.cluster().labels.is_empty());
}

#[test]
fn the_watcher_can_come_well_after_pod_resources() {
    let node = Node::new();
    let (_driver, registrar) = parties(&node);
    std::fs::create_dir_all(node.plugins_registry()).unwrap();
    let late = node
        .kubelet_settings(Release::V1_24)
        .with_watcher_delay(Duration::from_millis(400));
    let mut kubelet = KubeletProcess::start(late.clone());
    UnixStream::connect(late.pod_resources_socket()).unwrap();
    // A kubelet before 1.25 misses a link that was created in between.
    symlink(&registrar.path, node.link(NAME)).unwrap();
    kubelet.wait_for("watch", Default::default(), SOON, |event| {
        *event == Event::Watching
    });
    bed::never("it registers", ROUNDS, || !kubelet.registered().is_empty());
    let before = late.pod_resources_socket().metadata().unwrap().ctime_nsec();
    kubelet.restart();
    assert_ne!(
        late.pod_resources_socket().metadata().unwrap().ctime_nsec(),
        before
    );
    kubelet.restart_as(
        node.kubelet_settings(Release::V1_36)
            .without_pod_resources(),
    );
    UnixStream::connect(late.pod_resources_socket()).unwrap_err();
    kubelet.wait_registered(NAME, SOON);
}

#[test]
fn a_call_by_hand_holds_its_connection() {
    let node = Node::new();
    let (driver, registrar) = parties(&node);
    let call = wire::RegistrationCall::open(&registrar.path).unwrap();
    let info = call.get_info().unwrap();
    assert_eq!(info.endpoint, driver.path().to_str().unwrap());
    call.notify(Some("no")).unwrap();
    wire::notify(&registrar.path, None).unwrap();
    let told = eventually("two Notifys", SOON, || {
        let told = registrar.told();
        (told.len() == 2).then_some(told)
    });
    assert_eq!(told[0].error, "no");
    assert!(told[1].plugin_registered);
    assert_eq!(wire::get_info(&registrar.path).unwrap().name, NAME);
    wire::get_info(&node.root().join("none")).unwrap_err();
}

#[tokio::test]
async fn the_handles_work_inside_a_runtime() {
    let node = Node::new();
    let (_driver, registrar) = parties(&node);
    let kubelet = bed::TestKubelet::start(node.kubelet_settings(Release::V1_36));
    symlink(&registrar.path, node.link(NAME)).unwrap();
    kubelet.wait_registered(NAME, SOON);
    assert_eq!(wire::get_info(&registrar.path).unwrap().name, NAME);
}
