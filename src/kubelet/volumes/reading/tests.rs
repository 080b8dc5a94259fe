//! Looks at directories that a kubelet, an operator or an attacker has made.

use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use bed::{KubeletVolumes, Mounts, VolumeDir};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::stat::Mode;
use nix::unistd::{Uid, mkfifo, setfsuid};
use tempfile::TempDir;

use super::*;
use crate::kubelet::volumes::VolumeUse;
use crate::os::text::garbles;

const A: &str = "a.csi.example.com";
const B: &str = "b.csi.example.com";

struct Scene {
    dir: TempDir,
    kubelet: KubeletVolumes,
}

impl Scene {
    /// B has a volume, and A has none yet.
    fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let kubelet = KubeletVolumes::below(dir.path().join("kubelet"));
        kubelet.pod("uid-b", "pv-b", B, "handle-b");
        Scene { dir, kubelet }
    }

    fn look(&self) -> NodeVolumes {
        Reading::of(self.kubelet.root(), &Reach::default())
    }

    fn of(&self, driver: &str) -> VolumeUse {
        of(&self.look(), driver)
    }

    /// No driver is known to be free or in use, because of this path.
    #[track_caller]
    fn hides_all(&self, path: &Path) {
        let look = self.look();
        for driver in [A, B] {
            let why = why(&of(&look, driver));
            assert!(why.contains(&*path.to_string_lossy()), "{why}");
        }
        assert!(look.unknown().is_some());
    }

    fn hostile(&self) -> VolumeDir {
        self.kubelet.pod_dir("uid-a", "pv-a").made()
    }
}

fn of(volumes: &NodeVolumes, driver: &str) -> VolumeUse {
    volumes.of(&DriverName::parse(driver).unwrap())
}

fn in_use(volumes: usize, pods: &[&str]) -> VolumeUse {
    let pods = pods.iter().map(|pod| (*pod).to_owned()).collect();
    VolumeUse::InUse { volumes, pods }
}

#[track_caller]
fn why(found: &VolumeUse) -> String {
    let VolumeUse::NotKnown(why) = found else {
        panic!("{found:?}");
    };
    assert!(found.holds() && found.count().is_none());
    assert!(!why.contains(garbles), "{why}");
    why.clone()
}

#[test]
fn each_volume_counts_once_in_whichever_files_it_is() {
    let scene = Scene::new();
    let kubelet = &scene.kubelet;
    assert_eq!(scene.of(A), VolumeUse::Free);
    kubelet.pod("uid-1", "pv-1", A, "h1");
    kubelet.staged_from_1_24("sum", A, "h1");
    assert_eq!(scene.of(A), in_use(1, &["uid-1"]));
    kubelet.pod("uid-2", "pv-1", A, "h1");
    kubelet.inline("uid-2", "scratch", A);
    assert_eq!(scene.of(A), in_use(2, &["uid-1", "uid-2"]));
    // Staged, and no pod has it yet.
    kubelet.staged_before_1_24("pv-3", A, "h3");
    assert_eq!(scene.of(A), in_use(3, &["uid-1", "uid-2"]));
    kubelet.block("uid-3", "pv-4", A, "h4");
    kubelet.block("uid-4", "pv-4", A, "h4");
    let pods = ["uid-1", "uid-2", "uid-3", "uid-4"];
    assert_eq!(scene.of(A), in_use(4, &pods));
    assert_eq!(scene.of(B), in_use(1, &["uid-b"]));
    kubelet.remove_all();
    assert_eq!(scene.of(A), VolumeUse::Free);
    assert_eq!(scene.of(B), VolumeUse::Free);
}

#[test]
fn a_block_volume_whose_pods_cannot_be_told_is_in_use_all_the_same() {
    let scene = Scene::new();
    scene.kubelet.block("uid-1", "pv-1", A, "h1");
    scene.kubelet.remove_pod("uid-1");
    assert_eq!(scene.of(A), in_use(1, &[]));
    let words = scene.of(A).words().unwrap();
    assert_eq!(words, "1 volume is in use by no known pod");
}

