//! The flags, and the settings that come from them.

use super::*;
use crate::config::{Listen, LogLevel, LogTarget, RootDir, Settings};

fn sources(config: Option<PathBuf>) -> Sources {
    Sources {
        config,
        default_config: Some("/nowhere/config.toml".into()),
        ..Sources::default()
    }
}

fn settings(flags: &NdrFlags, config: Option<PathBuf>) -> Settings {
    let mut sources = sources(config);
    flags.put_into(&mut sources).unwrap();
    config::load(&sources).unwrap().settings
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn sidecar() -> NdrFlags {
    NdrFlags {
        csi_address: text("/csi/csi.sock"),
        kubelet_registration_path: text("/var/lib/kubelet/plugins/nfs.csi.k8s.io/csi.sock"),
        ..NdrFlags::default()
    }
}

#[test]
fn a_sidecars_flags_are_a_whole_configuration() {
    let settings = settings(&sidecar(), None);
    assert_eq!(settings.registry_dir, Path::new("/registration"));
    assert_eq!(
        settings.kubelet.plugins_registry,
        Path::new("/registration")
    );
    assert!(settings.layout().one_directory());
    assert_eq!(
        settings.kubelet.root_dir,
        RootDir::Path("/var/lib/kubelet".into())
    );
    let (id, driver) = settings.drivers.into_iter().next().unwrap();
    assert_eq!(id, "nfs.csi.k8s.io");
    assert_eq!(driver.csi_socket, Path::new("/csi/csi.sock"));
    assert_eq!(
        driver.endpoint,
        Path::new("/var/lib/kubelet/plugins/nfs.csi.k8s.io/csi.sock")
    );
}

#[test]
fn a_hand_run_units_flags_name_every_directory() {
    let flags = NdrFlags {
        csi_address: text("unix:///vdata/storage/plugins/a/csi.sock"),
        kubelet_registration_path: text("/vdata/storage/plugins/a/csi.sock"),
        plugin_registration_path: text("/vdata/storage/plugins_registry"),
        kubelet_plugins_registry: text("/data/kubelet/plugins_registry"),
        timeout: Some(Duration::from_millis(1500)),
        http_endpoint: text(":9809"),
        v: Some(5),
        logging_format: text("json"),
        ..NdrFlags::default()
    };
    let settings = settings(&flags, None);
    assert_eq!(
        settings.registry_dir,
        Path::new("/vdata/storage/plugins_registry")
    );
    assert_eq!(
        settings.kubelet.plugins_registry,
        Path::new("/data/kubelet/plugins_registry")
    );
    assert_eq!(
        settings.kubelet.root_dir,
        RootDir::Path("/data/kubelet".into())
    );
    assert_eq!(
        settings.drivers["a"].request_timeout,
        Duration::from_millis(1500)
    );
    assert_eq!(
        settings.http.listen,
        Some(Listen::Tcp("[::]:9809".parse().unwrap()))
    );
    assert_eq!(settings.log.level, LogLevel::Debug);
    assert_eq!(settings.log.target, LogTarget::Json);
}

#[test]
fn flags_win_over_a_file_and_speak_of_the_driver_that_has_the_socket() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    let toml = "[drivers.mine]\ncsi_socket = '/csi/csi.sock'\nendpoint = '/old'\nretry_max = '1s'\n\
                [drivers.other]\n";
    std::fs::write(&file, toml).unwrap();
    let settings = settings(&sidecar(), Some(file.clone()));
    assert_eq!(
        settings.drivers.keys().collect::<Vec<_>>(),
        ["mine", "other"]
    );
    let mine = &settings.drivers["mine"];
    assert!(mine.endpoint.starts_with("/var/lib/kubelet/plugins"));
    assert_eq!(mine.retry_max, Duration::from_secs(1));
    // The file names the directories, and the flags do not.
    assert_eq!(
        settings.registry_dir,
        Path::new("/vdata/storage/plugins_registry")
    );
    let flags = NdrFlags {
        timeout: Some(Duration::from_secs(3)),
        ..NdrFlags::default()
    };
    let settings = super::tests::settings(&flags, Some(file));
    assert_eq!(settings.defaults.request_timeout, Duration::from_secs(3));
    // node-driver-registrar does not ask it; a kubelet does, and has its own deadline.
    let node_info = settings.defaults.node_info_timeout;
    assert_eq!(node_info, Duration::from_secs(120));
    assert_eq!(
        settings.drivers["other"].request_timeout,
        Duration::from_secs(3)
    );
}

#[test]
fn what_node_driver_registrar_refuses_is_refused() {
    let flags = NdrFlags {
        kubelet_registration_path: None,
        ..sidecar()
    };
    let refused = flags.put_into(&mut sources(None));
    assert_eq!(refused, Err(NdrError::NoRegistrationPath));
    let flags = NdrFlags {
        http_endpoint: text(":1"),
        health_port: Some(1),
        ..sidecar()
    };
    assert_eq!(
        flags.put_into(&mut sources(None)),
        Err(NdrError::TwoAddresses)
    );
}

#[test]
fn each_socket_has_a_runtime_directory_of_its_own_that_is_short_and_stays() {
    let of = |socket: &str| {
        let flags = NdrFlags {
            csi_address: text(socket),
            ..NdrFlags::default()
        };
        flags.runtime_dir()
    };
    let long = format!("/{}/csi.sock", "x".repeat(90));
    let all = ["/csi/csi.sock", "/a/csi/csi.sock", "/csi/other.sock", &long].map(of);
    for (at, path) in all.iter().enumerate() {
        assert!(path.join("control.sock").as_os_str().len() <= crate::disk::socket::SUN_PATH_MAX);
        assert!(!all[..at].contains(path));
    }
    assert_eq!(of("unix:///csi/csi.sock"), of("/csi/csi.sock"));
    // It is where the last version's state is.
    assert_eq!(
        of("/csi/csi.sock"),
        Path::new("/run/node-storage-driver-registrar-csi-d3140511")
    );
}
