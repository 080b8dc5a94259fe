//! Unregistered a driver is where it is, in words for the one who has to act.

use super::{Driver, DriverState, PendingChange, RegistrationState, Unregistered, Withdrawal};
use crate::driver::answer::AnswerChange;
use crate::driver::phase::Phase;

impl Driver {
    /// The reason for the phase, in words.
    pub(crate) fn reason(&self) -> String {
        match self.phase() {
            Phase::Withdrawn => self.why_withdrawn(),
            Phase::WaitingForDriver => self.why_silent(),
            Phase::Registered => self.how_registered(),
            Phase::Conflict => self.obstacle().map(ToString::to_string).unwrap_or_default(),
            Phase::Rejected => match &self.standing {
                RegistrationState::Rejected { error, .. } => format!("the kubelet said: {error}"),
                RegistrationState::Unregistered(_) | RegistrationState::Registered(_) => {
                    String::new()
                }
            },
            Phase::WaitingForKubelet => match self.obstacle() {
                Some(obstacle) => obstacle.to_string(),
                None => self.why_unregistered(),
            },
        }
    }

    /// What is wrong on our side or the kubelet's, if anything is: an error rather than a state.
    pub(crate) fn trouble(&self) -> Option<String> {
        if let Some(collision) = self.collision() {
            return Some(collision);
        }
        match (self.phase(), &self.standing) {
            (Phase::Conflict | Phase::WaitingForKubelet | Phase::Registered, _) => {
                self.obstacle().map(ToString::to_string)
            }
            (Phase::Rejected, RegistrationState::Rejected { error, .. }) => Some(error.clone()),
            _ => None,
        }
    }

    fn why_withdrawn(&self) -> String {
        match self.withdrawal {
            Some(Withdrawal::Absence) => {
                format!(
                    "the driver has been gone for longer than withdraw_after: {}",
                    self.why_silent()
                )
            }
            Some(Withdrawal::ByHand) | None => {
                "withdrawn by hand, until it is published again".to_owned()
            }
        }
    }

    fn why_silent(&self) -> String {
        match &self.contact {
            DriverState::Silent { why, .. } => why.clone(),
            DriverState::Untried | DriverState::Answering { .. } => self.being_asked(),
        }
    }

    fn being_asked(&self) -> String {
        let slow = self.slow.clone();
        slow.unwrap_or_else(|| "the driver is being asked".to_owned())
    }

    fn how_registered(&self) -> String {
        if let Some(collision) = self.collision() {
            return collision;
        }
        let by = match self.kubelet() {
            Some(kubelet) => format!("by the kubelet, pid {}", kubelet.pid),
            None => "by a kubelet whose pid cannot be seen".to_owned(),
        };
        let how = match &self.contact {
            DriverState::Answering { .. } => match self.untold() {
                Some(change) => format!("{by}; {change}"),
                None => by,
            },
            DriverState::Untried => format!("{by}; {}", self.being_asked()),
            DriverState::Silent {
                why, refused: true, ..
            } => format!("{by}; kept although {why}"),
            DriverState::Silent { why, .. } => {
                format!("{by}; kept although the driver does not answer: {why}")
            }
        };
        // The kubelet holds what it has; its next start would find nobody.
        match self.obstacle() {
            Some(obstacle) => format!("{how}; {obstacle}"),
            None => how,
        }
    }

    /// What the cluster has not been told although the driver says so.
    fn untold(&self) -> Option<String> {
        if let Some(pending_change) = self.pending_change() {
            let (when, words) = match &pending_change {
                PendingChange::Wish(_) => return None,
                PendingChange::Endpoint(_) => ("10 seconds", pending_change.words()),
                PendingChange::Change(_) => {
                    ("a minute, doubling to 30 minutes,", pending_change.words())
                }
            };
            return self.changes.is_holding().then(|| {
                format!(
                    "{words}; the next announcement waits until {when} after the last one; \
                     reannounce does not wait"
                )
            });
        }
        let (RegistrationState::Registered(registration), Some(answer)) =
            (&self.standing, self.answer())
        else {
            return None;
        };
        match registration.answer.change_to(answer) {
            AnswerChange::Limit(_) => Some(format!(
                "the driver now has {}, and was registered with {}: a kubelet from 1.36 on can take \
                 that by itself, an older one with reannounce",
                limit(answer.max_volumes),
                limit(registration.answer.max_volumes)
            )),
            AnswerChange::None | AnswerChange::Announce(_) | AnswerChange::Collision(_) => None,
        }
    }

    /// The one change that may not be announced, with its mend.
    fn collision(&self) -> Option<String> {
        let (RegistrationState::Registered(registration), Some(answer)) =
            (&self.standing, self.answer())
        else {
            return None;
        };
        match registration.answer.change_to(answer) {
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
        let RegistrationState::Unregistered(why) = &self.standing else {
            return String::new();
        };
        match why {
            Unregistered::NotYet => {
                "the link is there; the kubelet has not registered the driver yet".to_owned()
            }
            Unregistered::KubeletEnded => {
                "the kubelet has ended or restarted; waiting for it to register the driver"
                    .to_owned()
            }
            Unregistered::LinkChanged => {
                "the link was removed or replaced, and is back; waiting for the kubelet".to_owned()
            }
            Unregistered::Announced(news) => {
                format!("{news}; announced again, waiting for the kubelet")
            }
            Unregistered::DirectoryReplaced => {
                "the kubelet watches a plugins_registry that was deleted, and will not look at \
                 the new one: restart the kubelet"
                    .to_owned()
            }
        }
    }
}

fn limit(max_volumes: i64) -> String {
    if max_volumes == 0 {
        "no volume limit".to_owned()
    } else {
        format!("a volume limit of {max_volumes}")
    }
}
