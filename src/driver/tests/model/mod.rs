//! The machine together with a small kubelet, a driver and an interfering hand, explored over all
//! interleavings to the depth where nothing new appears.
//!
//! The hand has a budget; everything else may happen at any time and in any order. Checked on the
//! way: no link before the socket listens; no announcement while a Notify(true) that we hold still
//! stands for the driver as it is; nothing foreign removed. And from every
//! single state: left alone, the driver ends up registered if a driver and a kubelet are there. In a world
//! where drivers leave, also: nothing takes a driver off the node whose volumes are in use.

mod kubelet;
mod normal;
mod search;
mod world;

use self::kubelet::Release;
use self::search::{Search, Verdict};
use self::world::{Missing, World};

/// How often the hand interferes in one run. Each number more costs about ten times the states.
const BUDGET: u8 = 2;
const LARGE_BUDGET: u8 = 3;

#[test]
fn left_alone_a_driver_is_always_registered_and_never_disturbed_without_need() {
    holds_for_every_release(BUDGET);
}

#[test]
#[ignore = "takes minutes; part of the long run"]
fn the_same_holds_when_the_hand_interferes_once_more() {
    holds_for_every_release(LARGE_BUDGET);
}

#[test]
fn a_driver_in_use_is_never_taken_off_the_node() {
    holds(&Release::ALL[1..], |release| {
        World::where_drivers_leave(release, BUDGET, None)
    });
}

fn holds_for_every_release(budget: u8) {
    holds(&Release::ALL, |release| World::new(release, budget, None));
}

fn holds(releases: &[Release], world: impl Fn(Release) -> World) {
    for release in releases.iter().copied() {
        match Search::new(world(release)).run() {
            Verdict::Holds { states } => println!("{release:?}: {states} states, all hold"),
            Verdict::Fails { why, path } => panic!("{release:?}: {why}\n{}", path.join("\n")),
        }
    }
}

#[test]
fn without_any_one_of_the_rules_of_recovery_it_fails() {
    for missing in Missing::ALL {
        let failed = Release::ALL.into_iter().find_map(|release| {
            let world = match missing {
                Missing::LookingAtTheVolumes => World::where_drivers_leave,
                _ => World::new,
            };
            match Search::new(world(release, BUDGET, Some(missing))).run() {
                Verdict::Holds { .. } => None,
                Verdict::Fails { why, path } => Some((release, why, path.len())),
            }
        });
        let Some((release, why, steps)) = failed else {
            panic!("{missing:?} is not needed")
        };
        println!("without {missing:?}: {release:?}, after {steps} steps: {why}");
    }
}
