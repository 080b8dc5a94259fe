//! A driver that is silent and one that answers under its name.

use super::scenario::{KUBELET, NOW, Tried, advertised, answer, in_phase, registered};
use crate::driver::phase::Phase::*;
use crate::driver::{AdvertisedInfo, Calling, Driver, Event};

/// A sibling of another id, with a socket of its own, that answers under the same name.
fn sibling() -> Tried {
    let advertised = AdvertisedInfo {
        endpoint: "/f".into(),
        ..advertised()
    };
    let mut tried = Tried::new(Driver::new(None, advertised));
    tried.driver.apply(Event::DriverAnswered(answer()), NOW);
    tried
}

fn silent(mut driver: Driver) -> Driver {
    driver.apply(Event::DriverSilent("gone".to_owned()), NOW);
    driver
}

#[test]
fn a_driver_that_answers_or_is_still_asked_keeps_its_name() {
    for phase in [WaitingForKubelet, Registered, Rejected, Conflict] {
        assert!(in_phase(phase).give_up_name(true).is_none(), "{phase}");
    }
    assert!(Driver::new(None, advertised()).give_up_name(true).is_none());
}

#[test]
fn a_silent_driver_that_no_kubelet_holds_leaves_the_name_alone() {
    let mut holder = silent(in_phase(WaitingForKubelet));
    let handover = holder.give_up_name(false).unwrap();
    assert_eq!((holder.name(), holder.serves()), (None, None));
    let mut heir = sibling();
    heir.driver.inherit(handover, NOW);
    assert!(!heir.driver.is_registered() && heir.driver.links().is_none());
}

#[test]
fn link_and_registration_pass_to_the_sibling_and_the_endpoint_is_announced_once() {
    let mut holder = silent(in_phase(Registered));
    let link = holder.links().map(|(_, link)| link.clone());
    assert!(
        holder.give_up_name(false).is_none(),
        "to somebody who cannot take it over"
    );
    let mut heir = sibling();
    assert!(heir.driver.can_take_over());
    heir.driver.inherit(holder.give_up_name(true).unwrap(), NOW);
    assert_eq!(holder.phase(), WaitingForDriver);
    assert_eq!(
        (holder.name(), holder.links(), holder.serves()),
        (None, None, None)
    );
    assert_eq!(holder.kubelet(), None);
    assert_eq!(heir.driver.links().map(|(_, link)| link.clone()), link);
    assert_eq!(heir.driver.kubelet(), Some(KUBELET));

    let tick = Event::Ticked {
        kubelet_there: true,
        calling: Calling::Nobody,
    };
    heir.apply(tick.clone(), NOW);
    heir.apply(tick.clone(), NOW);
    assert_eq!(heir.done.letters, "sa");
    heir.apply(registered(), NOW);
    heir.apply(tick, NOW);
    assert_eq!(heir.driver.phase(), Registered);
    assert_eq!(heir.done.letters, "sa");
}

#[test]
fn a_withdrawn_driver_takes_nothing_over() {
    let mut heir = sibling();
    heir.driver.apply(Event::WithdrawInUse, NOW);
    assert!(!heir.driver.can_take_over());
    assert!(!silent(sibling().driver).can_take_over());
}

/// Two drivers that take the name from each other all day are held to the pace of changes, too.
#[test]
fn the_pace_of_announcements_passes_with_the_name() {
    let mut holder = in_phase(Registered);
    holder.changes.announced(NOW);
    let mut heir = sibling();
    heir.driver
        .inherit(silent(holder).give_up_name(true).unwrap(), NOW);
    heir.apply(
        Event::Ticked {
            kubelet_there: true,
            calling: Calling::Nobody,
        },
        NOW,
    );
    assert_eq!(heir.done.letters, "s");
    assert!(heir.driver.deadline() > Some(NOW));
}
