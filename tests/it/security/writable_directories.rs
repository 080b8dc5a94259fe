//! Plugin directories that users other than root can write to.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use bed::scene::{A_WHILE, NAME, OTHER, SOON, is_nothing};
use bed::{Behaviour, FakeDriver, Scene, TestKubelet, eventually, stays, stdout};
use nix::unistd::geteuid;

use crate::setup;

/// Another user.
const USER: u32 = 12345;

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Whether the test may change the owner of files; skips otherwise.
fn can_give_away() -> bool {
    let root = geteuid().is_root();
    if !root {
        bed::skipped("root, to give a directory away");
    }
    root
}

#[test]
fn a_directory_that_other_users_may_write_to_is_refused_until_it_is_fixed() {
    let scene = setup()
        .discovery()
        .more(format!("[drivers.{OTHER:?}]\n"))
        .set();
    let driver = scene.node.driver(NAME);
    let named = scene.node.driver(OTHER);
    let directory = scene.directory(NAME);
    for id in [NAME, OTHER] {
        fs::set_permissions(scene.directory(id), Permissions::from_mode(0o777)).unwrap();
    }
    let mut scene = scene;
    scene.registrar.start();
    let words = "refused: users other than root can write to";
    let status = scene.reason(NAME, "waiting-for-driver", words);
    assert!(status.reason.unwrap().contains("mode 0777"));
    assert!(status.last_error.unwrap().contains(words));
    assert_eq!(driver.calls().len(), 0, "it was asked");
    // A table is the operator's own choice.
    scene.phase(OTHER, "waiting-for-kubelet");
    for mode in [0o775, 0o757, 0o1777] {
        fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
        scene.reason(NAME, "waiting-for-driver", &format!("mode {mode:04o}"));
    }
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
    scene.phase(NAME, "waiting-for-kubelet");
    // Also while the registrar serves the driver.
    fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
    scene.reason(NAME, "waiting-for-driver", words);
    assert!(is_nothing(&scene.node.link(NAME)));
    drop(named);
}

#[test]
fn a_directory_of_another_user_is_refused() {
    if !can_give_away() {
        return;
    }
    let scene = setup().discovery().started();
    fs::create_dir(scene.directory(NAME)).unwrap();
    chown(scene.directory(NAME), Some(12345), None).unwrap();
    let _driver = scene.node.driver(NAME);
    scene.reason(NAME, "waiting-for-driver", "belongs to uid 12345");
    chown(scene.directory(NAME), Some(0), None).unwrap();
    scene.phase(NAME, "waiting-for-kubelet");
}

#[test]
fn a_registration_is_kept_while_its_directory_is_refused() {
    let scene = setup().discovery().started();
    let kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    let mark = kubelet.mark();
    fs::set_permissions(scene.directory(NAME), Permissions::from_mode(0o777)).unwrap();
    scene.reason(NAME, "registered", "refused: users other than root");
    stays("the kubelet hears nothing", A_WHILE, || {
        kubelet.counts_since(mark) == bed::kubelet::Counts::default()
    });
}

#[test]
fn a_sticky_directory_above_passes() {
    // The node itself lives in /tmp.
    let scene = setup().discovery().started();
    let sticky = Permissions::from_mode(0o1777);
    fs::set_permissions(scene.node.plugins_dir(), sticky).unwrap();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
}

#[test]
fn a_driver_is_refused_while_others_may_write_to_any_directory_above_it() {
    let scene = setup().discovery().started();
    let plugins = scene.node.plugins_dir();
    chmod(&plugins, 0o777);
    let driver = scene.node.driver(NAME);
    let words = |directory: &Path, mode: &str| {
        let shown = directory.display();
        format!("refused: users other than root can write to {shown} (mode {mode})")
    };
    scene.reason(NAME, "waiting-for-driver", &words(&plugins, "0777"));
    assert_eq!(driver.calls().len(), 0, "it was asked");
    let above = scene.node.root().join("vdata");
    chmod(&above, 0o757);
    chmod(&plugins, 0o755);
    scene.reason(NAME, "waiting-for-driver", &words(&above, "0757"));
    chmod(&above, 0o755);
    scene.phase(NAME, "waiting-for-kubelet");
    if !can_give_away() {
        return;
    }
    // A group counts as other users, unless it is root's.
    chmod(&plugins, 0o775);
    chown(&plugins, None, Some(USER)).unwrap();
    scene.reason(NAME, "waiting-for-driver", &words(&plugins, "0775"));
    chown(&plugins, None, Some(0)).unwrap();
    scene.phase(NAME, "waiting-for-kubelet");
    chown(&above, Some(USER), None).unwrap();
    let words = format!("refused: {} belongs to uid {USER}", above.display());
    scene.reason(NAME, "waiting-for-driver", &words);
}

