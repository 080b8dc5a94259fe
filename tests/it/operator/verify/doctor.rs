//! The doctor's last question: does the cluster have the drivers?

use bed::api_server::Fault;
use bed::{Node, stdout};

use super::Stage;

/// A node whose configuration names the kubeconfig, for the doctor has no option for it.
fn configured() -> Stage {
    let node = Node::new();
    let path = node.root().join("pki/kubelet.conf");
    Stage::on(
        node,
        &format!("[cluster]\nkubeconfig = {path:?}\n"),
        "node-1",
    )
}

/// The doctor's exit code and words.
fn doctor(stage: &Stage) -> (Option<i32>, String) {
    let output = stage.scene.registrar.run_cli(["doctor"]);
    (output.status.code(), stdout(&output))
}

#[test]
fn the_doctor_names_what_the_cluster_has_lost_and_what_fixes_it() {
    let stage = configured();
    let (code, text) = doctor(&stage);
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains("not asked"), "{text}");
    assert_eq!(stage.server.take_requests().len(), 4);

    stage.change(|state| state.csi_node = None);
    let (code, text) = doctor(&stage);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("CSINode node-1 does not list it"), "{text}");
    assert!(text.contains("verify --repair"), "{text}");
    // The doctor changes nothing, also not what is shown.
    assert_eq!(stage.driver().in_cluster, None);
    assert_eq!(stage.announcements(), 1);

    stage.restore();
    stage.change(|state| state.csi_drivers.clear());
    let (code, text) = doctor(&stage);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("no CSIDriver object"), "{text}");
}

#[test]
fn a_cluster_that_cannot_be_asked_is_one_line_of_the_doctor_and_no_fault() {
    let stage = configured();
    stage.server.fault("/", Fault::Status(500));
    let (code, text) = doctor(&stage);
    assert_eq!(code, Some(0), "{text}");
    let lines = text.lines().filter(|line| line.contains("not asked"));
    assert_eq!(lines.count(), 1, "{text}");
    assert!(text.contains(&stage.server.url()), "{text}");
}

#[test]
fn a_loss_that_the_daemon_knows_of_is_a_fault_while_the_cluster_cannot_be_asked() {
    let stage = configured();
    stage.change(|state| state.csi_node = None);
    stage.verify(&[]).ends_with(1);
    stage.server.fault("/", Fault::Status(500));
    let (code, text) = doctor(&stage);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("CSINode node-1 does not list it (checked"),
        "{text}"
    );
    assert!(text.contains("not asked"), "{text}");
}
