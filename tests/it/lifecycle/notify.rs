//! The messages to systemd, and when the daemon sends them.

use std::time::{Duration, Instant};

use bed::notify_socket::Message;
use bed::scene::{A_WHILE, NAME, OTHER, SOON};
use bed::{Behaviour, NotifySocket, RawListener, Scene, eventually, never, stays};

use crate::setup;

/// A scene that systemd would run, with this `[service]` table; not started yet.
pub(crate) fn under_systemd(drivers: &[&str], service: &str) -> (Scene, NotifySocket) {
    told_through(drivers, service, |scene| {
        NotifySocket::bind(scene.node.root().join("notify"))
    })
}

fn told_through(
    drivers: &[&str],
    service: &str,
    bind: impl Fn(&Scene) -> NotifySocket,
) -> (Scene, NotifySocket) {
    let more = format!("[service]\n{service}\n");
    let scene = setup().drivers(drivers).more(&more).set();
    let notify = bind(&scene);
    (scene.with_env("NOTIFY_SOCKET", notify.path()), notify)
}

#[test]
fn ready_comes_at_once_by_default_with_a_status() {
    let (mut scene, notify) = under_systemd(&[NAME, OTHER], "");
    scene.registrar.start();
    let ready = notify.wait_for("READY=1", SOON);
    let missing = scene.node.csi_socket(NAME);
    let status = &ready.fields["STATUS"];
    let expected = format!(
        "0 of 2 drivers registered; {NAME}: waiting for {}",
        missing.display()
    );
    assert!(status.starts_with(&expected), "{status}");
    assert!(status.ends_with("; and 1 more"), "{status}");
    // When READY arrives, the control socket exists.
    assert!(scene.registrar.status().unwrap().ready);
    let kubelet = scene.node.kubelet();
    let _drivers = [scene.node.driver(NAME), scene.node.driver(OTHER)];
    kubelet.wait_registered(NAME, SOON);
    eventually("the last line is true", SOON, || {
        let status = notify.status();
        let told = status.as_deref() == Some("2 of 2 drivers registered");
        told.then_some(()).ok_or(format!("{status:?}"))
    });
    assert_eq!(notify.count("READY=1"), 1);
}

/// A systemctl that cannot reach systemd reports ERRNO= to the socket in its environment.
#[test]
fn a_systemctl_of_ours_says_nothing_in_the_name_of_the_unit() {
    let listen = format!("[http]\nlisten = \"127.0.0.1:{}\"", bed::free_port());
    let (mut scene, notify) = under_systemd(&[NAME], &listen);
    scene.registrar.start();
    notify.wait_for("READY=1", SOON);
    // It asks systemd for the sandbox of the unit.
    scene.registrar.run_cli(["doctor"]);
    assert_eq!(notify.latest("ERRNO"), None);
}

/// systemd before 229 uses it, and so does a container manager that shares no files.
#[test]
fn an_abstract_notify_socket_gets_every_message_too() {
    let (scene, notify) = told_through(&[NAME], "", |scene| {
        NotifySocket::bind_abstract(scene.node.root().to_str().unwrap())
    });
    let mut scene = scene.with_env("WATCHDOG_USEC", "2000000");
    scene.registrar.start();
    notify.wait_for("READY=1", SOON);
    notify.wait_for("WATCHDOG=1", SOON);
    let _driver = scene.node.driver(NAME);
    notify.wait_for_status("the link exists", SOON);
    scene.registrar.signal(nix::sys::signal::Signal::SIGHUP);
    notify.wait_for("RELOADING=1", SOON);
    assert_eq!(scene.registrar.stop().code(), Some(0));
    notify.wait_for("STOPPING=1", SOON);
}

