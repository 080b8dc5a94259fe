//! Every phase with every event: where it leads, and what is done on the way.

use std::time::Duration;

use super::scenario::{
    KUBELET, NOW, STRANGER, Tried, answer, in_phase, in_use, name, registered, ticked,
};
use crate::disk::identity::Identity;
use crate::driver::answer::Answer;
use crate::driver::phase::Phase::{self, *};
use crate::driver::{Driver, Event, Seen};
use crate::kubelet::volumes::VolumeUse;

/// Names of what a table's row applies.
pub(super) fn events(row: &str, driver: &Driver) -> Event {
    let link = || {
        driver
            .links()
            .map_or_else(|| Identity::numbered(9), |(_, identity)| identity.clone())
    };
    match row {
        "answers as before" => Event::DriverAnswered(answer()),
        "answers with another node id" => Event::DriverAnswered(Answer {
            node_id: "m".to_owned(),
            ..answer()
        }),
        "comes back with another limit" => Event::DriverAnswered(Answer {
            max_volumes: 5,
            ..answer()
        }),
        "runs on with another limit" => Event::DriverChanged(Answer {
            max_volumes: 5,
            ..answer()
        }),
        "runs on with another node id" => Event::DriverChanged(Answer {
            node_id: "m".to_owned(),
            ..answer()
        }),
        "answers with another topology value" => Event::DriverAnswered(Answer {
            topology: [("zone".to_owned(), "y".to_owned())].into(),
            ..answer()
        }),
        "answers under another name" | "answers under another name, in use" => {
            Event::DriverAnswered(Answer {
                name: name("c.d"),
                ..answer()
            })
        }
        "goes silent" => Event::DriverSilent("gone".to_owned()),
        "is refused" => Event::DriverRefused("open".to_owned()),
        "is taken" => Event::DriverTaken("another's".to_owned()),
        "link is the same" => Event::LinkSeen(Seen::Ours(link())),
        "link is another of ours" => Event::LinkSeen(Seen::Ours(Identity::numbered(77))),
        "link is gone" => Event::LinkSeen(Seen::NotOurs),
        "socket is gone" => Event::SocketSeen(Seen::NotOurs),
        "kubelet asks" => Event::KubeletAsked,
        "kubelet registers" => registered(),
        "kubelet registers through another link" => Event::KubeletRegistered {
            kubelet: Some(KUBELET),
            through: Some(Identity::numbered(66)),
            told: None,
        },
        "kubelet rejects" => Event::KubeletRejected(Some(KUBELET), "no".to_owned()),
        "kubelet ends" => Event::KubeletEnded(KUBELET),
        "a stranger ends" => Event::KubeletEnded(STRANGER),
        "kubelet starts" => Event::KubeletStarted,
        "directory is replaced" => Event::DirectoryReplaced,
        "withdraw" => Event::Withdraw(VolumeUse::Free),
        "withdraw, in use" => Event::Withdraw(in_use()),
        "withdraw by force, in use" => Event::WithdrawInUse,
        "publish" => Event::Publish,
        "reannounce" => Event::Reannounce("by hand"),
        other => panic!("no such event: {other}"),
    }
}

/// In the order of the columns.
const COLUMNS: [Phase; 6] = [
    WaitingForDriver,
    WaitingForKubelet,
    Registered,
    Rejected,
    Conflict,
    Withdrawn,
];

