//! Announcing again: never during a call or a kubelet's own retry, and until the kubelet has registered
//! the driver.

use std::time::Duration;

use bed::driver::Behaviour;
use bed::kubelet::Event as Seen;
use bed::scene::{KEEP, NAME, SOON, exists, for_each_release, reason};
use bed::{Release, Settings, Timing, eventually, identity, stays};

use crate::setup;

#[test]
fn a_call_in_progress_is_never_interrupted() {
    for_each_release(|release| {
        let mut scene = setup().kubelet(release).set();
        scene
            .kubelet
            .fault(|faults| faults.delay_after_get_info = Duration::from_secs(10));
        let mark = scene.kubelet.mark();
        scene.registrar.start();
        scene.kubelet.wait_for("ask", mark, SOON, |event| {
            matches!(event, Seen::Asked { .. })
        });
        let link = identity(&scene.link());
        stays("the link is left alone", Duration::from_secs(9), || {
            identity(&scene.link()) == link
        });
        scene
            .kubelet
            .fault(|faults| faults.delay_after_get_info = Duration::ZERO);
        scene.ends_registered(mark, 1, 0);
        assert_eq!(identity(&scene.link()), link);
    });
}

/// A kubelet that closes its connection after GetInfo may still be registering the driver. The
/// registrar remembers that this kubelet does so.
#[test]
fn a_kubelet_that_speaks_on_a_connection_of_its_own_is_heard_and_not_interrupted() {
    for_each_release(|release| {
        let mut scene = setup().kubelet(release).set();
        scene.kubelet.fault(|faults| faults.notify_apart = true);
        let mark = scene.kubelet.mark();
        scene.registrar.start();
        scene.ends_registered(mark, 1, 0);

        scene
            .kubelet
            .fault(|faults| faults.delay_after_get_info = Duration::from_secs(10));
        let mark = scene.kubelet.mark();
        scene.registrar.succeed(&["reannounce", NAME]);
        scene.kubelet.wait_for("ask", mark, SOON, |event| {
            matches!(event, Seen::Asked { .. })
        });
        let link = identity(&scene.link());
        stays("the link is left alone", Duration::from_secs(9), || {
            identity(&scene.link()) == link
        });
        scene
            .kubelet
            .fault(|faults| faults.delay_after_get_info = Duration::ZERO);
        scene.ends_registered(mark, 1, 1);
        assert_eq!(identity(&scene.link()), link);
        // Its refusal on such a connection counts as well.
        scene
            .kubelet
            .fault(|faults| faults.refuse = Some("not today".to_owned()));
        scene.kubelet.restart();
        scene.wait_reason("not today");
    });
}

#[test]
fn an_announcement_by_hand_waits_for_the_end_of_a_call() {
    let mut scene = setup().kubelet(Release::V1_35).set();
    scene
        .kubelet
        .fault(|faults| faults.delay_after_get_info = Duration::from_secs(3));
    let mark = scene.kubelet.mark();
    scene.registrar.start();
    scene.kubelet.wait_for("ask", mark, SOON, |event| {
        matches!(event, Seen::Asked { .. })
    });
    let link = identity(&scene.link());
    scene.registrar.succeed(&["reannounce", NAME]);
    eventually("announced", SOON, || identity(&scene.link()) != link);
    // A premature announcement comes seconds before the end of the call; the ledger may lag by a
    // moment.
    let late = Duration::from_secs(1);
    scene
        .kubelet
        .wait_for("end the call first", mark, late, |event| {
            matches!(event, Seen::Register { .. })
        });
    scene
        .kubelet
        .fault(|faults| faults.delay_after_get_info = Duration::ZERO);
    scene.ends_registered(mark, 2, 1);
}

#[test]
fn a_driver_that_changes_during_a_call_is_registered_as_it_is_in_the_end() {
    for_each_release(|release| {
        let mut scene = setup().kubelet(release).set();
        scene
            .kubelet
            .fault(|faults| faults.delay_after_get_info = Duration::from_secs(2));
        let mark = scene.kubelet.mark();
        scene.registrar.start();
        scene.kubelet.wait_for("ask", mark, SOON, |event| {
            matches!(event, Seen::Asked { .. })
        });
        let other = Behaviour::named(NAME).on_node("node-2");
        scene.driver.restart(other);
        scene.wait_registered();
        scene.settled(mark);
        scene.wait_registered();
        assert_eq!(scene.kubelet.cluster().node_ids[NAME], "node-2");
    });
}

/// The driver comes back with another node id after the kubelet has asked it and written the old node
/// id, and before the kubelet calls Notify.
#[test]
fn a_driver_that_changes_while_the_kubelet_writes_is_announced_again() {
    for_each_release(|release| {
        let mut scene = setup().kubelet(release).set();
        scene
            .kubelet
            .fault(|faults| faults.delay_before_notify = Duration::from_secs(2));
        let mark = scene.kubelet.mark();
        scene.registrar.start();
        scene.kubelet.wait_for("register", mark, SOON, |event| {
            matches!(event, Seen::Register { .. })
        });
        let other = Behaviour::named(NAME).on_node("node-2");
        scene.driver.restart(other);
        scene
            .kubelet
            .fault(|faults| faults.delay_before_notify = Duration::ZERO);
        eventually("the cluster knows", SOON, || {
            let known = scene.kubelet.cluster().node_ids.get(NAME).cloned();
            known.as_deref() == Some("node-2")
        });
        scene.ends_registered(mark, 2, 1);
    });
}

