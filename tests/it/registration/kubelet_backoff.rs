//! A link that was dead when the kubelet dialled it, or looked at it.

use std::fs;
use std::time::Duration;

use bed::kubelet::Event as Seen;
use bed::scene::{KEEP, NAME, SOON, exists, for_each};
use bed::{KubeletScene, Release, Timing};

use crate::setup;

/// Files in the kubelet's directory on which a process listens.
fn live_files(scene: &KubeletScene) -> Vec<String> {
    let entries = fs::read_dir(scene.node.plugins_registry()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut live: Vec<String> = paths
        .filter(|path| std::os::unix::net::UnixStream::connect(path).is_ok())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    live.sort();
    live
}

/// The kubelet dialled while nothing listened, and waits in its own back-off for the path.
#[test]
fn a_kubelet_in_its_back_off_registers_when_that_is_over_and_the_reason_says_how_long_it_may_take()
{
    for_each(&[Release::V1_35, Release::V1_36], |release| {
        let impatient = Timing {
            dial_timeout: Duration::from_millis(100),
            backoff_initial: Duration::from_secs(15),
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
        let driver = scene.wait_reason("waits up to 2 minutes before the next one");
        assert_eq!(driver.phase, "waiting-for-kubelet");
        let said = bed::stdout(&scene.registrar.run_cli(["doctor"]));
        assert!(
            !said.contains("reannounce"),
            "an announcement does not help: {said}"
        );
        scene.kubelet.wait_registered(NAME, Duration::from_secs(60));
        scene.ends_registered(mark, 1, 0);
        assert_eq!(live_files(&scene), [format!("{NAME}-reg.sock")]);
    });
}

#[test]
fn a_kubelet_that_ignored_the_dead_link_gets_it_again() {
    let mut scene = setup().more(KEEP).kubelet(Release::V1_24).registered();
    scene.registrar.kill9();
    let mark = scene.kubelet.mark();
    scene.kubelet.restart();
    scene.registrar.start();
    scene.ends_registered(mark, 1, 0);
    assert_eq!(live_files(&scene), [format!("{NAME}-reg.sock")]);
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