/// Each cell: the phase that follows and the effects. A cell that says nothing but its own phase
/// is an event that means nothing there.
#[rustfmt::skip]
const TABLE: [(&str, [(Phase, &str); 6]); 28] = [
    ("answers as before",                   [(WaitingForKubelet, "sp"), (WaitingForKubelet, ""),    (Registered, ""),         (Rejected, ""),            (Conflict, ""),          (Withdrawn, "")]),
    ("answers with another node id",        [(WaitingForKubelet, "sp"), (WaitingForKubelet, ""),    (WaitingForKubelet, "a"), (Rejected, ""),            (Conflict, ""),          (Withdrawn, "")]),
    ("comes back with another limit",       [(WaitingForKubelet, "sp"), (WaitingForKubelet, ""),    (WaitingForKubelet, "a"), (Rejected, ""),            (Conflict, ""),          (Withdrawn, "")]),
    ("runs on with another limit",          [(WaitingForKubelet, "sp"), (WaitingForKubelet, ""),    (Registered, ""),         (Rejected, ""),            (Conflict, ""),          (Withdrawn, "")]),
    ("runs on with another node id",        [(WaitingForKubelet, "sp"), (WaitingForKubelet, ""),    (WaitingForKubelet, "a"), (Rejected, ""),            (Conflict, ""),          (Withdrawn, "")]),
    ("answers with another topology value", [(WaitingForKubelet, "sp"), (WaitingForKubelet, ""),    (Registered, ""),         (Rejected, ""),            (Conflict, ""),          (Withdrawn, "")]),
    ("answers under another name",          [(WaitingForKubelet, "sp"), (WaitingForKubelet, "dxsp"), (WaitingForKubelet, "dxsp"), (WaitingForKubelet, "dxsp"), (WaitingForKubelet, "xsp"), (Withdrawn, "xs")]),
    ("answers under another name, in use",  [(WaitingForKubelet, "sp"), (WaitingForKubelet, "dxsp"), (Registered, ""),         (WaitingForKubelet, "dxsp"), (WaitingForKubelet, "xsp"), (Withdrawn, "xs")]),
    ("goes silent",                         [(WaitingForDriver, ""),    (WaitingForDriver, "d"),    (Registered, ""),         (WaitingForDriver, "d"),   (WaitingForDriver, ""),  (Withdrawn, "")]),
    ("is refused",                          [(WaitingForDriver, ""),    (WaitingForDriver, "d"),    (Registered, ""),         (WaitingForDriver, "d"),   (WaitingForDriver, ""),  (Withdrawn, "")]),
    ("is taken",                            [(WaitingForDriver, ""),    (WaitingForDriver, "d"),    (WaitingForDriver, "d"),  (WaitingForDriver, "d"),   (WaitingForDriver, ""),  (Withdrawn, "")]),
    ("link is the same",                    [(WaitingForDriver, ""),    (WaitingForKubelet, ""),    (Registered, ""),         (Rejected, ""),            (WaitingForKubelet, ""), (Withdrawn, "d")]),
    ("link is another of ours",             [(WaitingForDriver, ""),    (WaitingForKubelet, ""),    (WaitingForKubelet, ""),  (WaitingForKubelet, ""),   (WaitingForKubelet, ""), (Withdrawn, "d")]),
    ("link is gone",                        [(WaitingForDriver, ""),    (WaitingForKubelet, "p"),   (WaitingForKubelet, "p"), (WaitingForKubelet, "p"),  (WaitingForKubelet, "p"), (Withdrawn, "")]),
    ("socket is gone",                      [(WaitingForDriver, ""),    (WaitingForKubelet, "s"),   (Registered, "s"),        (Rejected, "s"),           (Conflict, "s"),         (Withdrawn, "s")]),
    ("kubelet asks",                        [(WaitingForDriver, ""),    (WaitingForKubelet, ""),    (Registered, ""),         (Rejected, ""),            (Conflict, ""),          (Withdrawn, "")]),
    ("kubelet registers",                   [(WaitingForDriver, ""),    (Registered, ""),           (Registered, ""),         (Registered, ""),          (Conflict, ""),          (Withdrawn, "")]),
    ("kubelet registers through another link", [(WaitingForDriver, ""), (WaitingForKubelet, ""),    (Registered, ""),         (Rejected, ""),            (Conflict, ""),          (Withdrawn, "")]),
    ("kubelet rejects",                     [(WaitingForDriver, ""),    (Rejected, ""),             (Rejected, ""),           (Rejected, ""),            (Conflict, ""),          (Withdrawn, "")]),
    ("kubelet ends",                        [(WaitingForDriver, ""),    (WaitingForKubelet, ""),    (WaitingForKubelet, ""),  (WaitingForKubelet, ""),   (Conflict, ""),          (Withdrawn, "")]),
    ("a stranger ends",                     [(WaitingForDriver, ""),    (WaitingForKubelet, ""),    (Registered, ""),         (Rejected, ""),            (Conflict, ""),          (Withdrawn, "")]),
    ("kubelet starts",                      [(WaitingForDriver, ""),    (WaitingForKubelet, ""),    (Registered, ""),         (WaitingForKubelet, ""),   (Conflict, ""),          (Withdrawn, "")]),
    ("directory is replaced",               [(WaitingForDriver, ""),    (WaitingForKubelet, ""),    (Registered, ""),         (WaitingForKubelet, ""),   (Conflict, ""),          (Withdrawn, "")]),
    ("withdraw",                            [(Withdrawn, ""),           (Withdrawn, "d"),           (Withdrawn, "d"),         (Withdrawn, "d"),          (Withdrawn, ""),         (Withdrawn, "")]),
    ("withdraw, in use",                    [(WaitingForDriver, ""),    (WaitingForKubelet, ""),    (Registered, ""),         (Rejected, ""),            (Conflict, ""),          (Withdrawn, "")]),
    ("withdraw by force, in use",           [(Withdrawn, ""),           (Withdrawn, "d"),           (Withdrawn, "d"),         (Withdrawn, "d"),          (Withdrawn, ""),         (Withdrawn, "")]),
    ("publish",                             [(WaitingForDriver, ""),    (WaitingForKubelet, ""),    (Registered, ""),         (Rejected, ""),            (Conflict, ""),          (WaitingForKubelet, "p")]),
    ("reannounce",                          [(WaitingForDriver, ""),    (WaitingForKubelet, "a"),   (WaitingForKubelet, "a"), (WaitingForKubelet, "a"),  (Conflict, ""),          (Withdrawn, "")]),
];

#[test]
fn every_phase_with_every_event_leads_where_the_table_says() {
    let mut wrong = Vec::new();
    for (row, cells) in TABLE {
        for (phase, (next, effects)) in COLUMNS.into_iter().zip(cells) {
            let mut tried = Tried::new(in_phase(phase));
            if row.ends_with("in use") {
                tried.volumes = in_use();
            }
            let event = events(row, &tried.driver);
            tried.apply(event, NOW);
            // What an event leaves to be done later is done by the next tick, two seconds on at
            // the latest.
            for _ in 0..3 {
                if let Some(at) = tried
                    .driver
                    .deadline()
                    .filter(|at| *at <= NOW + Duration::from_secs(2))
                {
                    tried.apply(ticked(), at.max(NOW));
                }
            }
            let found = (tried.driver.phase(), tried.done.letters.clone());
            if found != (next, effects.to_owned()) {
                wrong.push(format!(
                    "{phase} + {row}: {found:?} instead of {:?}",
                    (next, effects)
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_table_has_every_phase() {
    assert_eq!(COLUMNS.len(), Phase::ALL.len());
    assert!(Phase::ALL.iter().all(|phase| COLUMNS.contains(phase)));
}
