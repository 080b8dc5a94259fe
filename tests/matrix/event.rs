//! The events that a registration has to survive, and their costs.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use bed::driver::{Answer, Behaviour, Closing};
use bed::kubelet::Event as Seen;
use bed::scene::{KEEP, NAME, SOON, exists, reason};
use bed::{FakeDriver, KubeletScene, Release, eventually, identity};
use nix::sys::signal::Signal;
use tonic::Code;

use crate::setup;

/// Another id, with another directory.
const ELSEWHERE: &str = "elsewhere";

/// The rows of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    OurStopAndStart,
    StopInUse,
    TableLostInUse,
    OurKill,
    DriverRestart,
    ServerEndsConnections,
    LimitChanges,
    IdRenamed,
    RegSockDeleted,
    RegistryReplaced,
    KubeletRestart,
    KubeletRestartWithoutDriver,
    ServerEndsConnectionsWithoutKubelet,
    LinkDeleted,
    LinkRemovedWithoutDriver,
    LinkReplacedWithoutUs,
    OtherNodeId,
    DriverMoves,
    NotifyLost,
    KilledDuringTheCall,
    AwayDuringNotify,
    KubeletDirectoryReplaced,
    NodeGetInfoFails,
}

impl Event {
    pub(super) const ALL: [Event; 23] = [
        Event::OurStopAndStart,
        Event::StopInUse,
        Event::TableLostInUse,
        Event::OurKill,
        Event::DriverRestart,
        Event::ServerEndsConnections,
        Event::LimitChanges,
        Event::IdRenamed,
        Event::RegSockDeleted,
        Event::RegistryReplaced,
        Event::KubeletRestart,
        Event::KubeletRestartWithoutDriver,
        Event::ServerEndsConnectionsWithoutKubelet,
        Event::LinkDeleted,
        Event::LinkRemovedWithoutDriver,
        Event::LinkReplacedWithoutUs,
        Event::OtherNodeId,
        Event::DriverMoves,
        Event::NotifyLost,
        Event::KilledDuringTheCall,
        Event::AwayDuringNotify,
        Event::KubeletDirectoryReplaced,
        Event::NodeGetInfoFails,
    ];

