//! A daemon and a changed configuration, and what becomes of each driver.

use super::*;

const TABLES: &str = "plugins_dir = '/p'\nregistry_dir = '/r'\n[kubelet]\nroot_dir = '/k'\n";

fn settings(toml: &str) -> Settings {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    std::fs::write(&file, format!("{TABLES}{toml}")).unwrap();
    let sources = crate::config::Sources {
        config: Some(file),
        ..crate::config::Sources::default()
    };
    crate::config::load(&sources)
        .unwrap_or_else(|error| panic!("{error}\n{toml}"))
        .settings
}

fn driver(id: &str, origin: Origin) -> RunningDriver {
    let socket = csi_socket(Path::new("/p"), id);
    RunningDriver {
        id: id.to_owned(),
        name: DriverName::parse(id).ok(),
        csi_socket: socket.clone(),
        endpoint: socket,
        versions: Some(vec!["1.0.0".to_owned()]),
        origin,
        withdrawn_by_hand: false,
        registered: true,
        answering: true,
        kept_by: None,
    }
}

/// What becomes of a declared driver `a` and a discovered driver `d`, both of which answer.
fn lines(change: impl FnOnce(&mut Vec<RunningDriver>), toml: &str, found: &[&str]) -> Vec<String> {
    let mut drivers = vec![driver("a", Origin::Table), driver("d", Origin::Discovery)];
    change(&mut drivers);
    let before = Layout::new("/r".as_ref(), "/k/plugins_registry".as_ref(), "/r".as_ref());
    let running = Running {
        directories: Directories::of(&before),
        drivers,
    };
    let settings = settings(toml);
    let planned = Planned {
        layout: &settings.layout(),
        settings: &settings,
        found: &found.iter().map(ToString::to_string).collect(),
    };
    let forecast = forecast(&running, &planned);
    forecast.iter().map(ToString::to_string).collect()
}

#[test]
fn each_driver_is_withdrawn_announced_or_left_alone_with_the_key_that_does_it() {
    let on = "[discovery]\nenabled = true\n";
    for (toml, found, expected) in [
        (
            "[drivers.a]\n[discovery]\nenabled = true\n".to_owned(),
            &["d"][..],
            &["leave alone    a", "leave alone    d"][..],
        ),
        (
            // A discovered driver whose socket is away stays.
            format!("[drivers.a]\nretry_max = '1s'\n{on}"),
            &[],
            &["leave alone    a", "leave alone    d"],
        ),
        (
            on.to_owned(),
            &["d"],
            &[
                "withdraw       a: [drivers.\"a\"] was removed, and discovery does not find /p/a/csi.sock",
                "leave alone    d",
            ],
        ),
        (
            // The table is gone, and discovery finds the driver.
            on.to_owned(),
            &["a", "d"],
            &["leave alone    a", "leave alone    d"],
        ),
        (
            "[drivers.a]\n".to_owned(),
            &[],
            &[
                "withdraw       d: discovery.enabled is false",
                "leave alone    a",
            ],
        ),
        (
            format!("[drivers.a]\n{on}exclude = ['d*', 'a']\n"),
            &[],
            &[
                "withdraw       d: discovery.exclude contains it",
                "leave alone    a",
            ],
        ),
        (
            format!("[drivers.a]\n[drivers.n]\ncsi_socket = '/n'\n{on}"),
            &["d", "e"],
            &[
                "announce       n: new, when it answers on /n",
                "announce       e: new, when it answers on /p/e/csi.sock",
                "leave alone    a",
                "leave alone    d",
            ],
        ),
        (
            // The same socket under another id.
            format!("[drivers.b]\ncsi_socket = '/p/a/csi.sock'\n{on}"),
            &["d"],
            &["leave alone    b: was a", "leave alone    d"],
        ),
        (
            // The same name under another id, at another socket.
            format!("[drivers.b]\nname = 'a'\n{on}"),
            &["d"],
            &[
                "announce       b: the endpoint, by plugins_dir, has changed from /p/a/csi.sock to \
                 /p/b/csi.sock (was a)",
                "leave alone    d",
            ],
        ),
        (
            format!("[drivers.a]\nendpoint = '/e'\n{on}"),
            &["d"],
            &[
                "announce       a: drivers.\"a\".endpoint has changed from /p/a/csi.sock to /e",
                "leave alone    d",
            ],
        ),
        (
            format!("[drivers.a]\ncsi_socket = '/e'\n{on}"),
            &["d"],
            &[
                "announce       a: drivers.\"a\".csi_socket has changed from /p/a/csi.sock to /e",
                "leave alone    d",
            ],
        ),
        (
            format!("[drivers.a]\ncsi_socket = '/e'\nendpoint = '/p/a/csi.sock'\n{on}"),
            &["d"],
            &[
                "leave alone    a: called on /e from now on",
                "leave alone    d",
            ],
        ),
        (
            format!("[drivers.a]\nname = 'other'\nsupported_versions = ['2']\n{on}"),
            &["d"],
            &[
                "leave alone    a: it reports the name \"a\", so that it counts as not responding until it reports \"other\" (drivers.\"a\".name)",
                "leave alone    d",
            ],
        ),
        (
            // Another driver, which may have this name.
            format!(
                "[drivers.a]\nname = 'other'\ncsi_socket = '/e'\nendpoint = '/p/a/csi.sock'\n{on}"
            ),
            &["d"],
            &[
                "announce       a: drivers.\"a\".name has changed from a to other",
                "leave alone    d",
            ],
        ),
        (
            format!("[drivers.a]\nsupported_versions = ['1.0.0', '1.1.0']\n{on}"),
            &["d"],
            &[
                "announce       a: drivers.\"a\".supported_versions has changed from 1.0.0 to 1.0.0, 1.1.0",
                "leave alone    d",
            ],
        ),
    ] {
        assert_eq!(lines(|_| {}, &toml, found), expected, "{toml}");
    }
}

