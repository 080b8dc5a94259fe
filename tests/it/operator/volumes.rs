//! The volumes in use, in everything that an operator reads; and nothing is read while no display asks.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bed::scene::{NAME, OTHER, SOON};
use bed::{NotifySocket, Process, Registrar, Scene, Status, VolumeDir, eventually, stdout};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::doctor::{doctor, findings};
use crate::http_client::get;
use crate::{PROGRAM, setup};

/// Counts how often a file of the kubelet is opened.
struct Opens(Inotify);

impl Opens {
    fn of(volume: &VolumeDir) -> Opens {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
        let flags = AddWatchFlags::IN_OPEN;
        for path in [volume.file().as_path(), volume.path()] {
            inotify.add_watch(path, flags).unwrap();
        }
        Opens(inotify)
    }

    /// Since the last count. The file itself: its directory reports the same.
    fn count(&self) -> usize {
        let events = self.0.read_events().unwrap_or_default();
        let of_file = events.iter().filter(|event| event.name.is_some());
        of_file.count()
    }
}

fn volumes(scene: &Scene, id: &str) -> Option<u64> {
    let status = scene.registrar.status().unwrap();
    status.driver(id).unwrap().volumes
}

#[track_caller]
fn wait_volumes(scene: &Scene, id: &str, wanted: Option<u64>) {
    eventually("the volumes are shown", SOON, || {
        volumes(scene, id) == wanted
    });
}

