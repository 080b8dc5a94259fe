//! What the table has no room for: a few events in a row, each with what it must lead to.

use std::time::Duration;

use super::scenario::{KUBELET, NOW, Tried, advertised, answer, in_phase, letters, registered};
use super::table::events;
use crate::disk::identity::Identity;
use crate::disk::obstacle::Obstacle;
use crate::driver::answer::Answer;
use crate::driver::phase::Phase::*;
use crate::driver::{AdvertisedInfo, Calling, Driver, Event, Seen};
use crate::os::clock::Moment;

#[test]
fn an_announcement_that_is_owed_waits_for_a_call_to_end() {
    let mut tried = Tried::new(in_phase(Registered));
    tried.apply(
        Event::DriverAnswered(Answer {
            max_volumes: 5,
            ..answer()
        }),
        NOW,
    );
    tried.apply(
        Event::Ticked {
            kubelet_there: true,
            calling: Calling::This,
        },
        NOW,
    );
    assert_eq!(
        (tried.driver.phase(), tried.done.letters.clone()),
        (Registered, String::new())
    );
    let later = tried.driver.deadline().unwrap();
    assert!(later > NOW);
    tried.apply(
        Event::Ticked {
            kubelet_there: true,
            calling: Calling::Nobody,
        },
        later,
    );
    assert_eq!(
        (tried.driver.phase(), tried.done.letters.clone()),
        (WaitingForKubelet, "a".to_owned())
    );
}

#[test]
fn a_registered_driver_is_not_announced_however_often_it_is_looked_at() {
    let mut tried = Tried::new(in_phase(Registered));
    for minute in 0..10 {
        let now = NOW + Duration::from_secs(60 * minute);
        let ticked = Event::Ticked {
            kubelet_there: true,
            calling: Calling::Nobody,
        };
        tried.apply(ticked, now);
    }
    assert_eq!(
        (tried.driver.phase(), tried.done.letters.clone()),
        (Registered, String::new())
    );
}

#[test]
fn a_kubelet_that_ends_while_the_driver_is_away_takes_the_link_with_it() {
    let mut tried = Tried::new(in_phase(Registered));
    tried.apply(Event::DriverSilent("gone".to_owned()), NOW);
    assert!(tried.driver.links().is_some());
    tried.apply(Event::KubeletEnded(KUBELET), NOW);
    assert_eq!(
        (tried.driver.phase(), tried.done.letters.clone()),
        (WaitingForDriver, "d".to_owned())
    );
}

#[test]
fn a_refusal_of_a_second_path_does_not_end_the_registration_of_the_first() {
    let mut tried = Tried::new(in_phase(Registered));
    let words = "another driver with the same name is already registered".to_owned();
    tried.apply(Event::KubeletRejected(Some(KUBELET), words), NOW);
    assert_eq!(tried.driver.phase(), Registered);
}

#[test]
fn a_driver_that_is_gone_for_too_long_is_withdrawn_until_it_comes_back() {
    let mut driver = in_phase(Registered);
    driver.withdraw_after = Some(Duration::from_secs(60));
    let mut tried = Tried::new(driver);
    tried.apply(Event::DriverSilent("gone".to_owned()), NOW);
    let at = tried.driver.deadline().unwrap();
    assert_eq!(at, NOW + Duration::from_secs(60));
    tried.apply(
        Event::Ticked {
            kubelet_there: true,
            calling: Calling::Nobody,
        },
        at,
    );
    assert_eq!(
        (tried.driver.phase(), tried.done.letters.clone()),
        (Withdrawn, "d".to_owned())
    );
    tried.apply(Event::DriverAnswered(answer()), at);
    assert_eq!(
        (tried.driver.phase(), tried.done.letters.clone()),
        (WaitingForKubelet, "dp".to_owned())
    );
}

