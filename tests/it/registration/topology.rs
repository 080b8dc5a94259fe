//! A topology key with another value: the only change that the registrar does not announce by itself.

use bed::scene::{NAME, SOON, for_each_release, reason};
use bed::{Behaviour, KubeletScene, Release, eventually};

use crate::setup;

fn in_zone(zone: &str) -> Behaviour {
    Behaviour::named(NAME).with_topology("zone", zone)
}

fn registered_in_zone_a(release: Release) -> KubeletScene {
    let mut scene = setup().kubelet(release).set();
    scene.driver.change(in_zone("a"));
    scene.registered()
}

#[test]
fn stays_registered_and_names_a_fix_that_works() {
    for_each_release(|release| {
        let mut scene = registered_in_zone_a(release);
        let mark = scene.kubelet.mark();
        scene.driver.restart(in_zone("b"));
        let driver = scene.wait_reason("remove the label");
        assert_eq!(driver.phase, "registered");
        let error = driver.last_error.clone().unwrap_or_default();
        for words in [reason(&driver), &error] {
            assert!(
                words.contains("\"a\"") && words.contains("\"b\""),
                "{words}"
            );
        }
        scene.ends_registered(mark, 0, 0);

        scene.kubelet.remove_label("zone");
        scene.registrar.succeed(&["reannounce", NAME]);
        eventually("the label has the new value", SOON, || {
            scene
                .kubelet
                .cluster()
                .labels
                .get("zone")
                .map(String::as_str)
                == Some("b")
        });
        scene.ends_registered(mark, 1, 1);
        let driver = scene.wait_phase("registered");
        assert_eq!(driver.last_error, None);
        assert!(reason(&driver).starts_with("registered by kubelet"));
    });
}

#[test]
fn announced_with_the_old_label_it_is_rejected_until_the_label_is_removed() {
    let mut scene = registered_in_zone_a(Release::V1_36);
    scene.driver.restart(in_zone("b"));
    scene.wait_reason("remove the label");
    scene.registrar.succeed(&["reannounce", NAME]);
    let driver = scene.wait_phase("rejected");
    assert!(reason(&driver).contains("topology value collision"));
    scene.kubelet.remove_label("zone");
    scene.wait_registered();
    assert_eq!(scene.kubelet.cluster().labels["zone"], "b");
}
