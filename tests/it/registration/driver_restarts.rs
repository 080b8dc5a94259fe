//! The driver stops and comes back: unchanged, changed, or not at all.

use std::time::{Duration, Instant};

use bed::scene::{KEEP, NAME, SOON, exists, for_each, reason};
use bed::{Behaviour, Release, eventually};

use crate::setup;

#[test]
fn a_driver_that_stays_away_is_withdrawn_and_comes_back_by_itself() {
    let config = "[defaults]\nwithdraw_after = \"1s\"\n";
    let mut scene = setup().more(config).kubelet(Release::V1_36).registered();
    let mark = scene.kubelet.mark();
    let start = Instant::now();
    scene.driver.kill();
    scene.kubelet.wait_deregistered(NAME, SOON);
    assert!(start.elapsed() >= Duration::from_secs(1));
    let driver = scene.wait_phase("withdrawn");
    assert!(reason(&driver).contains("withdraw_after"));
    assert!(!exists(&scene.link()));
    scene.driver.restart(Behaviour::named(NAME));
    scene.ends_registered(mark, 1, 1);
}

#[test]
fn a_driver_that_is_back_before_withdraw_after_is_not_withdrawn() {
    let config = "[defaults]\nwithdraw_after = \"3s\"\n";
    let mut scene = setup().more(config).kubelet(Release::V1_36).registered();
    let mark = scene.kubelet.mark();
    for _ in 0..3 {
        scene.lose_driver();
        scene.driver.restart(Behaviour::named(NAME));
        scene.wait_driver("the driver is back", |driver| {
            !reason(driver).contains("not responding")
        });
    }
    scene.ends_registered(mark, 0, 0);
}

#[test]
fn the_link_is_removed_when_the_kubelet_ends_while_the_driver_is_down() {
    let mut scene = setup().more(KEEP).kubelet(Release::V1_36).registered();
    scene.lose_driver();
    assert!(exists(&scene.link()), "kept for the kubelet that runs");
    scene.kubelet.kill9();
    let link = scene.link();
    eventually("the link goes", SOON, || !exists(&link));
    scene.wait_phase("waiting-for-driver");
}

/// A change that the cluster must get.
#[derive(Clone, Copy, Debug)]
enum News {
    NodeId,
    Limit,
    MoreKeys,
    FewerKeys,
}

#[test]
fn a_driver_that_restarts_with_changes_is_announced_once() {
    let news = [News::NodeId, News::Limit, News::MoreKeys, News::FewerKeys];
    for_each(&news, |news| {
        let known = Behaviour::named(NAME).with_topology("zone", "a");
        let mut scene = setup().kubelet(Release::V1_36).set();
        scene.driver.change(known.clone());
        let mut scene = scene.registered();
        let mark = scene.kubelet.mark();
        let mut other = known;
        match news {
            News::NodeId => other.node_id = "node-2".to_owned(),
            News::Limit => other.max_volumes = 7,
            News::MoreKeys => other = other.with_topology("rack", "1"),
            News::FewerKeys => other.topology.clear(),
        }
        scene.driver.restart(other.clone());
        eventually("the cluster knows", SOON, || {
            let cluster = scene.kubelet.cluster();
            let entry = cluster.csi_node.get(NAME).ok_or("no entry")?;
            let same = entry.node_id == other.node_id
                && entry.max_volumes == other.max_volumes
                && entry.topology_keys.iter().eq(other.topology.keys());
            same.then_some(()).ok_or("another entry")
        });
        scene.ends_registered(mark, 1, 1);
    });
}

#[test]
fn a_driver_that_changed_while_the_registrar_was_down_is_announced_once() {
    let mut scene = setup().more(KEEP).kubelet(Release::V1_35).registered();
    let mark = scene.kubelet.mark();
    scene.registrar.kill9();
    let other = Behaviour::named(NAME).on_node("node-2");
    scene.driver.restart(other);
    scene.registrar.start();
    eventually("the cluster knows", SOON, || {
        let known = scene.kubelet.cluster().node_ids.get(NAME).cloned();
        known.as_deref() == Some("node-2")
    });
    scene.ends_registered(mark, 1, 1);
}

#[test]
fn under_another_name_the_new_link_comes_two_seconds_after_the_old_link_is_removed() {
    const RENAMED: &str = "other.csi.paas.cucloud";
    for_each(&Release::ALL, |release| {
        let mut scene = setup().more(KEEP).kubelet(*release).registered();
        let (old, new) = (scene.link(), scene.node.link(RENAMED));
        scene.driver.restart(Behaviour::named(RENAMED));
        // A late look makes the gap longer, never shorter.
        let mut there = Instant::now();
        eventually("the old link goes", SOON, || {
            let before = Instant::now();
            if exists(&old) {
                there = before;
            }
            !exists(&old)
        });
        eventually("the new link comes", SOON, || exists(&new));
        let gap = there.elapsed();
        assert!(gap >= Duration::from_secs(2), "{gap:?}");
        scene.kubelet.wait_registered(RENAMED, SOON);
        let driver = scene.wait_phase("registered");
        assert_eq!(driver.name.as_deref(), Some(RENAMED));
        assert!(!scene.kubelet.registered().contains_key(NAME));
        assert!(!exists(&scene.node.reg_socket(NAME)));
        assert!(!exists(&old));
    });
}
