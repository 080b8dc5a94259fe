//! `reannounce`, `withdraw` and `publish`.

use bed::scene::{NAME, SOON, in_both_layouts, is_nothing};
use bed::stderr;

use crate::setup;

#[test]
fn reannounce_makes_the_kubelet_register_once_more() {
    in_both_layouts(|layout| {
        let (scene, _driver, kubelet) = setup().layout(layout).registered();
        let mark = kubelet.mark();
        scene.registrar.succeed(&["reannounce", NAME]);
        scene
            .registrar
            .wait_driver("registered again", NAME, SOON, |driver| {
                driver.registrations == 2 && driver.announcements == 2
            });
        let counts = kubelet.counts_since(mark);
        assert_eq!((counts.registrations, counts.deregistrations), (1, 1));
        scene.phase(NAME, "registered");
    });
}

#[test]
fn a_withdrawal_lasts_over_a_restart_until_publish() {
    in_both_layouts(|layout| {
        let (mut scene, _driver, kubelet) = setup().layout(layout).registered();
        scene.registrar.succeed(&["withdraw", NAME]);
        kubelet.wait_deregistered(NAME, SOON);
        scene.reason(
            NAME,
            "withdrawn",
            "withdrawn by hand, until it is published",
        );
        assert!(is_nothing(&scene.node.link(NAME)));
        for graceful in [true, false] {
            if graceful {
                scene.registrar.stop();
            } else {
                scene.registrar.kill9();
            }
            scene.registrar.start();
            scene.phase(NAME, "withdrawn");
            assert!(is_nothing(&scene.node.link(NAME)));
        }
        scene.registrar.succeed(&["publish", NAME]);
        kubelet.wait_registered(NAME, SOON);
        scene.phase(NAME, "registered");
    });
}

#[test]
fn a_driver_may_be_called_by_the_name_that_it_gives() {
    let scene = setup().drivers(&["some-id"]).started();
    let _driver = scene.node.behaving("some-id", bed::Behaviour::named(NAME));
    scene.wait_published(NAME);
    scene.registrar.succeed(&["withdraw", NAME]);
    scene.phase("some-id", "withdrawn");
    scene.registrar.succeed(&["publish", "some-id"]);
    scene.wait_published(NAME);
}

#[test]
fn what_cannot_be_done_fails_and_says_why() {
    let scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    for command in ["reannounce", "withdraw", "publish"] {
        let output = scene.registrar.run_cli([command, "nobody"]);
        assert_eq!(output.status.code(), Some(1));
        let words = "there is no driver \"nobody\"";
        assert!(stderr(&output).contains(words), "{output:?}");
    }
    let output = scene.registrar.run_cli(["reannounce", NAME]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("has no link"), "{output:?}");
}
