//! The registrar cannot see the kubelet: no process, no pod-resources socket, or a wrong root_dir.

use std::fs::{self, File};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use bed::kubelet::Event;
use bed::scene::{KEEP, NAME, SOON, exists, for_each, reason};
use bed::{Behaviour, KubeletScene, Registrar, Release, eventually, identity, is_root, stays};
use nix::fcntl::{Flock, FlockArg};

use crate::{PROGRAM, setup};

/// A kubelet that the registrar sees would get three announcements in this time.
const THREE_ANNOUNCEMENTS: Duration = Duration::from_secs(10);

/// The links go to the kubelet's directory, but the configuration names another root.
fn with_wrong_root(release: Release) -> KubeletScene {
    let scene = setup().kubelet(release).set();
    let config = scene.node.default_config(&[NAME]).replace(
        &format!("root_dir = {:?}", scene.node.kubelet_root()),
        &format!(
            "root_dir = {:?}\nplugins_registry = {:?}",
            scene.node.root().join("elsewhere"),
            scene.node.plugins_registry()
        ),
    );
    scene.node.write_config(&config);
    scene
}

#[test]
fn without_a_kubelet_one_link_is_created_and_left_alone() {
    let scene = setup().started();
    let _driver = scene.node.driver(NAME);
    let path = scene.node.link(NAME);
    let link = eventually("the link exists", SOON, || identity(&path));
    stays("the link is left alone", THREE_ANNOUNCEMENTS, || {
        identity(&path) == Some(link)
    });
    let driver = scene.phase(NAME, "waiting-for-kubelet");
    assert_eq!(driver.announcements, 1);
}

#[test]
fn with_a_wrong_root_a_kubelet_that_follows_links_registers_again_by_itself() {
    for_each(&[Release::V1_35, Release::V1_36], |release| {
        let mut scene = with_wrong_root(*release).registered();
        let mark = scene.kubelet.mark();
        scene.kubelet.restart();
        scene.ends_registered(mark, 1, 0);
    });
}

/// The registrar sees the end of a kubelet, and may not see that it comes back.
#[test]
fn with_a_wrong_root_the_end_of_a_kubelet_is_worth_one_announcement() {
    for_each(&[true, false], |comes_back| {
        let mut scene = with_wrong_root(Release::V1_24).registered();
        let mark = scene.kubelet.mark();
        scene.kubelet.kill9();
        let before = scene.wait_phase("waiting-for-kubelet").announcements;
        if *comes_back {
            scene.kubelet.restart();
            scene.ends_registered(mark, 1, 0);
        } else {
            let mut link = identity(&scene.link());
            let mut made = 0;
            stays("no more than one announcement", THREE_ANNOUNCEMENTS, || {
                let now = identity(&scene.link());
                made += u32::from(now != link);
                link = now;
                made <= 1
            });
        }
        let after = scene.wait_driver("any", |_| true).announcements;
        assert!(after - before <= 1, "{before} and then {after}");
    });
}

/// Every kubelet creates /var/lib/kubelet/device-plugins/kubelet.sock, whatever its root. The test
/// binds its own directory to that path, which needs root.
#[test]
fn with_a_wrong_root_the_device_plugins_socket_is_sign_enough_for_one_announcement() {
    let mut scene = with_wrong_root(Release::V1_24);
    let shown = scene.node.root().join("device-plugins");
    fs::create_dir(&shown).unwrap();
    let script = format!(
        "exec unshare -m sh -c 'mount -t tmpfs none /var/lib && mkdir -p /var/lib/kubelet/device-plugins && mount --bind {} /var/lib/kubelet/device-plugins && exec \"$@\"' sh \"$@\"",
        shown.display()
    );
    if !is_root("run it in a namespace of its own") {
        return;
    }
    scene.registrar = Registrar::wrapped(PROGRAM, &scene.node, &script);
    let mut scene = scene.registered();

    let mark = scene.kubelet.mark();
    scene.kubelet.restart();
    scene.wait_phase("waiting-for-kubelet");
    let _sign = UnixListener::bind(shown.join("kubelet.sock")).unwrap();
    scene.ends_registered(mark, 1, 0);
    assert!(exists(&scene.link()));
}

/// In its own pid namespace the registrar cannot see the kubelet's pid, as with a kubelet in a
/// container. It has only start sockets and time.
#[test]
fn a_kubelet_in_another_pid_namespace_may_restart_too() {
    for_each(&Release::ALL, |release| {
        let mut scene = setup().kubelet(*release).set();
        let script = "exec unshare --pid --fork --kill-child --mount-proc \"$@\"";
        if !is_root("run it in a namespace of its own") {
            return;
        }
        scene.registrar = Registrar::wrapped(PROGRAM, &scene.node, script);
        let mut scene = scene.registered();
        let driver = scene.wait_reason("registered by a kubelet whose pid is not visible");
        assert!(reason(&driver).contains("pid is not visible"));
        for _ in 0..2 {
            let mark = scene.kubelet.mark();
            scene.kubelet.restart();
            scene.ends_registered(mark, 1, 0);
        }
    });
}

/// The pid does not show that the kubelet of the state file has ended, but its socket does.
#[test]
fn a_kubelet_in_another_pid_namespace_may_restart_while_the_registrar_is_down() {
    for_each(&Release::ALL, |release| {
        let mut scene = setup().more(KEEP).kubelet(*release).set();
        let script = "exec unshare --pid --fork --kill-child --mount-proc \"$@\"";
        if !is_root("run it in a namespace of its own") {
            return;
        }
        scene.registrar = Registrar::wrapped(PROGRAM, &scene.node, script);
        let mut scene = scene.registered();
        let held = scene.kubelet.mark();
        scene.registrar.kill9();
        start_again(&mut scene);
        scene.ends_registered(held, 0, 0);

        let mark = scene.kubelet.mark();
        scene.registrar.kill9();
        scene.kubelet.restart();
        start_again(&mut scene);
        scene.ends_registered(mark, 1, 0);
    });
}

/// Without inotify the registrar's knowledge is up to a second old. A kubelet drops a dangling link and
/// never looks at it again.
#[test]
fn without_inotify_a_link_is_created_only_to_an_existing_socket() {
    let mut scene = setup().kubelet(Release::V1_36).set();
    let script = "exec unshare --user --map-root-user sh -c 'echo 0 >/proc/sys/user/max_inotify_instances && exec \"$@\"' sh \"$@\"";
    if !is_root("run it in a namespace of its own") {
        return;
    }
    scene.registrar = Registrar::wrapped(PROGRAM, &scene.node, script);
    let mut scene = scene.registered();
    assert!(scene.registrar.logs().contains("cannot use inotify"));
    for _ in 0..4 {
        scene.driver.kill();
        scene.kubelet.restart();
        let link = scene.link();
        eventually("the link goes", SOON, || !exists(&link));
        let mark = scene.kubelet.mark();
        fs::remove_file(scene.node.reg_socket(NAME)).unwrap();
        scene.driver.restart(Behaviour::named(NAME));
        scene.wait_registered();
        let dropped = scene.kubelet.events_since(
            mark,
            |event| matches!(event, Event::ErrorLine { text } if text.starts_with("stat file")),
        );
        assert_eq!(dropped, []);
    }
}

/// The process behind the wrapper, and with it the lock, ends a little later than the wrapper.
fn start_again(scene: &mut KubeletScene) {
    let lock = scene.node.runtime_dir().join("lock");
    eventually("the lock is free", SOON, || {
        let lock = File::open(&lock).unwrap();
        Flock::lock(lock, FlockArg::LockExclusiveNonblock).is_ok()
    });
    scene.registrar.start();
}