#[test]
fn a_kubelet_that_retries_by_itself_is_not_disturbed() {
    // Every release retries a failed validation; releases from 1.36 on also retry later failures.
    for_each_release(|release| {
        // Half a second, doubling, as a real kubelet has it.
        let mut scene = setup()
            .kubelet(release)
            .with(|settings| {
                settings.with_timing(Timing {
                    backoff_initial: Timing::default().backoff_initial,
                    ..Timing::faster(10)
                })
            })
            .set();
        let late = release == Release::V1_36;
        scene.kubelet.fault(|faults| {
            let words = Some("not today".to_owned());
            if late {
                faults.fail_api_writes = words;
            } else {
                faults.refuse = words;
            }
        });
        let mark = scene.kubelet.mark();
        scene.registrar.start();
        let driver = scene.wait_phase("rejected");
        assert!(reason(&driver).contains("not today"));
        let link = identity(&scene.link());
        eventually("it came back four times", SOON, || {
            assert_eq!(identity(&scene.link()), link, "disturbed");
            scene.kubelet.counts_since(mark).rejections >= 5
        });
        scene.kubelet.fault(|faults| {
            faults.fail_api_writes = None;
            faults.refuse = None;
        });
        scene.ends_registered(mark, 1, 0);
        assert_eq!(identity(&scene.link()), link, "disturbed");
    });
}

#[test]
fn a_kubelet_whose_plugin_watcher_is_late_registers_once() {
    for_each_release(|release| {
        let mut scene = setup().more(KEEP).kubelet(release).registered();
        let settings: Settings = scene.kubelet.settings().clone();
        let mark = scene.kubelet.mark();
        scene
            .kubelet
            .restart_as(settings.with_watcher_delay(Duration::from_secs(6)));
        scene.ends_registered(mark, 1, 0);
    });
}

#[test]
fn a_withdrawal_by_hand_survives_our_restart_and_our_crash() {
    let mut scene = setup().more(KEEP).kubelet(Release::V1_36).registered();
    scene.registrar.succeed(&["withdraw", NAME]);
    scene.kubelet.wait_deregistered(NAME, SOON);
    let mark = scene.kubelet.mark();
    for crash in [false, true] {
        if crash {
            scene.registrar.kill9();
        } else {
            scene.registrar.stop();
        }
        scene.registrar.start();
        scene.wait_phase("withdrawn");
        stays("no link", Duration::from_millis(500), || {
            !exists(&scene.link())
        });
    }
    // A driver that comes back does not undo it either.
    scene.driver.restart(Behaviour::named(NAME));
    scene.wait_phase("withdrawn");
    scene.kubelet.restart();
    scene.wait_phase("withdrawn");
    assert_eq!(scene.kubelet.counts_since(mark).asked, 0);
    scene.registrar.succeed(&["publish", NAME]);
    scene.ends_registered(mark, 1, 0);
}

/// A kubelet from 1.36 on de-registers the driver when its Notify gets no answer.
#[test]
fn a_notify_during_the_stop_is_answered_and_saved() {
    for_each_release(|release| {
        let mut scene = setup().more(KEEP).kubelet(release).set();
        let delay = Duration::from_millis(100);
        scene
            .kubelet
            .fault(|faults| faults.delay_before_notify = delay);
        let mark = scene.kubelet.mark();
        scene.registrar.start();
        scene.kubelet.wait_for("registration", mark, SOON, |event| {
            matches!(event, Seen::Register { .. })
        });
        scene.registrar.stop();
        let link = identity(&scene.link());
        scene.registrar.start();
        scene.ends_registered(mark, 1, 0);
        assert_eq!(identity(&scene.link()), link);
    });
}

#[test]
fn a_call_in_progress_is_not_interrupted_by_a_reload_either() {
    let mut scene = setup().kubelet(Release::V1_35).set();
    scene
        .kubelet
        .fault(|faults| faults.delay_after_get_info = Duration::from_secs(6));
    let mark = scene.kubelet.mark();
    scene.registrar.start();
    scene.kubelet.wait_for("ask", mark, SOON, |event| {
        matches!(event, Seen::Asked { .. })
    });
    let link = identity(&scene.link());
    let changed = "[defaults]\nrequest_timeout = \"4s\"\n";
    scene.node.write_default_config(&[NAME], changed);
    scene.registrar.succeed(&["reload"]);
    stays("the link is left alone", Duration::from_secs(5), || {
        identity(&scene.link()) == link
    });
    scene.ends_registered(mark, 1, 0);
    assert_eq!(identity(&scene.link()), link);
}
