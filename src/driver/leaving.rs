//! What would take a registered driver off the node, and the volumes in use that keep it there.
//!
//! A kubelet that does not know a driver cannot unmount its volumes, and their pods never end. So a driver
//! leaves in two steps: the machine asks for its volumes, and decides when it knows of them. Volumes in use
//! are looked at again later.

use std::time::Duration;

use super::Actions;
use super::machine::{Driver, DriverState, Withdrawal};
use crate::disk::name::DriverName;
use crate::kubelet::volumes::VolumeUse;
use crate::os::clock::Moment;

/// How soon volumes in use are looked at again.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(300);

/// Whether something takes the driver off the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Leaving {
    #[default]
    No,
    /// The driver leaves unless its volumes are in use, which is not known yet. With the use that the look
    /// before this one has found.
    Asked(Option<VolumeUse>),
    /// The volumes are in use, and are looked at again then.
    Kept(VolumeUse, Moment),
}

impl Driver {
    /// The name that the driver gives now, while its files have another name.
    pub(super) fn new_name(&self) -> Option<&DriverName> {
        match &self.state {
            DriverState::Answering { answer, .. } if self.name.as_ref() != Some(&answer.name) => {
                Some(&answer.name)
            }
            DriverState::Answering { .. }
            | DriverState::Asking { .. }
            | DriverState::Silent { .. } => None,
        }
    }

    /// The volumes that keep the driver on the node.
    pub(super) fn kept_by(&self) -> Option<&VolumeUse> {
        match &self.leaving {
            Leaving::No => None,
            Leaving::Asked(volumes) => volumes.as_ref(),
            Leaving::Kept(volumes, _) => Some(volumes),
        }
    }

    /// When the machine wants to decide whether the driver leaves.
    pub(super) fn leaving_due(&self) -> Option<Moment> {
        match self.leaving {
            Leaving::No => self.absence_ends(),
            Leaving::Asked(_) => None,
            Leaving::Kept(_, again) => Some(again),
        }
    }

    fn is_to_leave(&self, now: Moment) -> bool {
        self.absence_ends().is_some_and(|at| at <= now) || self.new_name().is_some()
    }

    /// Asks for the volumes of a driver that is to leave. A name that no kubelet has registered is given up
    /// at once.
    pub(super) fn consider_leaving(&mut self, now: Moment, actions: &mut Actions) {
        if !self.is_registered() {
            self.take_new_name(now, actions);
        }
        if !self.is_to_leave(now) {
            self.leaving = Leaving::No;
            return;
        }
        match &self.leaving {
            Leaving::No => self.leaving = Leaving::Asked(None),
            Leaving::Kept(volumes, again) if *again <= now => {
                self.leaving = Leaving::Asked(Some(volumes.clone()));
            }
            Leaving::Asked(_) | Leaving::Kept(..) => return,
        }
        actions.ask_volumes = true;
    }

    /// The look at the volumes has ended.
    pub(super) fn volumes_seen(&mut self, volumes: VolumeUse, now: Moment, actions: &mut Actions) {
        if !matches!(self.leaving, Leaving::Asked(_)) || !self.is_to_leave(now) {
            return;
        }
        if volumes.holds() {
            self.leaving = Leaving::Kept(volumes, now + LOOK_AGAIN);
            return;
        }
        self.leaving = Leaving::No;
        if self.new_name().is_some() {
            self.take_new_name(now, actions);
        } else {
            self.withdrawal = Some(Withdrawal::Absence);
        }
    }

    fn take_new_name(&mut self, now: Moment, actions: &mut Actions) {
        if let Some(name) = self.new_name().cloned() {
            if self.name.is_some() {
                self.release_name(now, actions);
            }
            self.name = Some(name);
        }
    }

