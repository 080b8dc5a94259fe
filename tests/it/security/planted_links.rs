//! Links planted at the daemon's own paths: it replaces or refuses the link, and does not touch its
//! target.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use bed::scene::{NAME, SOON};
use bed::{Scene, eventually, is_root};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::security::victim::{Victim, mode};
use crate::setup;

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

#[test]
fn a_link_at_the_states_temporary_name_is_not_written_through() {
    let scene = setup().http().started();
    scene.phase(NAME, "waiting-for-driver");
    let victim = Victim::in_directory(scene.node.root());
    let state = scene.node.runtime_dir().join("state.json");
    let before = fs::read(&state).unwrap_or_default();
    symlink(victim.path(), state.with_extension("json.new")).unwrap();
    let _driver = scene.node.driver(NAME);
    let kubelet = scene.node.kubelet();
    kubelet.wait_registered(NAME, SOON);
    eventually("the state is written", SOON, || {
        fs::read(&state).unwrap_or_default() != before
    });
    assert!(is_file(&state));
    victim.is_untouched();
}

#[test]
fn links_at_the_places_of_state_and_control_socket_are_replaced() {
    let mut scene = setup().http().set();
    let victim = Victim::in_directory(scene.node.root());
    let state = scene.node.runtime_dir().join("state.json");
    for path in [&state, &scene.control()] {
        symlink(victim.path(), path).unwrap();
    }
    scene.registrar.start();
    let _driver = scene.node.driver(NAME);
    let kubelet = scene.node.kubelet();
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    eventually("the state is written", SOON, || is_file(&state));
    assert!(is_socket(&scene.control()));
    assert!(
        scene
            .registrar
            .logs()
            .contains("the state file is not trusted")
    );
    victim.is_untouched();
}

#[test]
fn a_pipe_at_the_place_of_the_state_is_not_waited_for() {
    let mut scene = setup().http().set();
    let state = scene.node.runtime_dir().join("state.json");
    mkfifo(&state, Mode::from_bits_truncate(0o600)).unwrap();
    scene.registrar.start();
    let _driver = scene.node.driver(NAME);
    let kubelet = scene.node.kubelet();
    kubelet.wait_registered(NAME, SOON);
    eventually("the state is written", SOON, || is_file(&state));
}

#[test]
fn a_link_at_the_place_of_the_lock_is_refused() {
    let mut scene = setup().http().set();
    let victim = Victim::in_directory(scene.node.root());
    symlink(victim.path(), scene.node.runtime_dir().join("lock")).unwrap();
    scene.registrar.start();
    assert_eq!(scene.registrar.wait_exit(SOON).code(), Some(1));
    assert!(scene.registrar.logs().contains("cannot lock"));
    victim.is_untouched();
}

/// Registers a driver, so that its state is on disk.
fn left_behind() -> (Scene, bed::FakeDriver, bed::TestKubelet) {
    let mut scene = setup()
        .http()
        .more("[service]\non_stop = \"keep\"\n")
        .started();
    let driver = scene.node.driver(NAME);
    let kubelet = scene.node.kubelet();
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    scene.registrar.stop();
    (scene, driver, kubelet)
}

#[test]
fn a_state_that_others_may_have_written_is_not_trusted() {
    let (mut scene, _driver, _kubelet) = left_behind();
    let state = scene.node.runtime_dir().join("state.json");
    fs::set_permissions(&state, Permissions::from_mode(0o602)).unwrap();
    scene.registrar.start();
    scene.phase(NAME, "registered");
    let logs = scene.registrar.logs();
    assert!(logs.contains("it may be another user's: uid"), "{logs}");
    scene.registrar.stop();
    assert_eq!(mode(&state), 0o600, "the daemon writes it again");
}

#[test]
fn a_state_of_another_user_is_not_trusted() {
    if !is_root("act as another user") {
        return;
    }
    let (mut scene, _driver, _kubelet) = left_behind();
    let state = scene.node.runtime_dir().join("state.json");
    chown(&state, Some(65534), None).unwrap();
    scene.registrar.start();
    scene.phase(NAME, "registered");
    let logs = scene.registrar.logs();
    assert!(
        logs.contains("it may be another user's: uid 65534"),
        "{logs}"
    );
}

#[test]
fn a_link_at_the_place_of_the_registration_socket_is_replaced() {
    let scene = setup().http().started();
    scene.phase(NAME, "waiting-for-driver");
    fs::create_dir_all(scene.node.registry_dir()).unwrap();
    let victim = Victim::in_directory(scene.node.root());
    symlink(victim.path(), scene.node.reg_socket(NAME)).unwrap();
    let _driver = scene.node.driver(NAME);
    scene.wait_answered(NAME);
    assert!(is_socket(&scene.node.reg_socket(NAME)));
    victim.is_untouched();
}

/// Puts a link to `target` at the path of each temporary socket, as fast as it can, and counts how
/// often it won the race.
fn plant(directory: &Path, target: &Path, won: &AtomicUsize, ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        for entry in fs::read_dir(directory).unwrap().filter_map(Result::ok) {
            let staged = entry.file_name().to_string_lossy().starts_with(".nr");
            let path = entry.path();
            // The temporary name exists for microseconds.
            if staged
                && is_socket(&path)
                && fs::remove_file(&path).is_ok()
                && symlink(target, &path).is_ok()
            {
                won.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[test]
fn a_race_for_temporary_names_in_a_directory_that_others_may_write_harms_no_other_file() {
    let mut scene = setup().http().set();
    fs::create_dir_all(scene.node.registry_dir()).unwrap();
    fs::set_permissions(scene.node.registry_dir(), Permissions::from_mode(0o777)).unwrap();
    let victim = Victim::in_directory(scene.node.root());
    let (won, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let registry = scene.node.registry_dir();
    let socket = scene.node.reg_socket(NAME);
    let what_is_there = || {
        let found = fs::symlink_metadata(&socket).ok()?;
        Some((found.ino(), found.ctime(), found.ctime_nsec()))
    };
    thread::scope(|scope| {
        let planting =
            [0; 2].map(|_| scope.spawn(|| plant(&registry, victim.path(), &won, &ended)));
        let mut rounds = 0;
        // Each start binds again, over a leftover or a planted file.
        while rounds < 40 || (won.load(Ordering::Relaxed) == 0 && rounds < 2000) {
            rounds += 1;
            let before = what_is_there();
            scene.registrar.start();
            let driver = scene.node.driver(NAME);
            eventually("something is put there", SOON, || {
                let now = what_is_there();
                (now.is_some() && now != before)
                    || scene.registrar.status().is_some_and(has_obstacle)
            });
            scene.registrar.kill9();
            drop(driver);
        }
        println!(
            "{} races won in {rounds} rounds",
            won.load(Ordering::Relaxed)
        );
        ended.store(true, Ordering::Relaxed);
        planting.into_iter().for_each(|one| one.join().unwrap());
    });
    assert!(won.into_inner() > 0, "no race was won");
    victim.is_untouched();
    scene.registrar.start();
    let _driver = scene.node.driver(NAME);
    scene.wait_answered(NAME);
}

/// The daemon reports a foreign file at the socket's path.
fn has_obstacle(status: bed::Status) -> bool {
    let driver = status.driver(NAME);
    driver.is_some_and(|driver| driver.last_error.is_some())
}