/// The line of the driver in the table.
fn row(table: &str, id: &str) -> Vec<String> {
    let line = table.lines().find(|line| line.starts_with(id));
    let line = line.unwrap_or_else(|| panic!("no {id} in {table}"));
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_volumes_in_use_are_in_every_display() {
    let scene = setup().drivers(&[NAME, OTHER]).http().started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    assert_eq!(volumes(&scene, NAME), Some(0));
    // It has not told its name, by which the kubelet's files know it.
    assert_eq!(volumes(&scene, OTHER), None);

    let kubelet = scene.node.volumes();
    kubelet.pod("uid-1", "pv-1", NAME, "h1");
    kubelet.staged_from_1_24("sum", NAME, "h1");
    kubelet.block("uid-2", "pv-2", NAME, "h2");
    kubelet.pod("uid-3", "pv-3", "another.csi", "h3");
    wait_volumes(&scene, NAME, Some(2));

    let table = stdout(&scene.registrar.run_cli(["status"]));
    let titles = ["DRIVER", "READY", "PHASE", "SINCE", "VOLUMES", "NODE", "ID"];
    assert_eq!(row(&table, "DRIVER"), titles);
    assert_eq!(row(&table, NAME)[4], "2");
    assert_eq!(row(&table, OTHER)[4], "-");
    assert!(!table.contains("uid-1"), "{table}");
    let detail = stdout(&scene.registrar.run_cli(["status", NAME]));
    let words = "  2 volumes are in use by pods uid-1, uid-2";
    assert!(detail.lines().any(|line| line == words), "{detail}");

    let json = get(&scene.http(), "/status").body;
    let shown = Status::parse(json.as_bytes());
    assert_eq!(shown.driver(NAME).unwrap().volumes, Some(2));
    let metrics = get(&scene.http(), "/metrics").body;
    let series = format!("nsdr_driver_volumes{{driver=\"{NAME}\"}} 2");
    assert!(metrics.lines().any(|line| line == series), "{metrics}");
    let page = get(&scene.http(), "/").body;
    assert!(page.contains("<th>Volumes<th>"), "{page}");
    assert!(page.contains("<td>2<td>node-1<td>"), "{page}");
}

#[test]
fn the_doctor_counts_the_volumes_and_warns_where_the_kubelet_cannot_unmount_them() {
    let (scene, mut driver, _kubelet) = setup().registered();
    let volume = scene.node.volumes().pod("uid-1", "pv-1", NAME, "h1");
    let proc = scene.node.root().join("proc");
    std::fs::create_dir_all(&proc).unwrap();
    let proc = proc.display().to_string();
    wait_volumes(&scene, NAME, Some(1));
    let well = scene.registrar.succeed(&["doctor", "--proc", &proc]);
    let words = "No problems found (1 of 1 drivers ready, 1 volume in use).\n";
    assert!(stdout(&well).starts_with(words), "{}", stdout(&well));

    driver.kill();
    let is_down = |driver: &bed::DriverStatus| !driver.answering;
    scene.registrar.wait_driver("down", NAME, SOON, is_down);
    let findings = findings(&doctor(&scene));
    let of_volumes = findings.iter().find(|found| found["check"] == "volumes");
    let found = of_volumes.unwrap()["found"].as_str().unwrap();
    let words = "1 volume is in use by pod uid-1, and the driver does not answer";
    assert!(found.starts_with(words), "{findings:#?}");
    assert_eq!(of_volumes.unwrap()["level"], "warning");
    assert_eq!(of_volumes.unwrap()["driver"], NAME);
    volume.remove();
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_and_without_a_daemon() {
    let (mut scene, _driver, _kubelet) = setup().http().registered();
    let volume = scene.node.volumes().pod("uid-1", "pv-1", NAME, "h1");
    volume.put("not JSON");
    wait_volumes(&scene, NAME, None);
    let file = volume.file().display().to_string();
    let table = stdout(&scene.registrar.run_cli(["status"]));
    assert_eq!(row(&table, NAME)[4], "-");
    let detail = stdout(&scene.registrar.run_cli(["status", NAME]));
    let words = format!("  it is not known whether volumes are in use: cannot read {file}: ");
    assert!(detail.contains(&words), "{detail}");
    let metrics = get(&scene.http(), "/metrics").body;
    assert!(!metrics.contains("nsdr_driver_volumes"), "{metrics}");
    let page = get(&scene.http(), "/").body;
    assert!(page.contains("<td>-<td>node-1<td>"), "{page}");
    // The driver is registered all the same.
    assert_eq!(get(&scene.http(), "/readyz").code, 200);
    for has_daemon in [true, false] {
        if !has_daemon {
            scene.registrar.kill9();
        }
        let output = doctor(&scene);
        let findings = findings(&output);
        let of_volumes = findings.iter().find(|found| found["check"] == "volumes");
        let of_volumes = of_volumes.unwrap_or_else(|| panic!("{findings:#?}"));
        assert_eq!(of_volumes["level"], "warning");
        assert!(of_volumes["found"].as_str().unwrap().contains(&file));
        assert!(of_volumes["fix"].as_str().unwrap().contains("--force"));
        assert_eq!(output.status.success(), has_daemon, "{findings:#?}");
    }
}

#[test]
fn a_client_that_watches_sees_volumes_come_and_go() {
    let (scene, mut driver, _kubelet) = setup().registered();
    let mut command = scene.registrar.command("status");
    command.args(["--watch", "--json"]).stdout(Stdio::piped());
    let mut child = Process::start(&mut command);
    let lines = BufReader::new(child.stdout()).lines();
    let mut seen = lines.map(|line| {
        let status = Status::parse(line.unwrap().as_bytes());
        let driver = status.driver(NAME).unwrap();
        (driver.answering, driver.volumes)
    });
    assert_eq!(seen.next(), Some((true, Some(0))));
    // Nothing reports it: the daemon looks every ten seconds.
    let volume = scene.node.volumes().pod("uid-1", "pv-1", NAME, "h1");
    assert!(seen.any(|seen| seen == (true, Some(1))));
    // The look at a change sees the volumes as they are then, or a second later.
    volume.remove();
    driver.kill();
    assert!(seen.any(|seen| seen == (false, Some(0))));
}

#[test]
fn nothing_is_read_while_no_display_asks() {
    let mut scene = setup().http().set();
    let volume = scene.node.volumes().pod("uid-1", "pv-1", NAME, "h1");
    let opens = Opens::of(&volume);
    // The daemon looks at everything each time it feeds the watchdog.
    let systemd = NotifySocket::bind(scene.node.root().join("notify"));
    scene.registrar = Registrar::new(PROGRAM, &scene.node)
        .with_env("NOTIFY_SOCKET", systemd.path())
        .with_env("WATCHDOG_USEC", "1000000");
    scene.registrar.start();
    let _driver = scene.node.driver(NAME);
    let _kubelet = scene.node.kubelet();
    let seconds = format!("{}s", SOON.as_secs());
    scene
        .registrar
        .succeed(&["wait", "--strict", "--timeout", &seconds]);
    for path in ["/healthz", "/readyz", &format!("/readyz/{NAME}")] {
        assert_eq!(get(&scene.http(), path).code, 200, "{path}");
    }
    scene.registrar.succeed(&["reannounce", NAME]);
    let signs = systemd.count("WATCHDOG=1");
    eventually("the daemon has looked at everything", SOON, || {
        systemd.count("WATCHDOG=1") > signs + 3
    });
    assert_eq!(opens.count(), 0);
    // A look is seen by this count.
    assert_eq!(volumes(&scene, NAME), Some(1));
    assert_eq!(opens.count(), 1);
}

#[test]
fn however_many_pages_are_asked_for_one_look_a_second_happens() {
    let (scene, _driver, _kubelet) = setup().http().registered();
    let volume = scene.node.volumes().pod("uid-1", "pv-1", NAME, "h1");
    let opens = Opens::of(&volume);
    let begun = Instant::now();
    ask_often(&scene.http());
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap();
    let looks = opens.count();
    assert!((1..=seconds + 2).contains(&looks), "{looks} in {seconds} s");
}

fn ask_often(socket: &Path) {
    std::thread::scope(|scope| {
        for path in ["/metrics", "/status", "/"] {
            scope.spawn(move || {
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_millis(2500) {
                    assert_eq!(get(socket, path).code, 200);
                }
            });
        }
    });
}