#[test]
fn without_a_kubelet_or_without_pods_there_are_no_volumes() {
    let scene = Scene::new();
    scene.kubelet.staged_from_1_24("sum", A, "h1");
    fs::remove_dir_all(scene.kubelet.pods()).unwrap();
    assert_eq!(scene.of(A), VolumeUse::Free);
    fs::remove_dir_all(scene.kubelet.root()).unwrap();
    assert_eq!(scene.of(A), VolumeUse::Free);
}

#[test]
fn the_kubelets_own_directories_may_be_links_to_another_disk() {
    let scene = Scene::new();
    scene.kubelet.staged_from_1_24("sum", A, "h1");
    for directory in [scene.kubelet.pods(), scene.kubelet.root().join("plugins")] {
        let name = directory.file_name().unwrap();
        let disk = scene.dir.path().join("disk").join(name);
        fs::create_dir_all(disk.parent().unwrap()).unwrap();
        fs::rename(&directory, &disk).unwrap();
        symlink(&disk, &directory).unwrap();
        assert_eq!(scene.of(A), in_use(1, &[]));
        assert_eq!(scene.of(B), in_use(1, &["uid-b"]));
    }
    let root = scene.dir.path().join("root");
    symlink(scene.kubelet.root(), &root).unwrap();
    let look = Reading::of(&root, &Reach::default());
    assert_eq!(of(&look, B), in_use(1, &["uid-b"]));
    // A mount on the other disk is seen too.
    let disk = scene.dir.path().canonicalize().unwrap().join("disk");
    let hanging = disk.join("pods/uid-b");
    let look = Reading::of(&root, &Reach::with_mount(&hanging));
    assert!(why(&of(&look, B)).contains("mounted"));
}

#[test]
fn a_disk_that_is_not_mounted_yet_makes_no_driver_free() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.kubelet.pods()).unwrap();
    symlink("/nowhere/pods", scene.kubelet.pods()).unwrap();
    scene.hides_all(&scene.kubelet.pods());
    fs::remove_file(scene.kubelet.pods()).unwrap();
    fs::create_dir(scene.kubelet.pods()).unwrap();
    let plugins = scene.kubelet.root().join("plugins");
    symlink("/nowhere/plugins", &plugins).unwrap();
    scene.hides_all(&plugins);
    fs::remove_dir_all(scene.kubelet.root()).unwrap();
    symlink("/nowhere", scene.kubelet.root()).unwrap();
    scene.hides_all(scene.kubelet.root());
}

#[test]
fn a_file_that_cannot_be_trusted_makes_no_driver_free() {
    let deep = "[".repeat(10_000);
    let large = format!(
        r#"{{"driverName":"{A}","volumeHandle":"h","x":"{}"}}"#,
        "x".repeat(vol_data::LARGEST)
    );
    for text in [
        "",
        "{",
        "not JSON",
        "[]",
        "null",
        r#"{"volumeHandle":"h"}"#,
        r#"{"driverName":7,"volumeHandle":"h"}"#,
        r#"{"driverName":"a\u001b[2J\u202e","volumeHandle":"h"}"#,
        r#"{"driverName":"../../etc","volumeHandle":"h"}"#,
        &deep,
        &large,
    ] {
        let scene = Scene::new();
        let hostile = scene.hostile();
        hostile.put(text);
        scene.hides_all(&hostile.file());
    }
}

