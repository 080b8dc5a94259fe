//! The name of the node: from the command line, the configuration, the API server, the kubelet or the host.

use std::process::Command;

use bed::scene::reason;
use bed::{Container, Node, skipped};
use nix::unistd::gethostname;

use super::{NODE, Stage, run};
use crate::discovery::kubelet_root::{Impostor, alone};

#[test]
fn the_api_server_tells_the_name_from_1_26_on() {
    let _alone = alone();
    let stage = Stage::set();
    for minor in [36, 28, 27, 26] {
        stage.change(|state| state.minor = minor);
        let verdict = stage.verify(&[]);
        verdict.ends_with(0);
        assert_eq!(verdict.report["node"], NODE);
    }
    // Before that, the name of the host is tried, and the Node authorizer refuses it.
    stage.change(|state| state.minor = 25);
    let verdict = stage.verify(&[]);
    verdict.ends_with(69).says("403").says("cluster.node_name");
}

#[test]
fn the_name_of_the_host_is_the_last_resort() {
    let _alone = alone();
    let name = gethostname().unwrap().into_string().unwrap().to_lowercase();
    if name.contains('_') {
        return skipped("a host name that a Node may have");
    }
    let stage = Stage::on(Node::new(), "", &name);
    stage.change(|state| state.minor = 20);
    let verdict = stage.verify(&[]);
    verdict.ends_with(0);
    assert_eq!(verdict.report["node"], name);
}

#[test]
fn a_running_kubelet_names_its_kubeconfig_and_its_node() {
    let _alone = alone();
    let stage = Stage::set();
    stage.change(|state| state.minor = 25);
    let mut command = stage.scene.registrar.command("verify");
    command.arg("--json");
    let kubeconfig = format!("--kubeconfig={}", stage.kubeconfig.display());
    let flags = [kubeconfig, "--hostname-override=Node-1".to_owned()];
    let running = Impostor::with_flags(&flags);
    let verdict = run(&mut command);
    verdict.ends_with(0);
    assert_eq!(verdict.report["node"], NODE);
    // A second kubelet with another kubeconfig: which of them is it?
    let other = Impostor::with_flags(&["--kubeconfig=/nonexistent/other.conf".to_owned()]);
    run(&mut command)
        .ends_with(69)
        .says("/nonexistent/other.conf");
    // The operator says which.
    stage.verify(&["--node", NODE]).ends_with(0);
    drop((running, other));
    run(&mut command).ends_with(69);
}

/// Root in a container can call its process kubelet and name any file: in its own pid namespace, as pods do, or
/// in the node's (hostPID), or with the node's files and its own mounts.
#[test]
fn no_process_in_a_container_names_the_kubeconfig() {
    if !Container::can_be_had() {
        return;
    }
    let _alone = alone();
    let stage = Stage::set();
    let view = |name: &str| Container::new(stage.scene.node.root().join(name));
    let mut own_mounts = Command::new("unshare");
    own_mounts.args(["--mount", "bash"]);
    let containers = [
        view("pod").with_own_pids().command("bash"),
        view("host-pid").command("bash"),
        own_mounts,
    ];
    let other = "--kubeconfig=/nonexistent/other.conf";
    let contained = containers.map(|container| Impostor::within(container, other));
    // As under the shipped unit, which may not read other processes' files.
    let asked = stage.scene.registrar.command("verify");
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set=-all", "--inh-caps=-all"])
        .arg(asked.get_program())
        .args(asked.get_args())
        .arg("--json");
    run(&mut command).ends_with(69).says("kubeconfig");
    let own = format!("--kubeconfig={}", stage.kubeconfig.display());
    let _own = Impostor::with_flags(&[own]);
    let verdict = run(&mut command);
    verdict.ends_with(0);
    assert_eq!(verdict.report["node"], NODE);
    drop(contained);
}

#[test]
fn an_operator_names_the_node() {
    let node = Node::new();
    let stage = Stage::on(node, "[cluster]\nnode_name = \"node-1\"\n", NODE);
    stage.change(|state| state.minor = 25);
    stage.verify(&[]).ends_with(0);
    assert!(
        stage
            .server
            .requests()
            .iter()
            .all(|request| request.method == "GET")
    );
    // The flag takes precedence; the Node authorizer refuses the name of another node.
    let verdict = stage.verify(&["--node", "node-2"]);
    verdict.ends_with(69).says("403").says("nodes/node-2");
    stage.server.take_requests();
    for bad in ["../nodes", "Node-1", "", "a/b", "node-1?x=", "-x"] {
        stage.verify(&["--node", bad]).ends_with(64);
    }
    assert_eq!(stage.server.requests(), []);
}

#[test]
fn an_administrators_kubeconfig_needs_the_name() {
    let _alone = alone();
    let mut stage = Stage::set();
    let directory = stage.scene.node.root().join("admin");
    stage.kubeconfig = stage
        .server
        .kubeconfig()
        .user("kubernetes-admin")
        .write(&directory);
    stage.verify(&["--node", NODE]).ends_with(0);
    // Without it the name of this host is taken, which the test cluster does not have.
    let verdict = stage.verify(&[]);
    verdict.ends_with(1).says("the daemon is not told");
    assert_eq!(verdict.report["node_found"], false);
    assert_eq!(stage.driver().in_cluster, Some(true));
}

#[test]
fn a_mistyped_name_in_the_configuration_is_not_told_to_the_daemon() {
    let _alone = alone();
    let node = Node::new();
    let mut stage = Stage::on(node, "[cluster]\nnode_name = \"node-2\"\n", NODE);
    let directory = stage.scene.node.root().join("admin");
    let kubeconfig = stage.server.kubeconfig().user("kubernetes-admin");
    stage.kubeconfig = kubeconfig.write(&directory);
    stage.is_not_told(&[]);
}

/// Without the API server's word for the name, the kubelet's own kubeconfig makes it certain.
#[test]
fn a_missing_node_of_the_running_kubelet_is_told_to_the_daemon() {
    let _alone = alone();
    let stage = Stage::set();
    stage.change(|state| {
        state.minor = 25;
        (state.node, state.csi_node) = (None, None);
    });
    let kubeconfig = format!("--kubeconfig={}", stage.kubeconfig.display());
    let flags = [kubeconfig, format!("--hostname-override={NODE}")];
    let _running = Impostor::with_flags(&flags);
    let mut command = stage.scene.registrar.command("verify");
    run(command.arg("--json")).ends_with(1);
    let driver = stage.driver();
    assert_eq!(driver.in_cluster, Some(false));
    assert!(
        reason(&driver).contains("the Node object node-1 does not exist"),
        "{driver:?}"
    );
}
