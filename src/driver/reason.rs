//! Why a driver is where it is, in words for the operator.

use super::Driver;
use super::machine::{DriverState, PendingChange, Withdrawal};
use super::registration_state::{RegistrationState, Unregistered};
use crate::driver::answer::AnswerChange;
use crate::driver::phase::Phase;
use crate::kubelet::volumes::VolumeUse;

impl Driver {
    /// The reason for the phase, in words.
    pub(crate) fn reason(&self) -> String {
        match self.phase() {
            Phase::Withdrawn => self.why_withdrawn(),
            Phase::WaitingForDriver => self.why_silent(),
            Phase::Registered => self.how_registered(),
            Phase::Conflict => self.obstacle().map(ToString::to_string).unwrap_or_default(),
            Phase::Rejected => {
                let words = self.refusal().unwrap_or_default();
                format!("the kubelet said: {words}")
            }
            Phase::WaitingForKubelet => match self.obstacle() {
                Some(obstacle) => obstacle.to_string(),
                None => self.why_unregistered(),
            },
        }
    }

    /// An error on our side or the kubelet's, rather than a state.
    pub(crate) fn trouble(&self) -> Option<String> {
        if let Some(collision) = self.collision() {
            return Some(collision);
        }
        if self.phase() == Phase::Registered && self.new_name().is_some() {
            return Some(self.how_registered());
        }
        match self.phase() {
            Phase::Conflict | Phase::WaitingForKubelet | Phase::Registered => {
                self.obstacle().map(ToString::to_string)
            }
            Phase::Rejected => self.refusal().map(str::to_owned),
            Phase::WaitingForDriver | Phase::Withdrawn => None,
        }
    }

    fn why_withdrawn(&self) -> String {
        match self.withdrawal {
            Some(Withdrawal::Absence) => {
                let why = self.why_silent();
                format!("the driver has been away for longer than withdraw_after: {why}")
            }
            Some(Withdrawal::ByHand) | None => {
                "withdrawn by hand, until it is published".to_owned()
            }
        }
    }

    fn why_silent(&self) -> String {
        match &self.state {
            DriverState::Silent { why, .. } | DriverState::Asking { slow: Some(why) } => {
                why.clone()
            }
            DriverState::Asking { slow: None } | DriverState::Answering { .. } => {
                "the registrar asks the driver".to_owned()
            }
        }
    }

    fn how_registered(&self) -> String {
        if let Some(collision) = self.collision() {
            return collision;
        }
        let by = match self.kubelet() {
            Some(kubelet) => format!("registered by kubelet (pid {})", kubelet.pid),
            None => "registered by a kubelet whose pid is not visible".to_owned(),
        };
        let also = match &self.state {
            DriverState::Answering { .. } => self.renamed().or_else(|| self.unannounced()),
            DriverState::Asking { .. } => Some(self.why_silent()),
            DriverState::Silent { why, refused, .. } => {
                let kept = self.kept_by().and_then(VolumeUse::words);
                let kept = kept.map_or_else(String::new, |volumes| {
                    format!(" although withdraw_after has passed: {volumes}")
                });
                Some(if *refused {
                    format!("{why}; registration retained{kept}")
                } else {
                    format!("driver not responding ({why}); registration retained{kept}")
                })
            }
        };
        // The kubelet holds the driver; its next start would not find it.
        let obstacle = self.obstacle().map(ToString::to_string);
        let parts = [Some(by), also, obstacle];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// The driver has another name, and the registered one has to stay.
    fn renamed(&self) -> Option<String> {
        let (name, now) = (self.name.as_ref()?, self.new_name()?);
        let kept = match self.kept_by().and_then(VolumeUse::words) {
            Some(volumes) => format!("{name} stays registered: {volumes}"),
            None => format!("the registrar looks whether volumes of {name} are in use"),
        };
        Some(format!("the driver calls itself {now} now; {kept}"))
    }

    /// What the driver says and the cluster does not know.
    fn unannounced(&self) -> Option<String> {
        if let Some(change) = self.pending_change() {
            let when = match &change {
                PendingChange::Requested(_) => return None,
                PendingChange::Endpoint(_) => "10 seconds",
                PendingChange::Other(_) => "a minute, doubling to 30 minutes,",
            };
            let news = change.words();
            return self.changes.is_holding().then(|| {
                format!(
                    "{news}; the next announcement waits until {when} after the last one; \
                     reannounce does not wait"
                )
            });
        }
        let (answer, registered) = self.answer().zip(self.registered_answer())?;
        match registered.change_to(answer) {
            AnswerChange::Limit(_) => Some(format!(
                "the driver now has {}, and was registered with {}: a kubelet from 1.36 on can take \
                 that by itself, an older one with reannounce",
                limit(answer.max_volumes),
                limit(registered.max_volumes)
            )),
            AnswerChange::None | AnswerChange::Announce(_) | AnswerChange::Collision(_) => None,
        }
    }

    /// The one change that may not be announced, with what to do about it.
    pub(crate) fn collision(&self) -> Option<String> {
        let (answer, registered) = self.answer().zip(self.registered_answer())?;
        match registered.change_to(answer) {
            AnswerChange::Collision(values) => Some(format!(
                "kept as registered: {values}; the kubelet refuses another value while the node has the label: remove the label from the node, then reannounce"
            )),
            AnswerChange::None | AnswerChange::Limit(_) | AnswerChange::Announce(_) => None,
        }
    }

    fn why_unregistered(&self) -> String {
        if self.link.identity().is_none() {
            return "the link is about to be published".to_owned();
        }
        let RegistrationState::Unregistered(why) = &self.registration else {
            return String::new();
        };
        let words = match why {
            _ if self.is_uncalled() => {
                "the kubelet runs and has not called since the link was recreated; after failed calls it \
                 waits up to 2 minutes before the next one"
            }
            Unregistered::NotYet => {
                "the link exists; the kubelet has not registered the driver yet"
            }
            Unregistered::KubeletEnded => {
                "the kubelet has ended or restarted; waiting for it to register the driver"
            }
            Unregistered::LinkChanged => {
                "the link was removed or replaced, and is restored; waiting for the kubelet"
            }
            Unregistered::Announced(news) => {
                return format!("{news}; announced again, waiting for the kubelet");
            }
            Unregistered::DirectoryReplaced => {
                "the kubelet watches a plugins_registry that was deleted, and will not look at \
                 the new one: restart the kubelet"
            }
        };
        words.to_owned()
    }
}

fn limit(max_volumes: i64) -> String {
    if max_volumes == 0 {
        "no volume limit".to_owned()
    } else {
        format!("a volume limit of {max_volumes}")
    }
}
