//! How each fault is made to happen.

use std::fs;
use std::path::Path;
use std::time::Duration;

use bed::driver::{Answer, Call, Listening};
use nix::sys::signal::Signal;
use tonic::Code;

use crate::disk::{Disk, attempt, crowd};
use crate::fault::{Directory, Fault, Place, Victim, Which};
use crate::scene::Scene;

pub(crate) const CROWD: &str = "crowd";
const CROWD_SIZE: usize = 1500;
/// Each file is four events or more, and the kernel queues 16,384 (fs.inotify.max_queued_events).
const FLOOD: usize = 6000;

impl Fault {
    pub(crate) fn happen(self, scene: &mut Scene) {
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
            Fault::DriverRestarts(which) => scene.party(which).restart(),
            Fault::DriverRenamed(which) => scene.party(which).rename(),
            Fault::DriverOtherNodeId(which) => scene.party(which).move_to_another_node_id(),
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
            Fault::OurSigstop => scene.freeze(),
            // Nobody sends it before the daemon is ready, and until then it would be the end.
            Fault::OurReload if scene.registrar_answers() => {
                scene.registrar.signal(Signal::SIGHUP);
            }
            Fault::OurStartWithout(scarce) => {
                scene.kill();
                scene.start(Some(scarce));
            }
            Fault::Deleted(victim) => drop(victim.delete(scene)),
            Fault::Squatted(place, squatter) => {
                let path = match place {
                    Place::Link(which) => scene.link(which),
                    Place::Socket(which) => scene.reg_socket(which),
                };
                scene.unseen(|scene| squatter.take(scene, &path));
            }
            Fault::MountedOver(directory) => mount_over(scene, directory),
            Fault::ReadOnly(disk) => {
                let mounts = scene.mounts.as_ref().unwrap();
                mounts.read_only(&disk.path(&scene.node), true).unwrap();
            }
            Fault::NoSpace(disk) => {
                scene.run_was_full |= disk == Disk::Run;
                disk.fill(&scene.node);
            }
            // A daemon on its way up, with no room at all, would rightly give up.
            Fault::FewDescriptors(more) if scene.registrar_answers() => {
                scene.limit_descriptors(more);
            }
            Fault::OurReload | Fault::FewDescriptors(_) => {}
            Fault::EventsLost(which) => scene.unseen(|scene| lose_events(scene, which)),
            Fault::ClockSteps(seconds) => scene.set_clock(seconds),
            Fault::Crowd => {
                let mut directories = scene.shared_directories();
                directories.push(scene.node.plugins_dir());
                for directory in directories {
                    attempt(crowd(&directory, CROWD, CROWD_SIZE));
                }
            }
        }
    }
}

impl Victim {
    /// Tells whether it was there, and is not any more.
    fn delete(self, scene: &mut Scene) -> bool {
        let file = match self {
            Victim::Link(which) => scene.link(which),
            Victim::RegSock(which) => scene.reg_socket(which),
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
                    let directory = scene.node.kubelet_registry_dir();
                    let deleted = delete_shared(scene, &directory);
                    scene.kubelet_is_blind |= deleted;
                    deleted
                });
            }
        };
        scene.take_away(&file, |path| fs::remove_file(path))
    }
}

/// Deletes a directory with sentinels in it. Tells whether it could.
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
        // It may have been made anew, and deleted once more, in one round.
        scene.bare.insert(directory.to_owned());
    }
    gone
}

fn mount_over(scene: &mut Scene, directory: Directory) {
    let path = match directory {
        Directory::Registry => scene.node.registry_dir(),
        Directory::Plugin(which) => scene.parties[which].socket().parent().unwrap().to_owned(),
    };
    if path.is_dir() {
        scene.mounts.as_mut().unwrap().tmpfs(&path, 1000, 1 << 20);
        scene.covered.push((path, directory));
        scene.registry_was_hidden |= directory == Directory::Registry;
    }
}

fn lose_events(scene: &mut Scene, which: Which) {
    scene.free(Disk::Storage);
    let directory = scene.parties[which].socket().parent().unwrap().to_owned();
    for _ in 0..FLOOD {
        let path = directory.join("flood");
        attempt(fs::write(&path, "").and_then(|()| fs::remove_file(&path)));
    }
    let link = scene.link(which);
    scene.take_away(&link, |path| fs::remove_file(path));
}
