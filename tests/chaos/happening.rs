//! How the test causes each fault.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bed::driver::{Answer, Call, Closing, Listening};
use bed::eventually;
use tonic::Code;

use crate::clock;
use crate::disk::{Disk, attempt, crowd};
use crate::fault::{Directory, Fault, Need, Place, Squatter, Victim, Which};
use crate::scene::{CONTROL_SOCKET, HTTP_SOCKET, PATIENCE, STATE_FILE, Scene};

pub(crate) const CROWD: &str = "crowd";
const CROWD_SIZE: usize = 1500;
/// How long a connection may be idle.
const IDLE: Duration = Duration::from_millis(150);
/// So many callers connect to each socket while the registrar has few descriptors.
const CALLERS: usize = 4;
/// The words of the warning that the queue of events was full.
const LOST: &str = "events were lost";

impl Fault {
    /// Returns whether it happened: another fault may prevent it.
    pub(crate) fn happen(self, scene: &mut Scene) -> bool {
        scene.start_if_ended();
        match self {
            Fault::DriverKilled(which) => scene.party(which).kill(),
            Fault::DriverStopped(which) => scene.party(which).stop(),
            Fault::DriverMute(which) => scene
                .party(which)
                .restart_unwell(|driver| driver.listening = Listening::Mute),
            Fault::DriverHangs(which) => scene.party(which).fall_ill(|driver| {
                driver
                    .hangs
                    .extend([Call::GetPluginInfo, Call::NodeGetInfo]);
            }),
            Fault::DriverFails(which) => scene.party(which).restart_unwell(|driver| {
                driver.node_get_info = Answer::Fails(Code::Unavailable);
            }),
            Fault::DriverCloses(which) => scene
                .party(which)
                .fall_ill(|driver| driver.closing = Closing::Idle(IDLE)),
            Fault::DriverRestarts(which) => scene.party(which).restart(),
            Fault::DriverRenamed(which) => scene.party(which).rename(),
            Fault::DriverOtherNodeId(which) => scene.party(which).move_to_another_node_id(),
            Fault::DriverMoves(which) => return scene.party(which).move_elsewhere(),
            Fault::DriverOtherLimit(which) => {
                scene.party(which).change_its_limit();
                scene.kill();
                scene.start(None);
            }
            Fault::KubeletKilled => {
                scene.kubelet.kill9();
                scene.kubelet_is_down = true;
            }
            Fault::KubeletRestarts(release) => scene.restart_kubelet(release),
            Fault::KubeletRefuses => scene
                .kubelet
                .fault(|faults| faults.refuse = Some("not today".to_owned())),
            Fault::KubeletApiFails => scene
                .kubelet
                .fault(|faults| faults.fail_api_writes = Some("no API server".to_owned())),
            Fault::KubeletSlow => scene.kubelet.fault(|faults| {
                faults.delay_after_get_info = Duration::from_millis(700);
                faults.delay_before_notify = Duration::from_millis(700);
            }),
            Fault::KubeletPaused => scene.kubelet.fault(|faults| faults.pause = true),
            Fault::NotifyLost => scene.kubelet.fault(|faults| faults.lose_notify = 1),
            Fault::OurKill => {
                scene.kill();
                scene.start(None);
            }
            Fault::OurKillAndAbsence => scene.kill(),
            Fault::OurRestart => {
                scene.stop();
                scene.start(None);
            }
            Fault::OurSigstop => {
                scene.freeze();
                return scene.registrar_is_frozen;
            }
            Fault::OurReload => drop(scene.reload()),
            Fault::OurStartWithout(scarce) => {
                scene.kill();
                scene.start(Some(scarce));
            }
            Fault::Deleted(victim) => return victim.delete(scene),
            Fault::Squatted(place, squatter) => {
                let path = match place {
                    Place::Link(which) => scene.link(which),
                    Place::Socket(which) => scene.reg_socket(which),
                };
                return scene.unseen(|scene| squatter.take(scene, &path));
            }
            Fault::MountedOver(directory) => return mount_over(scene, directory),
            Fault::ReadOnly(disk, need) => {
                return need.arise(scene, disk, |scene| {
                    let mounts = scene.mounts.as_ref().unwrap();
                    mounts.read_only(&disk.path(&scene.node), true).unwrap();
                });
            }
            Fault::NoSpace(disk, need) => {
                return need.arise(scene, disk, |scene| {
                    scene.run_was_full |= disk == Disk::Run;
                    disk.fill(&scene.node);
                });
            }
            Fault::FewDescriptors(more, which) => take_descriptors(scene, more, which),
            Fault::EventsLost(which) => return lose_events(scene, which),
            Fault::ClockSteps(seconds) => step_clock(scene, seconds),
            Fault::Callers => {
                let mut directories = scene.shared_directories();
                directories.push(scene.node.plugins_dir());
                for directory in directories {
                    attempt(crowd(&directory, CROWD, CROWD_SIZE));
                }
            }
        }
        true
    }

    /// Waits until the registrar has noticed the fault, which came alone after so many bytes of its
    /// log.
    pub(crate) fn wait_met(self, scene: &mut Scene, before: usize) {
        if let Fault::DriverCloses(which) = self {
            let met = scene.party(which).met();
            return eventually("connections end", PATIENCE, || {
                scene.party(which).met() > met + 3
            });
        }
        let words = match self {
            Fault::NoSpace(..) => "(os error 28)",
            Fault::ReadOnly(..) => "(os error 30)",
            Fault::FewDescriptors(..) => "(os error 24)",
            _ => return,
        };
        let what = format!("{self:?} is met");
        eventually(&what, PATIENCE, || scene.has_said(before, words));
    }
}