#[test]
fn what_was_written_down_is_taken_up_only_as_far_as_it_holds() {
    let before = in_phase(Registered);
    let record = before.record();
    let link = record.link.clone().unwrap();
    let restore = |link, runs| {
        let mut driver = Driver::new(None, before.advertised().clone());
        driver.restore(&record, link, |_| runs, NOW);
        driver
    };
    assert_eq!(restore(Some(link.clone()), true).phase(), Registered);
    assert_eq!(restore(Some(link.clone()), true).record(), record);
    for (link, runs) in [
        (Some(link), false),
        (Some(Identity::numbered(5)), true),
        (None, true),
    ] {
        let mut driver = restore(link.clone(), runs);
        assert_eq!(driver.phase(), WaitingForDriver, "{link:?} {runs}");
        // One that somebody else made is taken up when the socket is served, and not before.
        assert_eq!(driver.links().is_some(), !runs);
        driver.apply(Event::SocketServed(Identity::numbered(3)), NOW);
        if let Some(link) = link {
            driver.apply(Event::LinkSeen(Seen::Ours(link)), NOW);
            assert!(driver.links().is_some());
        }
    }
}

/// It looks like ours, and is the one by which others are registered.
#[test]
fn a_link_to_a_socket_that_others_serve_is_theirs_unless_it_was_ours_before() {
    for obstacle in [
        Obstacle::LiveOwner("pid 1".to_owned()),
        Obstacle::NameTaken("b".to_owned()),
    ] {
        let mut theirs = Driver::new(None, advertised());
        theirs.apply(Event::DriverAnswered(answer()), NOW);
        let mut ours = in_phase(WaitingForKubelet);
        ours.apply(Event::SocketSeen(Seen::NotOurs), NOW);
        for (mut driver, goes) in [(theirs, ""), (ours, "d")] {
            driver.apply(Event::SocketBlocked(obstacle.clone()), NOW);
            let link = Identity::numbered(9);
            driver.apply(Event::LinkSeen(Seen::Ours(link.clone())), NOW);
            assert_eq!(driver.phase(), Conflict);
            for row in ["goes silent", "withdraw", "answers under another name"] {
                let mut driver = driver.clone();
                let actions = driver.apply(events(row, &driver.clone()), NOW);
                let links: String = letters(&actions).matches('d').collect();
                assert_eq!(links, goes, "{row}: {actions:?}");
            }
            // When they are gone, what is left of them is nobody's.
            driver.apply(Event::DriverSilent("gone".to_owned()), NOW);
            driver.apply(Event::SocketSeen(Seen::NotOurs), NOW);
            driver.apply(Event::SocketServed(Identity::numbered(4)), NOW);
            let actions = driver.apply(Event::LinkSeen(Seen::Ours(link)), NOW);
            assert_eq!(letters(&actions), "d");
        }
    }
}

/// Nobody serves the socket, which the kubelet will want at its next start.
#[test]
fn a_registered_driver_whose_socket_cannot_be_served_says_so() {
    let mut tried = Tried::new(in_phase(Registered));
    tried.apply(Event::SocketSeen(Seen::NotOurs), NOW);
    let full = Obstacle::Failed("the disk is full".to_owned());
    tried.driver.apply(Event::SocketBlocked(full), NOW);
    assert_eq!(tried.driver.phase(), Registered);
    assert!(tried.driver.reason().ends_with("; the disk is full"));
    assert_eq!(tried.driver.trouble().as_deref(), Some("the disk is full"));
    let again = Event::SocketServed(Identity::numbered(9));
    tried.driver.apply(again, NOW);
    assert_eq!(tried.driver.trouble(), None);
}

/// What is owed waits for a call about this very driver, and no longer than that; what is only
/// tried again waits for calls about others, too.
#[test]
fn what_is_owed_is_not_held_up_by_calls_about_others() {
    let ticked = |calling| Event::Ticked {
        kubelet_there: true,
        calling,
    };
    let mut tried = Tried::new(in_phase(Registered));
    tried.apply(Event::Reannounce("by hand"), NOW);
    tried.apply(ticked(Calling::This), NOW);
    assert_eq!(tried.done.letters, "");
    assert!(tried.driver.deadline() > Some(NOW));
    tried.apply(registered(), NOW);
    assert!(tried.driver.deadline() <= Some(NOW));
    tried.apply(ticked(Calling::Others), NOW);
    assert_eq!(tried.done.letters, "a");

    let late = NOW + Duration::from_secs(60);
    let mut tried = Tried::new(in_phase(WaitingForKubelet));
    tried.apply(ticked(Calling::Others), late);
    assert_eq!(tried.done.letters, "");
    assert!(tried.driver.deadline() > Some(late));
}

