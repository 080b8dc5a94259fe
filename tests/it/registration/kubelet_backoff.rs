//! A link that was dead when the kubelet dialled it: a fresh name avoids the kubelet's back-off.

use std::fs;
use std::time::Duration;

use bed::kubelet::Event as Seen;
use bed::scene::{KEEP, NAME, SOON, exists, for_each};
use bed::{KubeletScene, Release, Timing, eventually};

use crate::setup;

/// Links in the kubelet's directory on which a process listens.
fn live_links(scene: &KubeletScene) -> Vec<String> {
    let entries = fs::read_dir(scene.node.kubelet_registry_dir()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut live: Vec<String> = paths
        .filter(|path| std::os::unix::net::UnixStream::connect(path).is_ok())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    live.sort();
    live
}

#[test]
fn a_fresh_name_is_used_and_the_plain_one_returns_with_the_next_kubelet() {
    for_each(&[Release::V1_35, Release::V1_36], |release| {
        // After one failed dial the kubelet ignores the path for a minute.
        let impatient = Timing {
            dial_timeout: Duration::from_millis(100),
            backoff_initial: Duration::from_secs(60),
            ..Timing::faster(10)
        };
        let mut scene = setup()
            .more(KEEP)
            .kubelet(*release)
            .with(move |settings| settings.with_timing(impatient))
            .registered();
        scene.registrar.kill9();
        let mark = scene.kubelet.mark();
        scene.kubelet.restart();
        scene.kubelet.wait_for("fail to dial", mark, SOON, |event| {
            matches!(event, Seen::DialFailed { .. })
        });
        scene.registrar.start();
        eventually("registered by a fresh name", SOON, || {
            let live = live_links(&scene);
            assert!(live.len() <= 1, "two at once: {live:?}");
            scene.kubelet.registered().contains_key(NAME)
        });
        scene.ends_registered(mark, 1, 0);
        assert_eq!(live_links(&scene), [format!("{NAME}_1-reg.sock")]);

        // A restart of the registrar keeps the fresh name.
        let held = scene.kubelet.mark();
        scene.registrar.kill9();
        scene.registrar.start();
        scene.ends_registered(held, 0, 0);
        assert_eq!(live_links(&scene), [format!("{NAME}_1-reg.sock")]);

        // A kubelet that calls before the registrar knows of the other kubelet's end would keep the
        // fresh name.
        let mark = scene.kubelet.mark();
        scene.kubelet.kill9();
        scene.wait_phase("waiting-for-kubelet");
        scene.kubelet.restart();
        scene.ends_registered(mark, 1, 0);
        assert_eq!(live_links(&scene), [format!("{NAME}-reg.sock")]);
    });
}

#[test]
fn a_kubelet_that_ignored_the_dead_link_gets_the_plain_name() {
    let mut scene = setup().more(KEEP).kubelet(Release::V1_24).registered();
    scene.registrar.kill9();
    let mark = scene.kubelet.mark();
    scene.kubelet.restart();
    scene.registrar.start();
    scene.ends_registered(mark, 1, 0);
    assert_eq!(live_links(&scene), [format!("{NAME}-reg.sock")]);
}

#[test]
fn a_link_that_dangled_when_the_kubelet_looked_is_recreated() {
    for_each(&Release::ALL, |release| {
        let mut scene = setup().more(KEEP).kubelet(*release).registered();
        scene.registrar.kill9();
        fs::remove_file(scene.node.reg_socket(NAME)).unwrap();
        let mark = scene.kubelet.mark();
        scene.kubelet.restart();
        assert!(exists(&scene.link()));
        scene.registrar.start();
        scene.ends_registered(mark, 1, 0);
    });
}