impl Victim {
    /// Returns whether the file existed and is gone now.
    fn delete(self, scene: &mut Scene) -> bool {
        let file = match self {
            Victim::Link(which) => scene.link(which),
            Victim::RegSock(which) => scene.reg_socket(which),
            Victim::ControlSock => scene.in_runtime_dir(CONTROL_SOCKET),
            Victim::HttpSock => scene.in_runtime_dir(HTTP_SOCKET),
            Victim::StateFile => scene.in_runtime_dir(STATE_FILE),
            Victim::CsiSock(which) => {
                let party = scene.party(which);
                party.is_harmed();
                party.socket().clone()
            }
            Victim::PluginDirectory(which) => {
                let party = scene.party(which);
                party.is_harmed();
                let directory = party.socket().parent().unwrap();
                return attempt(fs::remove_dir_all(directory)).is_some();
            }
            Victim::RegistryDir => {
                return scene.unseen(|scene| {
                    let directory = scene.node.registry_dir();
                    delete_shared(scene, &directory)
                });
            }
            Victim::PluginsRegistry => {
                return scene.unseen(|scene| {
                    let directory = scene.node.plugins_registry();
                    let deleted = delete_shared(scene, &directory);
                    scene.kubelet_is_blind |= deleted;
                    deleted
                });
            }
        };
        let deleted = scene.take_away(&file, |path| fs::remove_file(path));
        // A registrar that is starting may not have read it yet.
        if self == Victim::StateFile && deleted && !scene.registrar_is_down && !scene.is_up() {
            scene.oblivious_starts += 1;
        }
        deleted
    }
}

/// Deletes a directory with sentinels in it. Returns whether it could.
fn delete_shared(scene: &mut Scene, directory: &Path) -> bool {
    if scene
        .covered
        .iter()
        .any(|(covered, _)| covered == directory)
    {
        return false;
    }
    let gone = scene.take_away(directory, |path| fs::remove_dir_all(path));
    if gone {
        scene.sentinels.forget(directory);
        // It may have been created again, and deleted again, in the same round.
        scene.bare.insert(directory.to_owned());
    }
    gone
}

impl Need {
    /// Fills the disk or makes it read-only, and gives the registrar a reason to write there. Returns
    /// whether it did.
    fn arise(self, scene: &mut Scene, disk: Disk, harm: impl FnOnce(&mut Scene)) -> bool {
        // Makes room for what follows; a read-only disk cannot be filled.
        scene.free(disk);
        match self {
            Need::Restart => {
                scene.kill();
                harm(scene);
                scene.start(None);
                true
            }
            Need::Dead(which) => {
                let path = match disk {
                    Disk::Kubelet => scene.link(which),
                    Disk::Storage | Disk::Run => scene.reg_socket(which),
                };
                scene.unseen(|scene| {
                    let taken = Squatter::Dead.take(scene, &path);
                    harm(scene);
                    taken
                })
            }
        }
    }
}

fn mount_over(scene: &mut Scene, directory: Directory) -> bool {
    let path = match directory {
        Directory::Registry => scene.node.registry_dir(),
        Directory::Plugin(which) => scene.parties[which].socket().parent().unwrap().to_owned(),
    };
    if !path.is_dir() {
        return false;
    }
    scene.mounts.as_mut().unwrap().tmpfs(&path, 1000, 1 << 20);
    scene.covered.push((path, directory));
    scene.registry_was_hidden |= directory == Directory::Registry;
    true
}

/// Leaves the registrar few descriptors, and makes it need more: for callers, and for a driver that
/// restarts.
fn take_descriptors(scene: &mut Scene, more: u64, which: Which) {
    scene.rouse();
    scene.limit_descriptors(more);
    for socket in [
        scene.in_runtime_dir(CONTROL_SOCKET),
        scene.reg_socket(which),
    ] {
        let calls = (0..CALLERS).map(|_| attempt(UnixStream::connect(&socket)));
        scene.callers.extend(calls.flatten());
    }
    scene.party(which).restart();
}

/// Fills the kernel's queue of events while the registrar does not read it, and then removes a link.
fn lose_events(scene: &mut Scene, which: Which) -> bool {
    let was_frozen = scene.registrar_is_frozen;
    if !was_frozen {
        scene.rouse();
    }
    scene.free(Disk::Storage);
    let has_warned = scene.has_said(scene.born, LOST);
    let before = scene.log_length();
    scene.unseen(|scene| {
        // The registrar always watches it, because discovery finds drivers there.
        let path = scene.node.plugins_dir().join("flood");
        for _ in 0..flood() {
            fs::write(&path, "").unwrap();
            fs::remove_file(&path).unwrap();
        }
        let link = scene.link(which);
        scene.take_away(&link, |path| fs::remove_file(path));
    });
    if scene.is_short_of_inotify || was_frozen {
        return false;
    }
    // It warns once in a minute. After that only the link shows that it noticed, and the calm waits for the link.
    if !has_warned {
        eventually("it notices that events were lost", PATIENCE, || {
            scene.has_said(before, LOST)
        });
    }
    true
}

/// More files than the queue has room for. Each causes two events: its creation and its removal.
fn flood() -> usize {
    let queued = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let queued: usize = queued.trim().parse().unwrap();
    queued / 2 + 100
}

/// Sets the clock, and makes the registrar read it.
fn step_clock(scene: &mut Scene, seconds: i64) {
    scene.rouse();
    scene.set_clock(seconds);
    let line = scene.reload();
    // Without a free descriptor the registrar cannot read the clock's file either.
    if scene.limit.is_none() {
        let error = clock::error_of(&line);
        assert!(
            (error - seconds).abs() < seconds.abs() / 2,
            "the clock is off by {error} s and not by {seconds}"
        );
    }
}
