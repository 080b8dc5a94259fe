//! state.json: trusted only when it is complete, the daemon's own and of this boot; and written before
//! Notify is answered.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use bed::scene::{KEEP, NAME, SOON, for_each, reason};
use bed::{KubeletScene, Release, eventually, wire};

use crate::setup;

/// A way in which a state file is not valid.
#[derive(Clone, Copy, Debug)]
enum Spoiled {
    Torn,
    Empty,
    Garbage,
    Foreign,
    OtherBoot,
    Newer,
    NewerShape,
}

impl Spoiled {
    const ALL: [Spoiled; 7] = [
        Spoiled::Torn,
        Spoiled::Empty,
        Spoiled::Garbage,
        Spoiled::Foreign,
        Spoiled::OtherBoot,
        Spoiled::Newer,
        Spoiled::NewerShape,
    ];

    /// The file's new content, and a word of the warning.
    fn spoil(self, state: &str) -> (Vec<u8>, &'static str) {
        let torn = "torn or not ours";
        match self {
            Spoiled::Torn => (state.as_bytes()[..state.len() / 2].to_vec(), torn),
            Spoiled::Empty => (Vec::new(), torn),
            Spoiled::Garbage => (vec![0xff; 300], torn),
            Spoiled::Foreign => (
                b"{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}".to_vec(),
                torn,
            ),
            Spoiled::OtherBoot => {
                let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
                let other = state.replace(boot.trim(), "9f0c1f2e-0000-4000-8000-000000000000");
                assert_ne!(other, state);
                (other.into_bytes(), "another boot")
            }
            Spoiled::Newer => {
                let newer = state.replace("\"format\":1", "\"format\":2");
                assert_ne!(newer, state);
                (newer.into_bytes(), "newer")
            }
            Spoiled::NewerShape => (b"{\"format\": 7, \"all\": []}".to_vec(), "newer"),
        }
    }
}

fn state(scene: &KubeletScene) -> PathBuf {
    scene.node.runtime_dir().join("state.json")
}

#[test]
fn a_state_file_that_cannot_be_trusted_is_ignored_with_a_warning_and_replaced() {
    for_each(&Spoiled::ALL, |spoiled| {
        let mut scene = setup().more(KEEP).kubelet(Release::V1_36).registered();
        scene.registrar.kill9();
        let before = fs::read_to_string(state(&scene)).unwrap();
        let (content, word) = spoiled.spoil(&before);
        fs::write(state(&scene), content).unwrap();
        let mark = scene.kubelet.mark();
        let told = scene.registrar.logs().len();
        scene.registrar.start();
        // The registrar does not know that the kubelet has the driver, so the kubelet registers it once
        // more.
        eventually("registered again", SOON, || {
            scene.kubelet.counts_since(mark).registrations > 0
        });
        scene.ends_registered(mark, 1, 1);
        let logs = scene.registrar.logs();
        let warning = logs[told..]
            .lines()
            .find(|line| line.contains("the state file is not trusted"));
        let warning = warning.unwrap_or_else(|| panic!("no warning:\n{logs}"));
        assert!(
            warning.contains("WARN") && warning.contains(word),
            "{warning}"
        );

        // The registrar trusts what it wrote since.
        let mark = scene.kubelet.mark();
        scene.registrar.kill9();
        scene.registrar.start();
        scene.ends_registered(mark, 0, 0);
    });
}

/// The test reads the file as soon as the answer arrives, and repeats this: a write after the answer
/// would mostly be too late.
#[test]
fn the_kubelet_has_its_answer_only_when_the_registration_is_written_down() {
    let mut scene = setup().more(KEEP).kubelet(Release::V1_36).set();
    // The test itself plays the kubelet.
    scene.kubelet.kill9();
    scene.registrar.start();
    scene.wait_phase("waiting-for-kubelet");
    let (link, state) = (scene.link(), state(&scene));
    wire::get_info(&link).unwrap();
    for _ in 0..20 {
        for (error, is_written) in [(None, true), (Some("no"), false)] {
            wire::notify(&link, error).unwrap();
            let written = fs::read_to_string(&state).unwrap();
            let found = written.contains("\"kubelet\":{\"pid\"");
            assert_eq!(found, is_written, "{error:?}: {written}");
        }
    }
}

