//! The kubelet's calls on reg.sock and through the link, and their answers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use bed::scene::{NAME, SOON, in_both_layouts};
use bed::wire::{RegistrationCall, get_info, notify};
use bed::{Behaviour, eventually, is_root, stdout};
use tonic::Code;

use crate::setup;

#[test]
fn get_info_and_notify_are_answered_on_the_socket_and_through_the_link() {
    in_both_layouts(|layout| {
        let (scene, driver) = setup().layout(layout).published();
        for (count, path) in [scene.node.reg_socket(NAME), scene.node.link(NAME)]
            .iter()
            .enumerate()
        {
            let info = get_info(path).unwrap();
            assert_eq!(info.r#type, "CSIPlugin");
            assert_eq!(info.name, NAME);
            assert_eq!(info.endpoint, driver.path().display().to_string());
            assert_eq!(info.supported_versions, ["1.0.0"]);
            notify(path, None).unwrap();
            let status = scene.phase(NAME, "registered");
            assert_eq!(status.registrations, count as u64 + 1);
            let words = format!("registered by kubelet (pid {})", std::process::id());
            assert_eq!(status.reason, Some(words));
        }
    });
}

#[test]
fn many_requests_on_one_connection_are_answered() {
    let (scene, _driver) = setup().published();
    let call = RegistrationCall::open(&scene.node.link(NAME)).unwrap();
    for _ in 0..20 {
        assert_eq!(call.get_info().unwrap().name, NAME);
    }
    call.notify(Some("first not")).unwrap();
    scene.phase(NAME, "rejected");
    call.notify(None).unwrap();
    scene.phase(NAME, "registered");
    assert_eq!(call.get_info().unwrap().name, NAME);
}

#[test]
fn the_kubelet_gets_the_configured_endpoint_and_versions() {
    let more = format!(
        "[drivers.{NAME:?}]\nendpoint = \"/seen/csi.sock\"\nsupported_versions = [\"1.0.0\", \"1.5.0\"]\n"
    );
    let scene = setup().drivers(&[]).more(&more).started();
    let _driver = scene.node.driver(NAME);
    let info = scene.wait_published(NAME);
    assert_eq!(info.endpoint, "/seen/csi.sock");
    assert_eq!(info.supported_versions, ["1.0.0", "1.5.0"]);
}

#[test]
fn get_info_is_unavailable_while_the_driver_does_not_answer() {
    in_both_layouts(|layout| {
        let (scene, mut driver, _kubelet) = setup().layout(layout).registered();
        driver.kill();
        scene.reason(NAME, "registered", "driver not responding");
        for path in [scene.node.reg_socket(NAME), scene.node.link(NAME)] {
            assert_eq!(get_info(&path).unwrap_err().code(), Code::Unavailable);
            // Notify still gets an answer: without it a kubelet from 1.36 on de-registers the driver.
            notify(&path, None).unwrap();
        }
        driver.restart(Behaviour::named(NAME));
        scene.wait_published(NAME);
    });
}

#[test]
fn a_refusal_is_shown_in_the_kubelets_own_words() {
    let (scene, _driver) = setup().published();
    let words = "detected topology value collision: \u{1b}[2J zone";
    notify(&scene.node.link(NAME), Some(words)).unwrap();
    let status = scene.reason(
        NAME,
        "rejected",
        "the kubelet said: detected topology value",
    );
    assert_eq!(status.rejections, 1);
    assert!(!status.reason.unwrap().contains('\u{1b}'));
    assert!(
        status
            .last_error
            .unwrap()
            .contains("topology value collision")
    );
    notify(&scene.node.link(NAME), None).unwrap();
    assert_eq!(scene.phase(NAME, "registered").last_error, None);
}

#[test]
fn both_sockets_are_for_their_owner_alone() {
    in_both_layouts(|layout| {
        let (scene, _driver) = setup().layout(layout).published();
        let control = scene.node.runtime_dir().join("control.sock");
        for path in [scene.node.reg_socket(NAME), control] {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
    });
}

/// The socket that [`foreign_caller`] calls.
const CALLED: &str = "NSDR_TEST_CALLED";

#[test]
#[ignore = "no test: a_caller_of_another_user_is_turned_away starts it"]
fn foreign_caller() {
    if let Some(path) = std::env::var_os(CALLED) {
        println!("answer: {:?}", get_info(Path::new(&path)));
    }
}

/// Runs this executable again as `nobody`, with or without CAP_DAC_OVERRIDE.
fn call_as_nobody(path: &Path, capabilities: &[&str]) -> Output {
    Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args(capabilities)
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "registration::registration_calls::foreign_caller",
            "--ignored",
            "--nocapture",
        ])
        .env(CALLED, path)
        .output()
        .unwrap()
}

#[test]
fn a_caller_of_another_user_is_turned_away() {
    if !is_root("call as another user") {
        return;
    }
    let (scene, _driver) = setup().published();
    let path = scene.node.reg_socket(NAME);
    let override_modes = [
        "--inh-caps",
        "+dac_override",
        "--ambient-caps",
        "+dac_override",
    ];
    let output = call_as_nobody(&path, &override_modes);
    assert!(stdout(&output).contains("answer: Err"), "{output:?}");
    eventually("the log tells of it", SOON, || {
        let logs = scene.registrar.logs();
        let told = "turned away a caller that is not root pid=";
        let told = logs.contains(told) && logs.contains("uid=65534");
        told.then_some(()).ok_or(logs)
    });
    // The test runs as root, whose calls are accepted.
    scene.wait_published(NAME);
}