#[test]
fn ready_when_serving_waits_for_the_driver_and_not_for_the_kubelet() {
    let (mut scene, notify) = under_systemd(&[NAME], "ready_when = \"serving\"");
    scene.registrar.start();
    scene.phase(NAME, "waiting-for-driver");
    never("READY", A_WHILE, || notify.count("READY=1") > 0);
    assert!(!scene.registrar.status().unwrap().ready);
    let patience: u64 = notify
        .latest("EXTEND_TIMEOUT_USEC")
        .unwrap()
        .parse()
        .unwrap();
    assert!(patience >= 60_000_000, "{patience}");
    let _driver = scene.node.driver(NAME);
    notify.wait_for("READY=1", SOON);
    scene.wait_published(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
}

/// systemd's own limit has 32 bits of microseconds, 71 minutes.
#[test]
fn while_ready_is_held_back_systemd_is_asked_for_time_again_and_again() {
    let settings = "ready_when = \"serving\"\nready_timeout = \"3h\"";
    let (scene, notify) = under_systemd(&[NAME], settings);
    // With this watchdog the daemon resyncs each second, and not each half minute.
    let mut scene = scene.with_env("WATCHDOG_USEC", "2000000");
    scene.registrar.start();
    let asked = || {
        let messages = notify.messages();
        let asks = |message: &&Message| message.says(&format!("EXTEND_TIMEOUT_USEC={}", u32::MAX));
        messages.iter().filter(asks).count()
    };
    eventually("asked three times", SOON, || asked() >= 3);
    let _driver = scene.node.driver(NAME);
    notify.wait_for("READY=1", SOON);
    let until_ready = asked();
    stays("no more is asked", Duration::from_secs(2), || {
        asked() == until_ready
    });
}

#[test]
fn ready_when_registered_waits_for_the_kubelet() {
    let (mut scene, notify) = under_systemd(&[NAME], "ready_when = \"registered\"");
    let _driver = scene.node.driver(NAME);
    scene.registrar.start();
    scene.phase(NAME, "waiting-for-kubelet");
    never("READY", A_WHILE, || notify.count("READY=1") > 0);
    let _kubelet = scene.node.kubelet();
    let ready = notify.wait_for("READY=1", SOON);
    assert!(ready.says("STATUS=1 of 1 drivers registered"), "{ready:?}");
}

#[test]
fn ready_is_never_held_back_longer_than_ready_timeout() {
    let (mut scene, notify) = under_systemd(
        &[NAME],
        "ready_when = \"registered\"\nready_timeout = \"1500ms\"",
    );
    let start = Instant::now();
    scene.registrar.start();
    let ready = notify.wait_for("READY=1", SOON);
    assert!(ready.at - start >= Duration::from_millis(1500));
    assert!(scene.registrar.status().unwrap().ready);
    assert_eq!(scene.phase(NAME, "waiting-for-driver").registrations, 0);
}

#[test]
fn the_stop_is_reported_with_the_fate_of_the_drivers() {
    let (mut scene, notify) = under_systemd(&[NAME], "");
    scene.registrar.start();
    notify.wait_for("READY=1", SOON);
    assert_eq!(scene.registrar.stop().code(), Some(0));
    let stopping = notify.wait_for("STOPPING=1", SOON);
    assert_eq!(
        stopping.fields["STATUS"],
        "stopping; the drivers stay registered"
    );
}

#[test]
fn a_refused_configuration_is_in_the_status_until_it_is_fixed() {
    let (mut scene, notify) = under_systemd(&[NAME], "");
    scene.registrar.start();
    notify.wait_for("READY=1", SOON);
    scene.node.write_config("nonsense = 1\n");
    scene.registrar.signal(nix::sys::signal::Signal::SIGHUP);
    notify.wait_for_status("refused the changed configuration", SOON);
    scene.node.write_default_config(&[NAME], "");
    scene.registrar.signal(nix::sys::signal::Signal::SIGHUP);
    eventually("the refusal is over", SOON, || {
        notify
            .status()
            .is_some_and(|status| status.starts_with("0 of 1"))
    });
}

#[test]
fn the_watchdog_is_fed_also_while_a_driver_makes_trouble() {
    let (scene, notify) = under_systemd(&[NAME, OTHER], "");
    let mut scene = scene.with_env("WATCHDOG_USEC", "6000000");
    let behind = scene.node.behaving("behind", Behaviour::named(NAME));
    let _fickle = RawListener::fickle(&scene.node.csi_socket(NAME), behind.path().to_owned());
    scene.registrar.start();
    eventually("four life signs", SOON, || notify.count("WATCHDOG=1") >= 4);
    let messages = notify.messages();
    let fed: Vec<Instant> = messages
        .iter()
        .filter(|message| message.says("WATCHDOG=1"))
        .map(|message| message.at)
        .collect();
    let longest = fed.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(longest < Duration::from_secs(6), "{longest:?}");
}

#[test]
fn without_a_watchdog_nothing_is_fed() {
    let (mut scene, notify) = under_systemd(&[NAME], "");
    scene.registrar.start();
    notify.wait_for("READY=1", SOON);
    never("a life sign", A_WHILE, || notify.count("WATCHDOG=1") > 0);
}