#[test]
fn the_target_of_a_link_is_checked_as_well() {
    let scene = setup().discovery().set();
    let open = scene.node.root().join("open");
    let socket = open.join("driver/csi.sock");
    let _driver = FakeDriver::start_in_new_directory(&socket, Behaviour::named(NAME));
    chmod(&open, 0o777);
    symlink(socket.parent().unwrap(), scene.directory(NAME)).unwrap();
    fs::create_dir(scene.directory(OTHER)).unwrap();
    symlink(
        "../../../../open/driver/csi.sock",
        scene.node.csi_socket(OTHER),
    )
    .unwrap();
    let mut scene = scene;
    scene.registrar.start();
    let words = format!("users other than root can write to {} (", open.display());
    for id in [NAME, OTHER] {
        scene.reason(id, "waiting-for-driver", &words);
    }
    chmod(&open, 0o755);
    // The registrar does not watch the target of a link.
    scene.registrar.restart();
    // Both ids lead to the same driver, which only one of them can have.
    for id in [NAME, OTHER] {
        let what = format!("{id} is no longer refused");
        let known = |phase: &str| phase != "waiting-for-driver";
        scene
            .registrar
            .wait_driver(&what, id, SOON, |driver| known(&driver.phase));
    }
}

#[test]
fn a_sticky_directory_protects_what_is_roots_and_nothing_else() {
    if !can_give_away() {
        return;
    }
    let scene = setup().discovery().started();
    chmod(&scene.node.plugins_dir(), 0o1777);
    let aside = scene.node.root().join("aside");
    let _driver =
        FakeDriver::start_in_new_directory(aside.join("csi.sock"), Behaviour::named(NAME));
    symlink(&aside, scene.directory(NAME)).unwrap();
    scene.phase(NAME, "waiting-for-kubelet");
    std::os::unix::fs::lchown(scene.directory(NAME), Some(USER), None).unwrap();
    let words = format!("{} belongs to uid {USER}", scene.directory(NAME).display());
    scene.reason(NAME, "waiting-for-driver", &words);
    // The owner of a directory may rename every file in it.
    fs::remove_file(scene.directory(NAME)).unwrap();
    symlink(&aside, scene.directory(NAME)).unwrap();
    scene.phase(NAME, "waiting-for-kubelet");
    chown(scene.node.plugins_dir(), Some(USER), None).unwrap();
    scene.reason(NAME, "waiting-for-driver", "belongs to uid");
}

#[test]
fn a_driver_that_is_named_is_served_with_a_warning() {
    let scene = setup()
        .discovery()
        .more(format!("[drivers.{NAME:?}]\n"))
        .started();
    chmod(&scene.node.plugins_dir(), 0o777);
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    let shown = scene.node.plugins_dir().display().to_string();
    let words = format!("users other than root can write to {shown} (mode 0777)");
    let told = || scene.registrar.logs().matches(&words).count();
    eventually("the log warns", SOON, || told() > 0);
    let note = || {
        let status = stdout(&scene.registrar.run_cli(["status"]));
        let line = status.split_whitespace().collect::<Vec<_>>().join(" ");
        line.contains(&format!("note: {NAME}: {words}"))
    };
    eventually("status has a note", SOON, note);
    scene.registrar.succeed(&["reload"]);
    assert_eq!(told(), 1);
    chmod(&scene.node.plugins_dir(), 0o755);
    eventually("the note is gone", SOON, || !note());
    scene.phase(NAME, "waiting-for-kubelet");
}

/// A registered driver, in a plugins_dir that every user may write to afterwards.
struct Swapped {
    kubelet: TestKubelet,
    driver: FakeDriver,
    scene: Scene,
}

impl Swapped {
    fn registered() -> Swapped {
        let scene = setup()
            .discovery()
            .more("[service]\non_stop = \"keep\"\n")
            .started();
        let kubelet = scene.node.kubelet();
        let driver = scene.node.driver(NAME);
        kubelet.wait_registered(NAME, SOON);
        scene.phase(NAME, "registered");
        let mark = kubelet.mark();
        chmod(&scene.node.plugins_dir(), 0o777);
        scene.reason(
            NAME,
            "registered",
            "refused: users other than root can write to",
        );
        assert_eq!(kubelet.counts_since(mark), bed::kubelet::Counts::default());
        Swapped {
            kubelet,
            driver,
            scene,
        }
    }