#[test]
fn other_directories_announce_every_driver_that_was_not_withdrawn_by_hand() {
    for (toml, why) in [
        (
            "sees_registry_as = '/host/r'\n",
            "kubelet.sees_registry_as has changed from /r to /host/r",
        ),
        (
            "plugins_registry = '/k2'\n",
            "kubelet.plugins_registry has changed from /k/plugins_registry to /k2",
        ),
        (
            "plugins_registry = '/r'\n",
            "kubelet.plugins_registry has changed from /k/plugins_registry to /r",
        ),
    ] {
        let toml = format!("{toml}[drivers.a]\n[discovery]\nenabled = true\nexclude = ['d']\n");
        let said = lines(|_| {}, &toml, &["d"]);
        let expected = [
            "withdraw       d: discovery.exclude contains it".to_owned(),
            format!("announce       a: {why}"),
        ];
        assert_eq!(said, expected);
        let said = lines(|drivers| drivers[0].withdrawn_by_hand = true, &toml, &["d"]);
        assert_eq!(said[1], "leave alone    a: withdrawn until you publish it");
    }
}

#[test]
fn a_driver_that_does_not_answer_is_announced_only_when_it_does_and_may_be_withdrawn() {
    let silent = |drivers: &mut Vec<RunningDriver>| {
        drivers.truncate(1);
        drivers[0].answering = false;
    };
    for (toml, expected) in [
        ("[drivers.a]\n", "leave alone    a"),
        (
            "[drivers.a]\nwithdraw_after = '2m'\n",
            "leave alone    a: it does not respond, and is withdrawn when that has lasted 2m (withdraw_after), unless its volumes are in use",
        ),
        (
            "[drivers.a]\nendpoint = '/e'\n",
            "announce       a: drivers.\"a\".endpoint has changed from /p/a/csi.sock to /e, when it responds",
        ),
        (
            "plugins_registry = '/k2'\n[drivers.a]\n",
            "withdraw       a: kubelet.plugins_registry has changed from /k/plugins_registry to /k2; announced when it responds",
        ),
    ] {
        assert_eq!(lines(silent, toml, &[]), [expected], "{toml}");
    }
    let unregistered = |drivers: &mut Vec<RunningDriver>| {
        silent(drivers);
        drivers[0].registered = false;
    };
    let toml = "[drivers.a]\nwithdraw_after = '2m'\n";
    assert_eq!(lines(unregistered, toml, &[]), ["leave alone    a"]);
}