    pub(super) fn words(self) -> &'static str {
        match self {
            Event::OurStopAndStart => "registrar stops (on_stop = keep) and starts",
            Event::StopInUse => {
                "registrar stops (on_stop = auto) and starts, volumes of the driver in use"
            }
            Event::TableLostInUse => {
                "driver's table removed, reload, table back, reload, volumes of the driver in use"
            }
            Event::OurKill => "kill -9 and start of the registrar",
            Event::DriverRestart => "driver restarts, same as before",
            Event::ServerEndsConnections => "driver's server closes idle connections",
            Event::LimitChanges => {
                "driver's volume limit changes while it runs, kill -9 and start of the registrar"
            }
            Event::IdRenamed => "driver's id renamed in the configuration, reload",
            Event::RegSockDeleted => "reg.sock deleted",
            Event::RegistryReplaced => "registry_dir deleted and recreated",
            Event::KubeletRestart => "kubelet restarts",
            Event::KubeletRestartWithoutDriver => "kubelet restarts while the driver is down",
            Event::ServerEndsConnectionsWithoutKubelet => {
                "driver's server closes idle connections, then a kubelet starts"
            }
            Event::LinkDeleted => "link deleted",
            Event::LinkRemovedWithoutDriver => "link removed while the driver is down",
            Event::LinkReplacedWithoutUs => "link replaced while the registrar is down",
            Event::OtherNodeId => "driver restarts with another node id",
            Event::DriverMoves => "driver comes back in another directory",
            Event::NotifyLost => "first registration, Notify lost",
            Event::KilledDuringTheCall => {
                "first registration, kill -9 and start of the registrar before Notify"
            }
            Event::AwayDuringNotify => {
                "first registration, kill -9 of the registrar before Notify, start after it"
            }
            Event::KubeletDirectoryReplaced => {
                "plugins_registry deleted and recreated, then kubelet restarts"
            }
            Event::NodeGetInfoFails => "first registration, NodeGetInfo fails for 8 s",
        }
    }

    /// The smallest number of registrations and de-registrations that any of the three kubelets allows.
    /// It is the same for all three; only the steps differ.
    pub(super) fn least(self) -> (usize, usize) {
        match self {
            Event::OurStopAndStart
            | Event::StopInUse
            | Event::TableLostInUse
            | Event::OurKill
            | Event::DriverRestart
            | Event::ServerEndsConnections
            | Event::LimitChanges
            | Event::IdRenamed
            | Event::RegSockDeleted
            | Event::RegistryReplaced => (0, 0),
            // Where the event happens during the first registration, that registration counts.
            Event::KubeletRestart
            | Event::KubeletRestartWithoutDriver
            | Event::ServerEndsConnectionsWithoutKubelet
            | Event::KilledDuringTheCall
            | Event::NodeGetInfoFails => (1, 0),
            // The kubelet saw that the link was removed, or must get the driver's new data.
            Event::LinkDeleted
            | Event::LinkRemovedWithoutDriver
            | Event::LinkReplacedWithoutUs
            | Event::OtherNodeId
            | Event::DriverMoves
            | Event::KubeletDirectoryReplaced => (1, 1),
            // Before 1.36 the kubelet keeps a registration that the registrar does not know of, and
            // does not call Notify again; from 1.36 on it undoes the registration by itself.
            Event::NotifyLost | Event::AwayDuringNotify => (2, 1),
        }
    }

    /// The scene before the event.
    pub(super) fn prepare(self, release: Release) -> KubeletScene {
        match self {
            Event::NotifyLost
            | Event::KilledDuringTheCall
            | Event::AwayDuringNotify
            | Event::NodeGetInfoFails => setup().more(KEEP).kubelet(release).set(),
            Event::ServerEndsConnectionsWithoutKubelet => {
                let mut scene = setup().more(KEEP).kubelet(release).set();
                scene.kubelet.kill9();
                scene.registrar.start();
                scene.wait_phase("waiting-for-kubelet");
                scene
            }
            Event::StopInUse => setup().kubelet(release).registered(),
            _ => setup().more(KEEP).kubelet(release).registered(),
        }
    }

    pub(super) fn happen(self, scene: &mut KubeletScene) {
        match self {
            Event::OurStopAndStart => {
                assert!(scene.registrar.stop().success());
                scene.registrar.start();
            }
            Event::StopInUse => {
                scene.node.volumes().inline("pod", "volume", NAME);
                assert!(scene.registrar.stop().success());
                scene.registrar.start();
            }
            Event::TableLostInUse => {
                scene.node.volumes().inline("pod", "volume", NAME);
                scene.node.write_default_config(&[], KEEP);
                scene.registrar.succeed(&["reload"]);
                scene.wait_reason("1 volume is in use");
                scene.node.write_default_config(&[NAME], KEEP);
                scene.registrar.succeed(&["reload"]);
            }
            Event::OurKill => {
                scene.registrar.kill9();
                scene.registrar.start();
            }
            Event::DriverRestart => {
                scene.lose_driver();
                scene.driver.restart(Behaviour::named(NAME));
                scene.wait_driver("the driver is back", |driver| {
                    !reason(driver).contains("not responding")
                });
            }
            Event::ServerEndsConnections => end_connections(scene),
            Event::ServerEndsConnectionsWithoutKubelet => {
                end_connections(scene);
                scene.kubelet.restart();
            }
            Event::RegSockDeleted => delete_reg_sock(scene),
            Event::RegistryReplaced => replace_registry(scene),
            Event::KubeletRestart => scene.kubelet.restart(),
            Event::KubeletRestartWithoutDriver => {
                scene.lose_driver();
                scene.kubelet.restart();
                let link = scene.link();
                eventually("the link goes", SOON, || !exists(&link));
                scene.driver.restart(Behaviour::named(NAME));
            }
            Event::LinkDeleted => delete_link(scene),
            Event::LinkRemovedWithoutDriver => {
                scene.lose_driver();
                delete_link(scene);
                scene.wait_phase("waiting-for-driver");
                assert!(!exists(&scene.link()));
                scene.driver.restart(Behaviour::named(NAME));
            }
            Event::LinkReplacedWithoutUs => {
                scene.registrar.stop();
                replace_link(scene);
                scene.registrar.start();
            }
            Event::OtherNodeId => {
                let mark = scene.kubelet.mark();
                let other = Behaviour::named(NAME).on_node("node-2");
                scene.driver.restart(other);
                scene.kubelet.wait_for(
                    "register node-2",
                    mark,
                    SOON,
                    |event| matches!(event, Seen::Register { node_id, .. } if node_id == "node-2"),
                );
            }
            Event::LimitChanges => {
                scene.driver.change(Behaviour {
                    max_volumes: 5,
                    ..Behaviour::named(NAME)
                });
                scene.registrar.kill9();
                scene.registrar.start();
                scene.wait_reason("a volume limit of 5");
            }
            Event::IdRenamed => {
                let socket = scene.node.csi_socket(NAME);
                let table = format!("{KEEP}[drivers.{ELSEWHERE:?}]\ncsi_socket = {socket:?}\n");
                scene.node.write_default_config(&[], &table);
                scene.registrar.succeed(&["reload"]);
                scene.id = ELSEWHERE;
            }
            Event::DriverMoves => {
                scene.node.write_default_config(&[NAME, ELSEWHERE], KEEP);
                scene.registrar.succeed(&["reload"]);
                scene.lose_driver();
                scene.driver = FakeDriver::start_in_new_directory(
                    scene.node.csi_socket(ELSEWHERE),
                    Behaviour::named(NAME),
                );
                scene.id = ELSEWHERE;
                let endpoint = scene.driver.path().display().to_string();
                eventually("the kubelet has it there", SOON, || {
                    scene.kubelet.registered().get(NAME) == Some(&endpoint)
                });
            }
            Event::NotifyLost => {
                scene.kubelet.fault(|faults| faults.lose_notify = 1);
                scene.registrar.start();
            }
            Event::KilledDuringTheCall => {
                let mark = kill_during_the_call(scene);
                scene.registrar.start();
                // The kubelet dials again, and its Notify reaches the restarted registrar.
                scene.kubelet.wait_for("notify", mark, SOON, |event| {
                    matches!(event, Seen::Notified { error: None, .. })
                });
            }
            Event::AwayDuringNotify => {
                let mark = kill_during_the_call(scene);
                // Its Notify is lost; only later calls count.
                scene.kubelet.wait_for("lose Notify", mark, SOON, |event| {
                    matches!(event, Seen::Notified { error: Some(_), .. })
                });
                scene.registrar.start();
                wait_for_the_second(scene, mark);
            }
            Event::KubeletDirectoryReplaced => replace_kubelet_directory(scene),
            Event::NodeGetInfoFails => fail_node_get_info(scene),
        }
    }
}