/// An announcement that had to wait is not made for another link than the one that was meant.
#[test]
fn an_announcement_by_hand_goes_with_its_link() {
    let busy = Event::Ticked {
        kubelet_there: true,
        calling: Calling::This,
    };
    let mut tried = Tried::new(in_phase(WaitingForKubelet));
    tried.apply(Event::Reannounce("by hand"), NOW);
    tried.apply(busy, NOW);
    tried.apply(Event::DriverSilent("gone".to_owned()), NOW);
    tried.apply(Event::DriverAnswered(answer()), NOW);
    tried.apply(registered(), NOW);
    tried.apply(
        Event::Ticked {
            kubelet_there: true,
            calling: Calling::Nobody,
        },
        NOW + Duration::from_secs(4),
    );
    assert_eq!(tried.done.letters, "dp");
    assert_eq!(tried.driver.phase(), Registered);
}

/// The kubelet was told the endpoint of before, and is to hear of the new one.
#[test]
fn a_yes_to_what_was_told_before_the_settings_changed_is_a_yes_to_that() {
    let mut tried = Tried::new(in_phase(WaitingForKubelet));
    tried.apply(Event::KubeletAsked, NOW);
    let elsewhere = AdvertisedInfo {
        endpoint: "/f".into(),
        ..advertised()
    };
    tried.driver.reconfigure(None, elsewhere, false, NOW);
    // Somebody else asks, and is told the new one.
    tried.apply(Event::KubeletAsked, NOW);
    let yes = Event::KubeletRegistered {
        kubelet: Some(KUBELET),
        through: None,
        told: Some(advertised()),
    };
    tried.apply(yes, NOW);
    assert_eq!(tried.driver.phase(), Registered);
    tried.apply(
        Event::Ticked {
            kubelet_there: true,
            calling: Calling::Nobody,
        },
        NOW,
    );
    assert_eq!(tried.done.letters, "a");
}

#[test]
fn a_conflict_over_the_socket_keeps_the_registration_in_mind() {
    let mut driver = in_phase(Registered);
    driver.apply(Event::SocketSeen(Seen::NotOurs), NOW);
    driver.apply(
        Event::SocketBlocked(Obstacle::LiveOwner("pid 1".to_owned())),
        NOW,
    );
    assert_eq!(driver.phase(), Conflict);
    driver.apply(Event::SocketSeen(Seen::NotOurs), NOW);
    driver.apply(Event::SocketServed(Identity::numbered(3)), NOW);
    assert_eq!(driver.phase(), Registered);
    assert_eq!(driver.deadline(), None::<Moment>);
}

/// Whatever the kubelet has refused, it was about what it was told then.
#[test]
fn other_terms_are_news_to_a_kubelet_that_has_refused() {
    let mut tried = Tried::new(in_phase(WaitingForKubelet));
    for _ in 0..10 {
        let refusal = Event::KubeletRejected(Some(KUBELET), "no such socket".to_owned());
        tried.apply(refusal, NOW);
    }
    let soon = NOW + Duration::from_secs(5);
    assert!(tried.driver.deadline().unwrap() > soon);
    let same = tried.driver.advertised().clone();
    tried.driver.reconfigure(None, same, false, NOW);
    assert_eq!(tried.driver.phase(), Rejected);
    let mended = AdvertisedInfo {
        endpoint: "/f".into(),
        ..advertised()
    };
    tried.driver.reconfigure(None, mended, false, NOW);
    assert_eq!(tried.driver.phase(), WaitingForKubelet);
    assert!(tried.driver.deadline().unwrap() <= soon);
}
