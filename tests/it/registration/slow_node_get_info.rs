//! A driver whose NodeGetInfo is slow, for example because it asks a cloud: it gets as much time as a
//! kubelet gives it.

use std::time::Duration;

use bed::driver::Call;
use bed::scene::{NAME, OTHER, SOON, is_nothing};
use bed::{Behaviour, NotifySocket, eventually, identity};

use crate::setup;

/// Less than the drivers here take.
const IMPATIENT: &str = "[defaults]\nrequest_timeout = \"300ms\"\nretry_max = \"50ms\"\n";
/// Longer than request_timeout there.
const LONG: Duration = Duration::from_millis(1500);
const SLOW: &str = "NodeGetInfo has taken longer than 300ms; waiting up to 2m for it";

fn hanging() -> Behaviour {
    Behaviour::named(NAME).hanging_on(Call::NodeGetInfo)
}

#[test]
fn a_driver_whose_node_get_info_takes_longer_than_a_call_may_is_registered() {
    let scene = setup().more(IMPATIENT).started();
    let kubelet = scene.node.kubelet();
    let slow = Behaviour::named(NAME).taking(Call::NodeGetInfo, LONG);
    let driver = scene.node.behaving(NAME, slow);
    let status = scene.reason(NAME, "waiting-for-driver", SLOW);
    assert_eq!(status.last_error, None);
    assert!(is_nothing(&scene.node.link(NAME)));
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    // The registrar called once, and the kubelet called once.
    assert_eq!(driver.called(Call::NodeGetInfo), 2);
}

#[test]
fn node_info_timeout_ends_the_wait_and_the_driver_is_asked_again() {
    let scene = setup()
        .more(format!("{IMPATIENT}node_info_timeout = \"600ms\"\n"))
        .started();
    let driver = scene.node.behaving(NAME, hanging());
    scene.reason(
        NAME,
        "waiting-for-driver",
        "does not answer: NodeGetInfo took longer than 600ms",
    );
    eventually("it is asked again", SOON, || {
        driver.called(Call::NodeGetInfo) > 3
    });
    // The reason does not change with each retry.
    let slow = scene.registrar.logs().matches("has taken longer").count();
    assert_eq!(slow, 1);
}

#[test]
fn another_call_that_hangs_does_not_wait_for_node_get_info() {
    let scene = setup().more(IMPATIENT).started();
    let _driver = scene
        .node
        .behaving(NAME, hanging().hanging_on(Call::GetPluginInfo));
    scene.reason(
        NAME,
        "waiting-for-driver",
        "GetPluginInfo took longer than 300ms",
    );
}

#[test]
fn ready_does_not_wait_for_a_slow_node_get_info() {
    let scene = setup().more(IMPATIENT).set();
    let systemd = NotifySocket::bind(scene.node.root().join("notify"));
    let mut scene = scene.with_env("NOTIFY_SOCKET", systemd.path());
    let _driver = scene.node.behaving(NAME, hanging());
    scene.registrar.start();
    systemd.wait_for("READY=1", SOON);
    scene.reason(NAME, "waiting-for-driver", SLOW);
}

#[test]
fn a_driver_that_dies_or_restarts_during_a_call_is_noticed() {
    let scene = setup().more(IMPATIENT).started();
    let mut driver = scene.node.behaving(NAME, hanging());
    scene.reason(NAME, "waiting-for-driver", SLOW);
    driver.kill();
    scene.reason(NAME, "waiting-for-driver", "no process listens on");
    driver.restart(hanging());
    // The registrar reaches the driver again, and the earlier error is cleared.
    let status = scene.reason(NAME, "waiting-for-driver", SLOW);
    assert_eq!(status.last_error, None);
    // The old driver still hangs, and another driver takes its socket's path.
    std::fs::remove_file(driver.path()).unwrap();
    scene.reason(NAME, "waiting-for-driver", "waiting for");
    let _successor = bed::FakeDriver::start(driver.path(), Behaviour::named(NAME));
    scene.wait_published(NAME);
}

#[test]
fn a_slow_driver_delays_neither_a_reload_nor_a_withdrawal() {
    let scene = setup().more(IMPATIENT).started();
    let driver = scene.node.behaving(NAME, hanging());
    scene.reason(NAME, "waiting-for-driver", SLOW);
    scene.registrar.succeed(&["withdraw", NAME]);
    scene.phase(NAME, "withdrawn");
    scene.registrar.succeed(&["publish", NAME]);
    scene.node.write_default_config(&[NAME, OTHER], IMPATIENT);
    scene.registrar.succeed(&["reload"]);
    let _other = scene.node.driver(OTHER);
    scene.wait_published(OTHER);
    scene.reason(NAME, "waiting-for-driver", SLOW);
    assert_eq!(driver.called(Call::NodeGetInfo), 1);
    assert!(identity(&scene.node.link(NAME)).is_none());
}
