//! Room for file descriptors: the limit is raised when there are more drivers than it has room for.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// What the process has open beside its drivers: inotify, the runtime, the control socket and its
/// clients, kubelets.
const BASE: u64 = 64;
/// A driver has a connection to csi.sock and a listener, and, while a kubelet calls or another
/// process is at its place, one or two connections more.
const EACH: u64 = 4;

/// The limit as it was last seen, and whether it was told to be short.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    /// None until it was looked at.
    room: Option<u64>,
    short: bool,
}

impl Descriptors {
    /// Makes room for so many drivers, or says that there is none.
    pub(crate) fn make_room(&mut self, drivers: usize) {
        let needed = needed(drivers);
        if self.room.is_some_and(|room| needed <= room) || self.short {
            return;
        }
        match raise(needed) {
            Ok(room) => {
                self.room = Some(room);
                self.short = room < needed;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot look at the limit of open files");
                self.short = true;
            }
        }
        if self.short {
            let room = self.room.unwrap_or_default();
            tracing::warn!(
                drivers,
                needed,
                limit = room,
                "the limit of open files (LimitNOFILE=) is short for so many drivers; some may not be served"
            );
        }
    }
}

fn needed(drivers: usize) -> u64 {
    BASE + EACH * drivers as u64
}

/// Raises the soft limit to the hard one if it is below what is needed, and gives what it is then.
fn raise(needed: u64) -> nix::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= needed || soft >= hard {
        return Ok(soft);
    }
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    tracing::info!(from = soft, to = hard, "raised the limit of open files");
    Ok(hard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_drivers_need_more_than_the_usual_limit_and_a_hundred_do_not() {
        assert!(needed(100) <= 1024);
        assert!(needed(1000) > 1024);
    }

    #[test]
    fn room_that_is_there_is_not_asked_for_again() {
        let mut descriptors = Descriptors {
            room: Some(needed(10)),
            short: false,
        };
        descriptors.make_room(10);
        assert_eq!(descriptors.room, Some(needed(10)));
        assert!(!descriptors.short);
    }
}
