//! What a kubelet hears of a registered driver that changes, and how often.

use std::time::Duration;

use super::scenario::{NOW, Tried, answer, in_phase, registered};
use crate::driver::answer::Answer;
use crate::driver::phase::Phase::*;
use crate::driver::{Calling, Driver, Event};
use crate::os::clock::Moment;

const TICK: Event = Event::Ticked {
    kubelet_there: true,
    calling: Calling::Nobody,
};

fn on_node(node_id: &str) -> Answer {
    Answer {
        node_id: node_id.to_owned(),
        ..answer()
    }
}

fn with_limit(max_volumes: i64) -> Answer {
    Answer {
        max_volumes,
        ..answer()
    }
}

/// The driver restarts as another node every three seconds for four hours, and the kubelet registers
/// what it is told of at once.
#[test]
fn a_driver_that_changes_all_day_is_announced_more_and_more_slowly() {
    let mut tried = Tried::new(in_phase(Registered));
    let (mut times, mut seen) = (Vec::new(), 0);
    for second in 0..4 * 3600_u64 {
        let now = NOW + Duration::from_secs(second);
        if second % 3 == 0 {
            let node = ["m", "o"][usize::from(second % 2 == 0)];
            tried.apply(Event::DriverAnswered(on_node(node)), now);
        }
        tried.apply(TICK, now);
        if tried.done.letters[seen..].contains('a') {
            times.push(second);
            tried.apply(registered(), now);
        }
        seen = tried.done.letters.len();
    }
    let minutes: Vec<u64> = times.windows(2).map(|two| (two[1] - two[0]) / 60).collect();
    assert_eq!(minutes, [1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 30]);
}

#[test]
fn the_last_change_always_arrives() {
    let mut tried = Tried::new(in_phase(Registered));
    tried.apply(Event::DriverAnswered(on_node("m")), NOW);
    tried.apply(TICK, NOW);
    tried.apply(registered(), NOW);
    for node in ["o", "p"] {
        tried.apply(Event::DriverAnswered(on_node(node)), NOW);
        tried.apply(TICK, NOW);
    }
    assert_eq!(tried.done.letters, "a");
    assert!(
        tried
            .driver
            .reason()
            .contains("the next announcement waits")
    );
    let at = tried.driver.deadline().unwrap();
    assert_eq!(at, NOW + Duration::from_secs(60));
    tried.apply(TICK, at);
    assert_eq!(tried.done.letters, "aa");
    tried.apply(registered(), at);
    assert_eq!(
        (tried.driver.phase(), tried.driver.deadline()),
        (Registered, None::<Moment>)
    );
}

#[test]
fn a_change_that_is_taken_back_before_its_turn_is_none() {
    let mut tried = Tried::new(in_phase(Registered));
    tried.apply(Event::DriverAnswered(on_node("m")), NOW);
    tried.apply(TICK, NOW);
    tried.apply(registered(), NOW);
    tried.apply(Event::DriverAnswered(on_node("o")), NOW);
    tried.apply(Event::DriverAnswered(on_node("m")), NOW);
    assert_eq!(tried.driver.deadline(), None::<Moment>);
    tried.apply(TICK, NOW + Duration::from_secs(3600));
    assert_eq!(tried.done.letters, "a");
}

#[test]
fn a_limit_that_changes_while_the_driver_runs_is_shown_and_not_announced() {
    let mut tried = Tried::new(in_phase(Registered));
    for (minute, limit) in [(5, 5), (10, 6), (15, 0), (20, 9)] {
        let now = NOW + Duration::from_secs(60 * minute);
        tried.apply(Event::DriverChanged(with_limit(limit)), now);
        tried.apply(TICK, now);
    }
    assert_eq!(
        (tried.driver.phase(), tried.done.letters.clone()),
        (Registered, String::new())
    );
    let reason = tried.driver.reason();
    assert!(
        reason.contains("a volume limit of 9, and was registered with no volume limit"),
        "{reason}"
    );
    assert_eq!(tried.driver.deadline(), None::<Moment>);
    // When it comes back with that limit, that is news.
    tried.apply(Event::DriverSilent("gone".to_owned()), NOW);
    tried.apply(Event::DriverAnswered(with_limit(9)), NOW);
    tried.apply(TICK, NOW);
    assert_eq!(tried.done.letters, "a");
}

/// The kubelet asks while the driver has one limit and says yes when it has another.
#[test]
fn a_limit_that_changes_during_the_call_is_not_announced_either() {
    let mut tried = Tried::new(in_phase(WaitingForKubelet));
    tried.apply(Event::DriverChanged(with_limit(3)), NOW);
    tried.apply(Event::KubeletAsked, NOW);
    tried.apply(Event::DriverChanged(with_limit(4)), NOW);
    tried.apply(registered(), NOW);
    tried.apply(TICK, NOW);
    assert_eq!(
        (tried.driver.phase(), tried.done.letters.clone()),
        (Registered, String::new())
    );
}

/// After our restart the first answer is that of a driver that has run on.
#[test]
fn a_limit_that_changed_while_we_were_away_is_shown_and_not_announced() {
    let before = in_phase(Registered);
    let record = before.record();
    let mut driver = Driver::new(None, before.advertised().clone());
    driver.restore(&record, record.link.clone(), |_| true, NOW);
    let mut tried = Tried::new(driver);
    tried.apply(Event::DriverChanged(with_limit(4)), NOW);
    tried.apply(TICK, NOW);
    assert_eq!(
        (tried.driver.phase(), tried.done.letters.clone()),
        (Registered, "s".to_owned())
    );
}

#[test]
fn an_announcement_by_hand_waits_for_no_pace() {
    let mut tried = Tried::new(in_phase(Registered));
    tried.apply(Event::DriverAnswered(on_node("m")), NOW);
    tried.apply(TICK, NOW);
    tried.apply(registered(), NOW);
    tried.apply(Event::Reannounce("by hand"), NOW);
    tried.apply(TICK, NOW);
    assert_eq!(tried.done.letters, "aa");
}

#[test]
fn a_driver_that_does_not_answer_is_not_announced_by_hand() {
    let mut tried = Tried::new(in_phase(Registered));
    tried.apply(Event::DriverSilent("gone".to_owned()), NOW);
    tried.apply(Event::Reannounce("by hand"), NOW);
    tried.apply(TICK, NOW);
    // The wish is not kept for later either: whoever had it was told so.
    tried.apply(Event::DriverAnswered(answer()), NOW);
    tried.apply(TICK, NOW);
    assert_eq!(
        (tried.driver.phase(), tried.done.letters.clone()),
        (Registered, String::new())
    );
}

#[test]
fn a_wish_by_hand_waits_while_the_driver_is_away() {
    let mut tried = Tried::new(in_phase(Registered));
    tried.apply(Event::Reannounce("by hand"), NOW);
    tried.apply(Event::DriverSilent("gone".to_owned()), NOW);
    tried.apply(TICK, NOW);
    assert_eq!(
        (tried.driver.phase(), tried.done.letters.clone()),
        (Registered, String::new())
    );
    tried.apply(Event::DriverAnswered(answer()), NOW);
    tried.apply(TICK, NOW);
    assert_eq!(tried.done.letters, "a");
}
