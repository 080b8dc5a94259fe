//! The runtime directory is deleted while the daemon runs: the daemon creates it again, unless another
//! instance was faster.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use bed::scene::{KEEP, NAME, SOON, exists, for_each};
use bed::{KubeletScene, Layout, Node, NotifySocket, Registrar, Release, eventually};
use nix::fcntl::{Flock, FlockArg};

use crate::{PROGRAM, setup};

/// The test counts wake-ups for this long.
const WINDOW: Duration = Duration::from_secs(10);
const WINDOWS: usize = 6;
/// A daemon that polls each second has at least twice as many.
pub(crate) const FEW: u64 = 10;
/// Not /tmp: the registrar watches every directory on the path, and other tests work in /tmp.
const BASE: &str = "/var/tmp";

/// A part of the runtime directory that the test deletes.
#[derive(Clone, Copy, Debug)]
enum Deleted {
    Directory,
    Lock,
}

impl Deleted {
    const ALL: [Deleted; 2] = [Deleted::Directory, Deleted::Lock];

    fn delete(self, scene: &KubeletScene) {
        match self {
            Deleted::Directory => fs::remove_dir_all(scene.node.runtime_dir()).unwrap(),
            Deleted::Lock => fs::remove_file(in_runtime(scene, "lock")).unwrap(),
        }
    }
}

/// A node outside of /tmp, with a kubelet and a driver; the registrar is not started yet.
pub(crate) fn quiet() -> KubeletScene {
    let node = Node::below(Path::new(BASE), Layout::TwoDirectories);
    setup().on(node).more(KEEP).kubelet(Release::V1_36).set()
}

fn in_runtime(scene: &KubeletScene, file: &str) -> PathBuf {
    scene.node.runtime_dir().join(file)
}

/// How often the daemon wakes up without requests. Other processes that change a parent directory wake
/// it too, so the test tries several windows; a daemon that polls does so in all of them.
pub(crate) fn wakeups(registrar: &Registrar) -> u64 {
    let mut fewest = u64::MAX;
    for _ in 0..WINDOWS {
        // Late effects of the last event may still follow.
        thread::sleep(Duration::from_secs(1));
        let before = registrar.wakeups();
        thread::sleep(WINDOW);
        // A thread that looked at the volumes for a status may end, and its wake-ups with it.
        fewest = fewest.min(registrar.wakeups().saturating_sub(before));
        if fewest < FEW {
            break;
        }
    }
    fewest
}

/// A second instance with the directories of the scene.
fn second(scene: &KubeletScene) -> Registrar {
    Registrar::new(PROGRAM, &scene.node)
}