#[test]
fn a_pipe_a_device_a_link_and_a_directory_in_place_of_the_file_are_not_read() {
    let scene = Scene::new();
    let hostile = scene.hostile();
    let elsewhere = scene.dir.path().join("elsewhere.json");
    fs::write(
        &elsewhere,
        format!(r#"{{"driverName":"{A}","volumeHandle":"h"}}"#),
    )
    .unwrap();
    let planted: [fn(&Path, &Path); 6] = [
        |file, _| mkfifo(file, Mode::S_IRUSR).unwrap(),
        |file, _| symlink("/dev/zero", file).unwrap(),
        |file, elsewhere| symlink(elsewhere, file).unwrap(),
        |file, _| symlink("/nowhere", file).unwrap(),
        |file, _| drop(UnixListener::bind(file).unwrap()),
        |file, _| fs::create_dir(file).unwrap(),
    ];
    for plant in planted {
        plant(&hostile.file(), &elsewhere);
        scene.hides_all(&hostile.file());
        hostile.remove();
        fs::create_dir(hostile.path()).unwrap();
    }
    // A sparse file of a terabyte.
    File::create(hostile.file())
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    scene.hides_all(&hostile.file());
}

#[test]
fn links_in_place_of_directories_are_not_followed() {
    for name in [
        "",
        "volumes",
        "volumes/kubernetes.io~csi",
        "volumes/kubernetes.io~csi/pv-a",
    ] {
        let scene = Scene::new();
        let volume = scene.kubelet.pod("uid-a", "pv-a", A, "h1");
        let directory = scene.kubelet.pods().join("uid-a").join(name);
        let elsewhere = scene.dir.path().join("elsewhere");
        fs::rename(&directory, &elsewhere).unwrap();
        // Joined with nothing, a path ends with a slash, which would follow the link.
        let directory: std::path::PathBuf = directory.components().collect();
        // An absolute link could also fail because it crosses a mount.
        let above = directory.parent().unwrap();
        let steps = above.strip_prefix(scene.dir.path()).unwrap().components();
        let up: std::path::PathBuf = steps.map(|_| "..").collect();
        symlink(up.join("elsewhere"), &directory).unwrap();
        assert!(volume.file().exists());
        scene.hides_all(&directory);
    }
}

#[test]
fn a_staged_volume_that_cannot_be_read_tells_its_driver_by_its_directory() {
    let scene = Scene::new();
    scene.kubelet.pod("uid-a", "pv-a", A, "h1");
    scene
        .kubelet
        .staged_from_1_24("sum-a", A, "h1")
        .put("not JSON");
    scene.kubelet.staged_from_1_24("sum-b", B, "handle-b");
    let why_a = why(&scene.of(A));
    assert!(why_a.contains("sum-a/vol_data.json"), "{why_a}");
    assert_eq!(scene.of(B), in_use(1, &["uid-b"]));
    assert_eq!(scene.look().unknown(), Some(&*why_a));
    // The old layout has no such directory.
    let old = scene.kubelet.staged_before_1_24("pv-a", A, "h1");
    old.put("not JSON");
    scene.hides_all(&old.file());
    old.remove();
    let block = scene.kubelet.block("uid-b", "pv-c", B, "h3");
    block.put("not JSON");
    scene.hides_all(&block.file());
}

#[test]
fn a_volume_without_a_handle_is_in_use_by_its_driver() {
    let scene = Scene::new();
    scene.hostile().put(format!(r#"{{"driverName":"{A}"}}"#));
    assert!(why(&scene.of(A)).contains("no volumeHandle"));
    assert_eq!(scene.of(B), in_use(1, &["uid-b"]));
}

#[test]
fn files_of_others_beside_the_volumes_are_no_error() {
    let scene = Scene::new();
    scene.kubelet.block("uid-1", "pv-1", A, "h1");
    let staged = scene.kubelet.staged();
    // The kubelet's own directories of block volumes, which have no data.
    for name in ["staging", "publish"] {
        fs::create_dir_all(staged.join("volumeDevices").join(name).join("pv-1")).unwrap();
    }
    let volumes = scene.kubelet.pods().join("uid-b/volumes");
    fs::create_dir_all(volumes.join("kubernetes.io~secret/token")).unwrap();
    fs::create_dir_all(volumes.join("kubernetes.io~csi/not-written-yet")).unwrap();
    for directory in [
        scene.kubelet.pods(),
        volumes.join("kubernetes.io~csi"),
        staged,
    ] {
        fs::write(directory.join("file"), "").unwrap();
        drop(UnixListener::bind(directory.join("socket")).unwrap());
    }
    // A file in place of a directory.
    fs::create_dir_all(scene.kubelet.pods().join("uid-c")).unwrap();
    fs::write(scene.kubelet.pods().join("uid-c/volumes"), "").unwrap();
    assert_eq!(scene.of(A), in_use(1, &["uid-1"]));
    assert_eq!(scene.of(B), in_use(1, &["uid-b"]));
}

#[test]
fn a_directory_that_may_not_be_read_makes_no_driver_free() {
    if !bed::is_root("to become another user") {
        return;
    }
    let scene = Scene::new();
    for (directory, mode) in [
        (scene.dir.path(), 0o755),
        (scene.kubelet.root(), 0o755),
        (&scene.kubelet.pods(), 0o700),
    ] {
        fs::set_permissions(directory, Permissions::from_mode(mode)).unwrap();
    }
    let root = scene.kubelet.root().to_owned();
    // The user of this thread alone; root's capabilities go with it.
    let look = thread::spawn(move || {
        setfsuid(Uid::from_raw(65_534));
        Reading::of(&root, &Reach::default())
    });
    let why = why(&of(&look.join().unwrap(), A));
    let pods = scene.kubelet.pods();
    assert!(
        why.starts_with(&format!(
            "cannot read {}: Permission denied",
            pods.display()
        )),
        "{why}"
    );
}

#[test]
fn a_mount_over_the_kubelets_files_makes_no_driver_free() {
    let scene = Scene::new();
    let root = scene.kubelet.root().to_owned();
    let volume = scene.kubelet.pod("uid-a", "pv-a", A, "h1");
    // In a thread, whose mounts end with it.
    let look = thread::spawn(move || {
        let mut mounts = Mounts::private()?;
        let file = volume.file().canonicalize().unwrap();
        mounts.tmpfs(&volume.path().join("mount"), 10, 4096);
        let beside = Reading::of(&root, &Reach::default());
        mounts.bind(Path::new("/dev/null"), &file);
        let over_file = Reading::of(&root, &Reach::default());
        mounts.tmpfs(volume.path(), 10, 4096);
        let over_directory = Reading::of(&root, &Reach::default());
        Some([beside, over_file, over_directory])
    });
    let Some([beside, over_file, over_directory]) = look.join().unwrap() else {
        return bed::skipped("root, to mount");
    };
    assert_eq!(of(&beside, A), in_use(1, &["uid-a"]));
    assert!(why(&of(&over_file, A)).contains("vol_data.json"));
    assert!(why(&of(&over_directory, A)).contains("a file system is mounted there"));
    assert!(why(&of(&over_directory, B)).contains("kubernetes.io~csi/pv-a"));
}

#[test]
fn a_mount_that_may_hang_is_not_opened() {
    let scene = Scene::new();
    let volume = scene.kubelet.pod("uid-a", "pv-a", A, "h1");
    let volume = volume.path().canonicalize().unwrap();
    let beside = Reach::with_mount(&volume.join("mount"));
    let look = Reading::of(scene.kubelet.root(), &beside);
    assert_eq!(of(&look, A), in_use(1, &["uid-a"]));
    let opened = opens(&volume, || {
        let look = Reading::of(scene.kubelet.root(), &Reach::with_mount(&volume));
        assert!(why(&of(&look, A)).contains("a file system is mounted there"));
    });
    assert_eq!(opened, 0);
}

/// How often this file or directory, or an entry of it, was opened meanwhile.
fn opens(path: &Path, meanwhile: impl FnOnce()) -> usize {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
    inotify.add_watch(path, AddWatchFlags::IN_OPEN).unwrap();
    meanwhile();
    inotify.read_events().map_or(0, |events| events.len())
}

#[test]
fn the_mount_points_beside_the_files_are_not_opened() {
    let scene = Scene::new();
    let pod = scene.kubelet.pod("uid-a", "pv-a", A, "h1");
    let staged = scene.kubelet.staged_from_1_24("sum", A, "h1");
    let block = scene.kubelet.block("uid-a", "pv-c", A, "h2");
    let device = block.path().parent().unwrap().join("dev");
    for point in [
        pod.path().join("mount"),
        staged.path().join("globalmount"),
        device,
    ] {
        assert_eq!(
            opens(&point, || drop(scene.look())),
            0,
            "{}",
            point.display()
        );
    }
    assert!(opens(&pod.file(), || drop(scene.look())) > 0);
}

#[test]
fn a_file_that_the_kubelet_is_writing_is_read_again() {
    let whole = format!(r#"{{"driverName":"{A}","volumeHandle":"h"}}"#);
    // The second look comes after some milliseconds, and this machine may be busy for longer.
    let is_read_again = (0..20).any(|_| {
        let scene = Scene::new();
        let hostile = scene.hostile();
        hostile.put(&whole[..20]);
        let inotify = Inotify::init(InitFlags::empty()).unwrap();
        let flags = AddWatchFlags::IN_CLOSE_NOWRITE;
        inotify.add_watch(&hostile.file(), flags).unwrap();
        let (file, whole) = (hostile.file(), whole.clone());
        let kubelet = thread::spawn(move || {
            inotify.read_events().unwrap();
            fs::write(file, whole).unwrap();
        });
        let found = scene.of(A);
        kubelet.join().unwrap();
        found == in_use(1, &["uid-a"])
    });
    assert!(is_read_again);
}

#[test]
fn many_files_that_stay_empty_cost_as_much_as_a_single_one() {
    let scene = Scene::new();
    for number in 0..100 {
        let staged = scene
            .kubelet
            .staged_from_1_24("sum", &format!("{number}.csi"), "h");
        staged.put("");
    }
    let reach = Reach::default();
    let mut reading = Reading::new(&reach, NODE);
    assert!(reading.read(scene.kubelet.root()).is_ok());
    assert!(reading.pauses.is_empty());
    assert_eq!(reading.files, 101);
}

#[test]
fn pods_that_come_and_go_meanwhile_are_no_error() {
    let scene = Scene::new();
    let (kubelet, over) = (scene.kubelet.clone(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                kubelet.pod("uid-a", "pv-a", A, "h1");
                let staged = kubelet.staged_from_1_24("sum", A, "h1");
                kubelet.remove_pod("uid-a");
                staged.remove();
            }
        });
        for _ in 0..300 {
            let look = scene.look();
            assert_eq!(look.unknown(), None);
            assert_eq!(of(&look, B), in_use(1, &["uid-b"]));
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn names_that_are_not_text_do_no_harm() {
    let scene = Scene::new();
    let odd = OsStr::from_bytes(b"\xff\x1b[2J\n");
    let directory = scene
        .kubelet
        .pods()
        .join(odd)
        .join("volumes/kubernetes.io~csi")
        .join(odd);
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join(VOL_DATA);
    fs::write(
        &file,
        format!(r#"{{"driverName":"{A}","volumeHandle":"h"}}"#),
    )
    .unwrap();
    let words = scene.of(A).words().unwrap();
    assert_eq!(words, "1 volume is in use by pod \u{fffd}\\u{1b}[2J");
    fs::write(&file, "not JSON").unwrap();
    why(&scene.of(A));
}

#[test]
fn a_look_reads_so_much_and_no_more() {
    let scene = Scene::new();
    for number in 0..10 {
        scene
            .kubelet
            .pod(&format!("uid-{number}"), "pv", A, &format!("h{number}"));
    }
    // 11 pods, each with a volume, and the directory of the staged volumes.
    scene.kubelet.staged_from_1_24("sum", A, "h0");
    let enough = Limits {
        files: 12,
        names: 24,
        bytes: 12 * 300,
        time: NODE.time,
    };
    let within = |limits| Reading::within(scene.kubelet.root(), &Reach::default(), limits);
    assert_eq!(within(enough).unknown(), None);
    for (limits, words) in [
        (
            Limits {
                files: 11,
                ..enough
            },
            "more than 11 files",
        ),
        (
            Limits {
                names: 23,
                ..enough
            },
            "more than 23 names",
        ),
        (
            Limits {
                bytes: 500,
                ..enough
            },
            "more than 500 bytes",
        ),
        (
            Limits {
                time: Duration::ZERO,
                ..enough
            },
            "not read within 0ns",
        ),
    ] {
        let why = why(&of(&within(limits), B));
        assert!(why.contains(words), "{why}");
    }
}