/// The server closes connections for some seconds, and the link stays.
fn end_connections(scene: &mut KubeletScene) {
    let link = identity(&scene.link());
    let closing = Closing::Idle(Duration::from_millis(500));
    scene.driver.change(Behaviour::named(NAME).closing(closing));
    let before = scene.driver.met();
    eventually("connections end", SOON, || scene.driver.met() > before + 5);
    assert_eq!(identity(&scene.link()), link);
    let driver = scene.wait_driver("it is known", |_| true);
    assert_eq!((driver.announcements, driver.last_error), (1, None));
}

fn delete_link(scene: &KubeletScene) {
    fs::remove_file(scene.link()).unwrap();
    scene.kubelet.wait_deregistered(NAME, SOON);
}

/// Replaces the link by an equal one, which differs only in its identity.
fn replace_link(scene: &KubeletScene) {
    let target = fs::read_link(scene.link()).unwrap();
    fs::remove_file(scene.link()).unwrap();
    symlink(target, scene.link()).unwrap();
    scene.kubelet.wait_deregistered(NAME, SOON);
}

fn delete_reg_sock(scene: &KubeletScene) {
    let socket = scene.node.reg_socket(NAME);
    fs::remove_file(&socket).unwrap();
    eventually("reg.sock is back", SOON, || exists(&socket));
}

fn replace_registry(scene: &KubeletScene) {
    let registry = scene.node.registry_dir();
    // The registrar may recreate files while the removal still runs.
    eventually("the directory goes", SOON, || {
        fs::remove_dir_all(&registry).map_err(|error| error.to_string())
    });
    fs::create_dir_all(&registry).unwrap();
    let socket = scene.node.reg_socket(NAME);
    eventually("reg.sock is back", SOON, || exists(&socket));
}

fn replace_kubelet_directory(scene: &mut KubeletScene) {
    let directory = scene.node.plugins_registry();
    // A running registrar would put the link back between the removal of the link and of the directory.
    scene.registrar.signal(Signal::SIGSTOP);
    fs::remove_dir_all(&directory).unwrap();
    scene.registrar.signal(Signal::SIGCONT);
    scene.kubelet.wait_deregistered(NAME, SOON);
    fs::create_dir(&directory).unwrap();
    let driver = scene.wait_reason("restart the kubelet");
    assert_eq!(driver.phase, "waiting-for-kubelet");
    assert!(reason(&driver).contains("watches a plugins_registry that was deleted"));
    let link = scene.link();
    eventually("the link is back", SOON, || exists(&link));
    scene.kubelet.restart();
}

/// Kills the registrar between GetInfo and Notify, which comes two seconds later.
fn kill_during_the_call(scene: &mut KubeletScene) -> bed::kubelet::Mark {
    let mark = scene.kubelet.mark();
    scene
        .kubelet
        .fault(|faults| faults.delay_after_get_info = Duration::from_secs(2));
    scene.registrar.start();
    scene.kubelet.wait_for("ask", mark, SOON, |event| {
        matches!(event, Seen::Asked { .. })
    });
    scene.registrar.kill9();
    scene
        .kubelet
        .fault(|faults| faults.delay_after_get_info = Duration::ZERO);
    mark
}

/// The driver answers the registrar, and then fails while the kubelet asks.
fn fail_node_get_info(scene: &mut KubeletScene) {
    scene.kubelet.fault(|faults| faults.pause = true);
    scene.registrar.start();
    scene.wait_phase("waiting-for-kubelet");
    let mut failing = Behaviour::named(NAME);
    failing.node_get_info = Answer::FailsFor(Duration::from_secs(8), Code::Unavailable);
    let mark = scene.kubelet.mark();
    scene.driver.change(failing);
    scene.kubelet.fault(|faults| faults.pause = false);
    scene.kubelet.wait_for("say no", mark, SOON, |event| {
        matches!(event, Seen::Rejected { .. })
    });
}

fn wait_for_the_second(scene: &KubeletScene, mark: bed::kubelet::Mark) {
    eventually("a registration that we hear of", SOON, || {
        scene.kubelet.counts_since(mark).registrations == 2
    });
}