#[test]
fn deleted_parts_of_the_runtime_directory_are_recreated() {
    for_each(&Deleted::ALL, |deleted| {
        let scene = quiet().registered();
        let mark = scene.kubelet.mark();
        deleted.delete(&scene);
        eventually("lock, state and control socket are back", SOON, || {
            ["lock", "state.json", "control.sock"]
                .iter()
                .all(|file| exists(&in_runtime(&scene, file)))
        });
        scene.wait_phase("registered");
        let output = second(&scene).run_cli(["run"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let pid = scene.registrar.pid();
        assert!(said.contains(&format!("pid {pid} holds")), "{said}");
        let woken = wakeups(&scene.registrar);
        assert!(woken < FEW, "{woken} wake-ups");
        scene.ends_registered(mark, 0, 0);
    });
}

#[test]
fn the_state_that_is_written_again_is_worth_as_much_as_the_first() {
    let mut scene = setup().more(KEEP).kubelet(Release::V1_36).registered();
    Deleted::Directory.delete(&scene);
    let state = in_runtime(&scene, "state.json");
    eventually("the state is back", SOON, || exists(&state));
    let mark = scene.kubelet.mark();
    scene.registrar.kill9();
    scene.registrar.start();
    scene.ends_registered(mark, 0, 0);
}

#[test]
fn a_link_in_the_place_of_the_runtime_directory_is_not_followed() {
    let mut scene = quiet();
    let notify = NotifySocket::bind(scene.node.root().join("notify"));
    // With a watchdog of 2 s the resync comes each second.
    scene.registrar = scene
        .registrar
        .with_env("NOTIFY_SOCKET", notify.path())
        .with_env("WATCHDOG_USEC", "2000000");
    let scene = scene.registered();
    let mark = scene.kubelet.mark();
    let elsewhere = scene.node.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let link = scene.node.root().join("link");
    symlink(&elsewhere, &link).unwrap();
    // Faster than the daemon, which would create the directory again.
    fs::rename(scene.node.runtime_dir(), scene.node.root().join("aside")).unwrap();
    fs::rename(&link, scene.node.runtime_dir()).unwrap();
    notify.wait_for_status("is not used: it is a symbolic link", SOON);
    // The next resyncs do not follow it either.
    let before = scene.registrar.wakeups();
    eventually("it has looked again", SOON, || {
        scene.registrar.wakeups() > before + 5
    });
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    fs::remove_file(scene.node.runtime_dir()).unwrap();
    scene.wait_phase("registered");
    scene.ends_registered(mark, 0, 0);
}

#[test]
fn a_runtime_directory_that_cannot_be_created_is_reported_once_and_costs_no_wakeups() {
    let mut scene = quiet();
    let notify = NotifySocket::bind(scene.node.root().join("notify"));
    scene.registrar = scene.registrar.with_env("NOTIFY_SOCKET", notify.path());
    let mut scene = scene.registered();
    let mark = scene.kubelet.mark();
    Deleted::Directory.delete(&scene);
    fs::write(scene.node.runtime_dir(), "in the way").unwrap();
    let words = "cannot make the runtime directory";
    notify.wait_for_status(words, SOON);
    let woken = wakeups(&scene.registrar);
    assert!(woken < FEW, "{woken} wake-ups");
    // Even while the daemon has state to write.
    scene.driver.kill();
    scene.driver.restart(bed::Behaviour::named(NAME));
    scene.kubelet.restart();
    scene.kubelet.wait_registered(NAME, SOON);
    let woken = wakeups(&scene.registrar);
    assert!(woken < FEW, "{woken} wake-ups");
    fs::remove_file(scene.node.runtime_dir()).unwrap();
    scene.wait_phase("registered");
    eventually("the status no longer tells", SOON, || {
        let status = notify.status().unwrap();
        (!status.contains(words)).then_some(()).ok_or(status)
    });
    let logs = scene.registrar.logs();
    let told = logs.lines().filter(|line| line.contains(words));
    assert_eq!(told.count(), 1, "{logs}");
    assert!(scene.kubelet.counts_since(mark).deregistrations == 0);
}

#[test]
fn an_instance_whose_runtime_directory_was_taken_leaves_and_the_other_adopts_its_links() {
    for_each(&Deleted::ALL, |deleted| {
        // Not "keep": whatever the setting, the first instance must not withdraw drivers that the
        // second has.
        let mut scene = setup()
            .more("[service]\non_stop = \"withdraw\"\n")
            .kubelet(Release::V1_36)
            .registered();
        let mark = scene.kubelet.mark();
        deleted.delete(&scene);
        let mut second = second(&scene);
        second.start();
        eventually("the second has the lock", SOON, || {
            let held = fs::read_to_string(in_runtime(&scene, "lock"));
            held.is_ok_and(|pid| pid.trim() == second.pid().to_string())
        });
        assert_eq!(scene.registrar.wait_exit(SOON).code(), Some(1));
        let logs = scene.registrar.logs();
        let pid = second.pid();
        assert!(logs.contains(&format!("pid {pid} holds")), "{logs}");
        std::mem::swap(&mut scene.registrar, &mut second);
        // Without a state, nothing tells that the kubelet holds the driver: one announcement finds out.
        let announced = match deleted {
            Deleted::Directory => 1,
            Deleted::Lock => 0,
        };
        scene.ends_registered(mark, announced, announced);
        assert!(exists(&scene.link()) && exists(&scene.node.reg_socket(NAME)));
        // The control socket and the state belong to the second instance.
        let mark = scene.kubelet.mark();
        scene.registrar.kill9();
        scene.registrar.start();
        scene.ends_registered(mark, 0, 0);
    });
}

/// Holds the lock, with this pid in it.
fn hold(scene: &KubeletScene, pid: &str) -> Flock<File> {
    fs::create_dir_all(scene.node.runtime_dir()).unwrap();
    let lock = in_runtime(scene, "lock");
    fs::write(&lock, pid).unwrap();
    let file = File::options().write(true).open(&lock).unwrap();
    Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap()
}

/// As after kill -9: the kernel closes the files of the process some time after the signal.
#[test]
fn a_predecessor_that_is_still_ending_is_waited_for() {
    let mut scene = setup().more(KEEP).kubelet(Release::V1_36).set();
    let held = hold(&scene, "7\n");
    scene.registrar.start();
    thread::sleep(Duration::from_millis(300));
    drop(held);
    scene.wait_phase("registered");
}

#[test]
fn an_instance_that_does_not_end_is_named_after_a_moment() {
    let mut scene = setup().more(KEEP).kubelet(Release::V1_36).set();
    let _held = hold(&scene, "7\n");
    scene.registrar.start();
    let status = scene.registrar.wait_exit(SOON);
    assert_eq!(status.code(), Some(1));
    let logs = scene.registrar.logs();
    assert!(
        logs.contains("another instance runs: pid 7 holds"),
        "{logs}"
    );
}
