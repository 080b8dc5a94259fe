//! The faults, and how the dice choose one.

use bed::{Dice, Layout, Release};

use crate::disk::Disk;

/// The number of drivers.
pub(crate) const DRIVERS: usize = 4;

/// The driver with a table in the configuration; discovery finds the others.
pub(crate) const WITH_TABLE: Which = 0;

/// A driver, by its number.
pub(crate) type Which = usize;

/// One fault. A fault that does not end by itself lasts until the calm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    DriverKilled(Which),
    DriverStopped(Which),
    DriverMute(Which),
    DriverHangs(Which),
    DriverFails(Which),
    /// Its server closes idle connections, as gRPC servers can be configured to.
    DriverCloses(Which),
    DriverRestarts(Which),
    DriverRenamed(Which),
    DriverOtherNodeId(Which),
    /// It comes back in another directory.
    DriverMoves(Which),
    /// Its volume limit changes while it runs, and the registrar restarts.
    DriverOtherLimit(Which),
    KubeletKilled,
    KubeletRestarts(Release),
    KubeletRefuses,
    KubeletApiFails,
    KubeletSlow,
    KubeletPaused,
    NotifyLost,
    OurKill,
    OurKillAndAbsence,
    OurRestart,
    OurSigstop,
    OurReload,
    OurStartWithout(Scarce),
    Deleted(Victim),
    Squatted(Place, Squatter),
    MountedOver(Directory),
    ReadOnly(Disk, Need),
    NoSpace(Disk, Need),
    /// The limit of open files leaves so many more, while callers connect and this driver restarts.
    FewDescriptors(u64, Which),
    /// The kernel's queue of events is full, and drops later events.
    EventsLost(Which),
    /// The wall clock is off by so many seconds.
    ClockSteps(i64),
    /// Thousands of foreign files.
    Callers,
}

/// The inotify limit that a start runs into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scarce {
    Instances,
    Watches,
}

/// A deleted file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Link(Which),
    RegSock(Which),
    CsiSock(Which),
    PluginDirectory(Which),
    RegistryDir,
    PluginsRegistry,
    ControlSock,
    HttpSock,
    StateFile,
}

/// Why the registrar has to write to a disk that is full or read-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It restarts.
    Restart,
    /// Its socket or link for this driver there is dead.
    Dead(Which),
}

/// One of the registrar's paths that a foreign file takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Link(Which),
    Socket(Which),
}

/// The kind of foreign file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Squatter {
    Living,
    Dead,
    Dangling,
    File,
    Directory,
}

/// The directory that a mount covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directory {
    Registry,
    Plugin(Which),
}

/// The conditions of this run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) layout: Layout,
    /// The test may create mounts and user namespaces.
    pub(crate) root: bool,
    /// The daemon's wall clock can be set.
    pub(crate) clock: bool,
    /// The daemon resyncs each second, as it does for a watchdog, and not each half minute.
    pub(crate) looks_often: bool,
}

/// Rounds that each run begins with: faults that the dice may leave out of a short run.
pub(crate) const FIRST: [&[Fault]; 10] = [
    &[Fault::ClockSteps(-70)],
    &[Fault::NoSpace(Disk::Storage, Need::Restart)],
    &[Fault::NoSpace(Disk::Kubelet, Need::Dead(1))],
    &[Fault::NoSpace(Disk::Run, Need::Restart)],
    &[Fault::FewDescriptors(0, 2)],
    &[Fault::EventsLost(3)],
    &[Fault::DriverCloses(0)],
    &[Fault::DriverMoves(2)],
    &[Fault::DriverOtherLimit(1)],
    &[
        Fault::Squatted(Place::Link(0), Squatter::Living),
        Fault::Squatted(Place::Socket(1), Squatter::Dead),
        Fault::Squatted(Place::Link(2), Squatter::Dangling),
        Fault::Squatted(Place::Socket(3), Squatter::File),
        Fault::Squatted(Place::Link(3), Squatter::Directory),
        Fault::OurReload,
        Fault::Deleted(Victim::ControlSock),
    ],
];

impl Fault {
    /// The next fault. The same numbers give the same fault on the same terms.
    pub(crate) fn roll(dice: &mut Dice, terms: Terms) -> Fault {
        loop {
            let fault = Fault::any(dice);
            if fault.is_possible(terms) {
                return fault;
            }
        }
    }