    /// Another user replaces the driver's directory by one with their own driver.
    fn swap(&self) -> FakeDriver {
        let directory = self.scene.directory(NAME);
        let theirs = self.scene.node.root().join("theirs");
        let socket = theirs.join("csi.sock");
        let impostor = FakeDriver::start_in_new_directory(&socket, Behaviour::named(NAME));
        for path in [&theirs, &socket] {
            chown(path, Some(USER), None).unwrap();
        }
        fs::rename(&directory, self.aside()).unwrap();
        fs::rename(theirs, directory).unwrap();
        impostor
    }

    fn aside(&self) -> std::path::PathBuf {
        self.scene.node.root().join("aside")
    }

    /// The kubelet de-registers the driver, and registers it again when the directory is root's.
    #[track_caller]
    fn ends_until_it_is_put_right(&self) {
        self.kubelet.wait_deregistered(NAME, SOON);
        let words = format!("belongs to uid {USER}");
        self.scene.reason(NAME, "waiting-for-driver", &words);
        assert!(is_nothing(&self.scene.node.link(NAME)));
        fs::rename(
            self.scene.directory(NAME),
            self.scene.node.root().join("away"),
        )
        .unwrap();
        fs::rename(self.aside(), self.scene.directory(NAME)).unwrap();
        chmod(&self.scene.node.plugins_dir(), 0o755);
        self.kubelet.wait_registered(NAME, SOON);
        self.scene.phase(NAME, "registered");
    }
}

#[test]
fn a_registration_ends_when_its_directory_becomes_another_users() {
    if !can_give_away() {
        return;
    }
    let swapped = Swapped::registered();
    let impostor = swapped.swap();
    swapped.ends_until_it_is_put_right();
    let asked = impostor.calls().len();
    assert_eq!(asked, 0, "the registrar asked the impostor");
    drop(swapped.driver);
}

#[test]
fn a_registration_ends_when_its_directory_became_another_users_while_the_registrar_was_down() {
    if !can_give_away() {
        return;
    }
    let mut swapped = Swapped::registered();
    swapped.scene.registrar.kill9();
    let _impostor = swapped.swap();
    swapped.scene.registrar.start();
    swapped.ends_until_it_is_put_right();
}

#[test]
fn a_registration_ends_when_its_socket_becomes_another_users() {
    if !can_give_away() {
        return;
    }
    let scene = setup().discovery().started();
    let kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    chmod(&scene.directory(NAME), 0o777);
    scene.reason(
        NAME,
        "registered",
        "refused: users other than root can write to",
    );
    let theirs = scene.node.root().join("theirs/csi.sock");
    let _impostor = FakeDriver::start_in_new_directory(&theirs, Behaviour::named(NAME));
    chown(&theirs, Some(USER), None).unwrap();
    fs::rename(&theirs, scene.node.csi_socket(NAME)).unwrap();
    kubelet.wait_deregistered(NAME, SOON);
    let words = format!("csi.sock belongs to uid {USER}");
    scene.reason(NAME, "waiting-for-driver", &words);
}

#[test]
fn a_registration_is_kept_when_a_directory_gets_another_owner_and_the_driver_is_the_same() {
    if !can_give_away() {
        return;
    }
    let mut scene = setup().discovery().started();
    let kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    let mark = kubelet.mark();
    let words = format!("belongs to uid {USER}");
    for directory in [scene.node.plugins_dir(), scene.directory(NAME)] {
        chown(&directory, Some(USER), None).unwrap();
        scene.reason(NAME, "registered", &words);
        scene.registrar.kill9();
        scene.registrar.start();
        scene.reason(NAME, "registered", &words);
        assert!(!is_nothing(&scene.node.link(NAME)));
        chown(&directory, Some(0), None).unwrap();
        scene
            .registrar
            .wait_driver("it is accepted", NAME, SOON, |driver| {
                driver.phase == "registered"
                    && !driver.reason.as_deref().unwrap().contains("refused")
            });
    }
    assert_eq!(kubelet.counts_since(mark), bed::kubelet::Counts::default());
}