    /// An operator withdraws the driver, and its volumes are these.
    pub(super) fn withdraw(&mut self, volumes: &VolumeUse) {
        if !volumes.holds() {
            self.withdrawal = Some(Withdrawal::ByHand);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Event;
    use crate::driver::answer::Answer;
    use crate::driver::phase::Phase;
    use crate::driver::tests::scenario::{
        KUBELET, NOW, Tried, advertised, answer, in_phase, in_use, name, registered, ticked,
    };

    const AWAY: Duration = Duration::from_secs(60);

    /// A driver that is registered, goes silent, and has been away for longer than withdraw_after.
    fn away_for_long(volumes: VolumeUse) -> Tried {
        let mut tried = Tried::new(Driver::new(Some(AWAY), advertised()));
        tried.volumes = volumes;
        tried.apply(Event::DriverAnswered(answer()), NOW);
        tried.apply(registered(), NOW);
        tried.apply(Event::DriverSilent("gone".to_owned()), NOW);
        tried.done.letters.clear();
        let at = tried.driver.deadline().unwrap();
        assert_eq!(at, NOW + AWAY);
        tried.apply(ticked(), at);
        tried
    }

    #[test]
    fn a_driver_that_is_away_leaves_when_its_volumes_are_gone() {
        let mut tried = away_for_long(in_use());
        assert_eq!(tried.driver.phase(), Phase::Registered);
        assert_eq!(tried.done.letters, "");
        let reason = tried.driver.reason();
        assert!(reason.contains("2 volumes are in use by pod p"), "{reason}");
        assert!(reason.contains("withdraw_after"), "{reason}");
        let again = tried.driver.deadline().unwrap();
        assert_eq!(again, NOW + AWAY + LOOK_AGAIN);
        tried.apply(ticked(), again);
        assert_eq!(tried.looks, 2);
        assert_eq!(tried.driver.phase(), Phase::Registered);
        tried.volumes = VolumeUse::Free;
        let again = tried.driver.deadline().unwrap();
        tried.apply(ticked(), again);
        assert_eq!(tried.driver.phase(), Phase::Withdrawn);
        assert_eq!(tried.done.letters, "d");
        assert_eq!(tried.driver.deadline(), None);
    }

    #[test]
    fn volumes_that_are_not_known_count_as_in_use() {
        let tried = away_for_long(VolumeUse::NotKnown("slow".to_owned()));
        assert_eq!(tried.driver.phase(), Phase::Registered);
        let reason = tried.driver.reason();
        assert!(reason.contains("not known"), "{reason}");
    }

    #[test]
    fn a_driver_that_is_back_does_not_leave_when_the_look_ends() {
        let mut driver = in_phase(Phase::Registered);
        driver.withdraw_after = Some(AWAY);
        driver.apply(Event::DriverSilent("gone".to_owned()), NOW);
        assert!(driver.apply(ticked(), NOW + AWAY).ask_volumes);
        assert_eq!(driver.deadline(), None);
        // Nothing is asked twice.
        assert!(!driver.apply(ticked(), NOW + AWAY).ask_volumes);
        driver.apply(Event::DriverAnswered(answer()), NOW + AWAY);
        let actions = driver.apply(Event::VolumesSeen(VolumeUse::Free), NOW + AWAY);
        assert_eq!(actions.remove, []);
        assert_eq!(driver.phase(), Phase::Registered);
    }

    fn renamed() -> Event {
        Event::DriverAnswered(Answer {
            name: name("c.d"),
            ..answer()
        })
    }

    #[test]
    fn a_driver_with_another_name_keeps_the_old_one_while_that_is_in_use() {
        let mut tried = Tried::new(in_phase(Phase::Registered));
        tried.volumes = in_use();
        tried.apply(renamed(), NOW);
        assert_eq!(tried.driver.phase(), Phase::Registered);
        assert_eq!(tried.done.letters, "");
        assert_eq!(tried.driver.name(), Some(&name("a.b")));
        // The kubelet would learn another name through the old socket.
        assert_eq!(tried.driver.answer(), None);
        let reason = tried.driver.reason();
        assert!(
            reason.contains("c.d") && reason.contains("2 volumes"),
            "{reason}"
        );
        assert_eq!(tried.driver.trouble(), Some(reason));
        tried.volumes = VolumeUse::Free;
        let again = tried.driver.deadline().unwrap();
        tried.apply(ticked(), again);
        assert_eq!(tried.driver.name(), Some(&name("c.d")));
        assert_eq!(tried.done.letters, "dxs");
        let published = tried.driver.deadline().unwrap();
        tried.apply(ticked(), published);
        assert_eq!(tried.done.letters, "dxsp");
        assert_eq!(tried.driver.trouble(), None);
    }

    #[test]
    fn a_name_that_no_kubelet_has_registered_any_more_keeps_nothing() {
        let mut tried = Tried::new(in_phase(Phase::Registered));
        tried.volumes = in_use();
        tried.apply(renamed(), NOW);
        tried.apply(Event::KubeletEnded(KUBELET), NOW);
        assert_eq!(tried.driver.name(), Some(&name("c.d")));
        assert_eq!(tried.done.letters, "dxs");
    }

    #[test]
    fn a_driver_that_has_its_old_name_again_is_as_it_was() {
        let mut tried = Tried::new(in_phase(Phase::Registered));
        tried.volumes = in_use();
        tried.apply(renamed(), NOW);
        tried.apply(Event::DriverAnswered(answer()), NOW);
        assert_eq!(tried.done.letters, "");
        assert!(tried.driver.answer().is_some());
        assert_eq!(tried.driver.kept_by(), None);
    }

    #[test]
    fn a_withdrawal_by_hand_needs_free_volumes_or_force() {
        for volumes in [in_use(), VolumeUse::NotKnown("slow".to_owned())] {
            let mut tried = Tried::new(in_phase(Phase::Registered));
            tried.apply(Event::Withdraw(volumes), NOW);
            assert_eq!(tried.driver.phase(), Phase::Registered);
            tried.apply(Event::WithdrawInUse, NOW);
            assert_eq!(tried.driver.phase(), Phase::Withdrawn);
        }
    }
}