    fn any(dice: &mut Dice) -> Fault {
        let which = usize::try_from(dice.below(DRIVERS as u64)).unwrap();
        match dice.below(38) {
            0 => Fault::DriverKilled(which),
            1 => Fault::DriverStopped(which),
            2 => Fault::DriverMute(which),
            3 => Fault::DriverHangs(which),
            4 => Fault::DriverFails(which),
            5 => Fault::DriverRestarts(which),
            6 => Fault::DriverRenamed(which),
            7 => Fault::DriverOtherNodeId(which),
            8 => Fault::KubeletKilled,
            9 | 10 => Fault::KubeletRestarts(dice.pick(&Release::ALL)),
            11 => Fault::KubeletRefuses,
            12 => Fault::KubeletApiFails,
            13 => Fault::KubeletSlow,
            14 => Fault::KubeletPaused,
            15 => Fault::NotifyLost,
            16 => Fault::OurKill,
            17 => Fault::OurKillAndAbsence,
            18 => Fault::OurRestart,
            19 => Fault::OurSigstop,
            20 => Fault::OurReload,
            21 => Fault::OurStartWithout(dice.pick(&[Scarce::Instances, Scarce::Watches])),
            22..=25 => Fault::Deleted(Victim::any(dice, which)),
            26 | 27 => Fault::Squatted(
                dice.pick(&[Place::Link(which), Place::Socket(which)]),
                dice.pick(&[
                    Squatter::Living,
                    Squatter::Dead,
                    Squatter::Dangling,
                    Squatter::File,
                    Squatter::Directory,
                ]),
            ),
            28 => Fault::MountedOver(dice.pick(&[Directory::Registry, Directory::Plugin(which)])),
            // A file system with a file open for writing, such as the lock, cannot be made read-only.
            29 => dice.pick(&[
                Fault::ReadOnly(Disk::Storage, Need::Restart),
                Fault::ReadOnly(Disk::Storage, Need::Dead(which)),
                Fault::ReadOnly(Disk::Kubelet, Need::Dead(which)),
            ]),
            30 => dice.pick(&[
                Fault::NoSpace(Disk::Storage, Need::Restart),
                Fault::NoSpace(Disk::Storage, Need::Dead(which)),
                Fault::NoSpace(Disk::Kubelet, Need::Dead(which)),
                Fault::NoSpace(Disk::Run, Need::Restart),
            ]),
            31 => Fault::FewDescriptors(dice.below(3), which),
            32 => Fault::EventsLost(which),
            33 => Fault::ClockSteps(dice.pick(&[-1_000_000, -70, 90, 2_000_000])),
            34 => Fault::DriverCloses(which),
            35 => Fault::DriverMoves(which),
            36 => Fault::DriverOtherLimit(which),
            _ => Fault::Callers,
        }
    }

    pub(crate) fn is_possible(self, terms: Terms) -> bool {
        let registry_is_ours = terms.layout == Layout::TwoDirectories;
        match self {
            // Its table names the directory.
            Fault::DriverMoves(which) => which != WITH_TABLE,
            Fault::Deleted(Victim::RegistryDir) => registry_is_ours,
            Fault::Deleted(Victim::ControlSock | Victim::HttpSock) => terms.looks_often,
            // Otherwise the registrar has no file on that disk.
            Fault::MountedOver(Directory::Registry)
            | Fault::ReadOnly(Disk::Storage, _)
            | Fault::NoSpace(Disk::Storage, _) => registry_is_ours && terms.root,
            Fault::MountedOver(Directory::Plugin(_))
            | Fault::ReadOnly(..)
            | Fault::NoSpace(..)
            | Fault::OurStartWithout(_) => terms.root,
            Fault::ClockSteps(_) => terms.clock,
            _ => true,
        }
    }

    /// Its name in a tally, without numbers.
    pub(crate) fn kind(self) -> String {
        let text = format!("{self:?}");
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        let words: Vec<&str> = words
            .filter(|word| word.starts_with(char::is_alphabetic))
            .collect();
        words.join(" ")
    }
}

impl Victim {
    fn any(dice: &mut Dice, which: Which) -> Victim {
        dice.pick(&[
            Victim::Link(which),
            Victim::RegSock(which),
            Victim::CsiSock(which),
            Victim::PluginDirectory(which),
            Victim::RegistryDir,
            Victim::PluginsRegistry,
            Victim::ControlSock,
            Victim::HttpSock,
            Victim::StateFile,
        ])
    }
}