#[test]
fn a_lost_driver_stays_while_its_volumes_are_in_use_and_does_not_move() {
    let used = |drivers: &mut Vec<RunningDriver>| {
        drivers.truncate(1);
        drivers[0].kept_by = Some("2 volumes are in use".to_owned());
    };
    assert_eq!(
        lines(used, "", &[]),
        [
            "leave alone    a: [drivers.\"a\"] was removed, and discovery.enabled is false, and the registration stays until its volumes are unmounted: 2 volumes are in use"
        ]
    );
    let moved = lines(used, "plugins_registry = '/k2'\n", &[]);
    assert!(moved[0].contains("a reload is refused"), "{moved:?}");
    let answering = lines(used, "plugins_registry = '/k2'\n[drivers.a]\n", &[]);
    assert!(answering[0].starts_with("announce "), "{answering:?}");
    let unregistered = |drivers: &mut Vec<RunningDriver>| {
        used(drivers);
        drivers[0].registered = false;
    };
    assert!(lines(unregistered, "", &[])[0].starts_with("withdraw "));
}

#[test]
fn a_wrong_pin_counts_as_no_answer() {
    let alone = |drivers: &mut Vec<RunningDriver>| drivers.truncate(1);
    let pin = "[drivers.a]\nname = 'other'\n";
    let reports = "it reports the name \"a\", so that it counts as not responding until it reports \"other\" (drivers.\"a\".name)";
    let toml = format!("{pin}withdraw_after = '2m'\n");
    let after =
        "it is withdrawn when that has lasted 2m (withdraw_after), unless its volumes are in use";
    assert_eq!(
        lines(alone, &toml, &[]),
        [format!("leave alone    a: {reports}; {after}")]
    );
    let toml = format!("plugins_registry = '/k2'\n{pin}");
    let moved = "kubelet.plugins_registry has changed from /k/plugins_registry to /k2";
    assert_eq!(
        lines(alone, &toml, &[]),
        [format!("withdraw       a: {moved}; {reports}")]
    );
    let unregistered = |drivers: &mut Vec<RunningDriver>| {
        alone(drivers);
        drivers[0].registered = false;
    };
    assert_eq!(
        lines(unregistered, pin, &[]),
        [format!("leave alone    a: {reports}")]
    );
}

#[test]
fn a_registry_that_follows_from_the_root_is_named_by_the_root() {
    let settings = settings("[drivers.a]\n");
    let key = |from: &str| {
        let before = Layout::new("/r".as_ref(), from.as_ref(), "/r".as_ref());
        let before = Directories::of(&before);
        before.change_to(&settings, &settings.layout()).unwrap()
    };
    assert_eq!(
        key("/k0/plugins_registry"),
        "kubelet.root_dir has changed from /k0 to /k"
    );
    assert_eq!(
        key("/k0/other"),
        "kubelet.plugins_registry has changed from /k0/other to /k/plugins_registry"
    );
}

/// Of an earlier version, or where the command may not read the state file.
#[test]
fn without_a_state_file_the_status_alone_tells() {
    let settings = settings("[discovery]\nenabled = true\n");
    let named = |id: &str, socket: &str| Driver {
        id: id.to_owned(),
        csi_socket: socket.to_owned(),
        endpoint: socket.to_owned(),
        registration_socket: Some(format!("/old/{id}-reg.sock")),
        answering: true,
        ..Driver::default()
    };
    let mut status = Status {
        drivers: vec![named("d", "/p/d/csi.sock"), named("t", "/t/csi.sock")],
        ..Status::default()
    };
    let planned = Planned {
        layout: &settings.layout(),
        settings: &settings,
        found: &BTreeSet::new(),
    };
    let said = |status: &Status| -> Vec<String> {
        let running = Running::of(status, None, &settings);
        forecast(&running, &planned)
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    let gone =
        "withdraw       t: [drivers.\"t\"] was removed, and discovery does not find /p/t/csi.sock";
    assert_eq!(
        said(&status),
        [
            gone,
            "announce       d: registry_dir has changed from /old to /r"
        ]
    );
    for driver in &mut status.drivers {
        driver.registration_socket = Some("/r/x-reg.sock".to_owned());
    }
    assert_eq!(said(&status), [gone, "leave alone    d"]);
}