/// A state that names a registration which no longer holds.
#[test]
fn a_state_whose_kubelet_has_ended_is_not_believed() {
    let mut scene = setup().more(KEEP).kubelet(Release::V1_36).registered();
    scene.registrar.kill9();
    let mark = scene.kubelet.mark();
    scene.kubelet.kill9();
    scene.registrar.start();
    scene.wait_phase("waiting-for-kubelet");
    scene.kubelet.restart();
    scene.ends_registered(mark, 1, 0);
}

#[test]
fn a_driver_that_is_down_stays_registered_over_our_restart() {
    let mut scene = setup().more(KEEP).kubelet(Release::V1_36).registered();
    scene.lose_driver();
    let mark = scene.kubelet.mark();
    scene.registrar.kill9();
    scene.registrar.start();
    scene.wait_reason("driver not responding");
    let socket = scene.node.reg_socket(NAME);
    std::os::unix::net::UnixStream::connect(socket).expect("reg.sock is served all the same");
    scene.driver.restart(bed::Behaviour::named(NAME));
    scene.wait_driver("the driver is back", |driver| {
        !reason(driver).contains("not responding")
    });
    scene.ends_registered(mark, 0, 0);
}

/// A file system of one page, or a directory without write permission.
struct Unwritable {
    directory: PathBuf,
    mounted: bool,
}

impl Unwritable {
    fn prepare(directory: &Path) -> Unwritable {
        let mounted = nix::unistd::geteuid().is_root();
        if mounted {
            let mount = Command::new("mount")
                .args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"])
                .arg(directory)
                .status();
            assert!(mount.unwrap().success());
        }
        Unwritable {
            directory: directory.to_owned(),
            mounted,
        }
    }

    fn close(&self) {
        if self.mounted {
            // The loop ends with ENOSPC.
            fs::write(self.directory.join("ballast"), [0; 64 * 1024]).unwrap_err();
        } else {
            fs::set_permissions(&self.directory, fs::Permissions::from_mode(0o555)).unwrap();
        }
    }

    fn open(&self) {
        if self.mounted {
            fs::remove_file(self.directory.join("ballast")).unwrap();
        } else {
            fs::set_permissions(&self.directory, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}

impl Drop for Unwritable {
    fn drop(&mut self) {
        if self.mounted {
            let umount = Command::new("umount")
                .arg("-l")
                .arg(&self.directory)
                .status();
            assert!(umount.unwrap().success());
        }
    }
}

#[test]
fn a_runtime_directory_that_cannot_be_written_costs_a_warning_and_no_registration() {
    let mut scene = setup().kubelet(Release::V1_36).set();
    let runtime = Unwritable::prepare(&scene.node.runtime_dir());
    scene.driver.kill();
    scene.registrar.start();
    scene.wait_phase("waiting-for-driver");
    runtime.close();
    let mark = scene.kubelet.mark();
    scene.driver.restart(bed::Behaviour::named(NAME));
    // From 1.36 on, an error from Notify would de-register the driver.
    scene.ends_registered(mark, 1, 0);
    let logs = scene.registrar.logs();
    let warnings = logs
        .lines()
        .filter(|line| line.contains("WARN") && line.contains("cannot write the state"));
    assert_eq!(warnings.count(), 1, "{logs}");

    runtime.open();
    scene.lose_driver();
    scene.driver.restart(bed::Behaviour::named(NAME));
    scene.wait_driver("the driver answers", |driver| driver.last_error.is_none());
    scene.registrar.succeed(&["reannounce", NAME]);
    eventually("written again", SOON, || {
        scene
            .registrar
            .logs()
            .contains("the state can be written again")
    });
    scene.registrar.stop();
}
