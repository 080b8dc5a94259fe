//! What can happen in a world, and which of our rules may be left out of it.

/// A rule of recovery that is left out, to see that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::driver::tests::model) enum Missing {
    NoticingTheKubeletsEnd,
    AnnouncingAgain,
    LookingAtTheLink,
    LookingAtTheSocket,
    TheStateFile,
    HandingTheNameOver,
    LookingAtTheVolumes,
}

impl Missing {
    pub(in crate::driver::tests::model) const ALL: [Missing; 7] = [
        Missing::NoticingTheKubeletsEnd,
        Missing::AnnouncingAgain,
        Missing::LookingAtTheLink,
        Missing::LookingAtTheSocket,
        Missing::TheStateFile,
        Missing::HandingTheNameOver,
        Missing::LookingAtTheVolumes,
    ];
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver::tests::model) enum Step {
    // The hand's.
    DriverDies,
    DriverReturns,
    DriverReturnsAsAnotherNode,
    DriverReturnsElsewhere,
    NodeGetInfoBreaks,
    NodeGetInfoWorksAgain,
    KubeletDies,
    KubeletStarts,
    WeAreKilled,
    IdIsRenamed,
    ReannouncedByHand,
    LinkIsDeleted,
    LinkIsReplacedByAForeignOne,
    ForeignOwnerGoes,
    SocketIsDeleted,
    DirectoryIsMadeAnew,
    PodGetsAVolume,
    PodGoes,
    WithdrawnByHand,
    PublishedByHand,
    // Things that happen by themselves, sooner or later.
    WeStart,
    DriverIsHeard,
    KubeletsEndIsNoticed,
    KubeletsStartIsNoticed,
    DirectoryIsNoticed,
    LinkIsLookedAt,
    SocketIsLookedAt,
    VolumesAreLookedAt,
    KubeletLooks,
    KubeletWorks,
    WeTick,
    Resync,
}

pub(super) const BY_HAND: [Step; 20] = [
    Step::DriverDies,
    Step::DriverReturns,
    Step::DriverReturnsAsAnotherNode,
    Step::DriverReturnsElsewhere,
    Step::NodeGetInfoBreaks,
    Step::NodeGetInfoWorksAgain,
    Step::KubeletDies,
    Step::KubeletStarts,
    Step::WeAreKilled,
    Step::IdIsRenamed,
    Step::ReannouncedByHand,
    Step::LinkIsDeleted,
    Step::LinkIsReplacedByAForeignOne,
    Step::ForeignOwnerGoes,
    Step::SocketIsDeleted,
    Step::DirectoryIsMadeAnew,
    Step::PodGetsAVolume,
    Step::PodGoes,
    Step::WithdrawnByHand,
    Step::PublishedByHand,
];

/// In the order in which they happen when nothing interferes.
pub(super) const BY_ITSELF: [Step; 12] = [
    Step::WeStart,
    Step::DriverIsHeard,
    Step::KubeletsEndIsNoticed,
    Step::KubeletsStartIsNoticed,
    Step::DirectoryIsNoticed,
    Step::LinkIsLookedAt,
    Step::SocketIsLookedAt,
    Step::VolumesAreLookedAt,
    Step::KubeletLooks,
    Step::KubeletWorks,
    Step::WeTick,
    Step::Resync,
];
