//! The configuration that is printed for flags.

use super::*;
use crate::config::Settings;

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// A unit whose node-driver-registrar serves in the kubelet's own directory.
fn unit() -> NdrFlags {
    NdrFlags {
        csi_address: text("unix:///vdata/storage/plugins/nfs.csi.k8s.io/csi.sock"),
        kubelet_registration_path: text("/vdata/storage/plugins/nfs.csi.k8s.io/csi.sock"),
        plugin_registration_path: text("/var/lib/kubelet/plugins_registry"),
        ..NdrFlags::default()
    }
}

fn of_node() -> NdrFlags {
    NdrFlags {
        http_endpoint: text(":9809"),
        kubelet_plugins_registry: text("/data/kubelet/plugins_registry"),
        logging_format: text("json"),
        v: Some(5),
        ..unit()
    }
}

fn printed(flags: &NdrFlags) -> String {
    configuration(flags, &[]).unwrap()
}

fn loaded(toml: &str) -> Settings {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    std::fs::write(&file, toml).unwrap();
    let sources = Sources {
        config: Some(file),
        ..Sources::default()
    };
    config::load(&sources).unwrap().settings
}

#[test]
fn the_flags_of_a_driver_become_its_table() {
    let flags = NdrFlags {
        timeout: Some(std::time::Duration::from_millis(1500)),
        ..unit()
    };
    let printed_table = printed(&flags);
    assert!(printed_table.starts_with("# Equivalent to the flags of node-driver-registrar\n"));
    assert_eq!(
        printed_table.split_once("\n\n[").unwrap().1,
        "drivers.\"nfs.csi.k8s.io\"]\n\
         csi_socket = \"/vdata/storage/plugins/nfs.csi.k8s.io/csi.sock\"  # --csi-address\n\
         endpoint = \"/vdata/storage/plugins/nfs.csi.k8s.io/csi.sock\"  # --kubelet-registration-path\n\
         request_timeout = \"1s 500ms\"  # --timeout\n"
    );
    let mut sources = Sources::default();
    flags.put_into(&mut sources).unwrap();
    let by_flags = config::load(&sources).unwrap().settings;
    assert_eq!(loaded(&printed(&flags)).drivers, by_flags.drivers);
}

#[test]
fn what_concerns_the_whole_node_is_a_comment() {
    for flags in [unit(), of_node()] {
        let toml = printed(&flags);
        let settings = loaded(&toml);
        let drivers = settings.drivers.clone();
        let expected = Settings {
            drivers,
            ..loaded("")
        };
        assert_eq!(settings, expected, "{toml}");
    }
    let toml = printed(&of_node());
    for line in [
        "# registry_dir = \"/var/lib/kubelet/plugins_registry\"  # --plugin-registration-path",
        "# kubelet.plugins_registry = \"/data/kubelet/plugins_registry\"  # --kubelet-plugins-registry",
        "# http.listen = \"[::]:9809\"  # --http-endpoint",
        "# log.level = \"debug\"  # --v",
        "# log.target = \"json\"  # --logging-format",
    ] {
        assert_eq!(
            toml.lines().filter(|found| *found == line).count(),
            1,
            "{toml}"
        );
    }
    // Without the "#", the keys are those of the node.
    let active: String = toml
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(key) if key.contains("  # --") => format!("{key}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let settings = loaded(&active);
    let plugins_registry = std::path::Path::new("/data/kubelet/plugins_registry");
    assert_eq!(settings.kubelet.plugins_registry, plugins_registry);
    assert_eq!(settings.drivers, loaded(&toml).drivers);
    assert!(settings.http.listen.is_some());
}

#[test]
fn a_flag_that_is_not_given_leaves_no_comment() {
    let flags = NdrFlags {
        plugin_registration_path: None,
        ..unit()
    };
    let toml = printed(&flags);
    assert!(!toml.contains("registry"), "{toml}");
}

#[test]
fn flags_without_an_effect_are_named() {
    let flags = NdrFlags {
        connection_timeout: text("1m"),
        enable_pprof: true,
        ..unit()
    };
    let toml = configuration(
        &flags,
        &["--logtostderr".to_owned(), "--vmodule".to_owned()],
    )
    .unwrap();
    let comments = "# Equivalent to the flags of node-driver-registrar\n\
                    # --connection-timeout is deprecated and has no effect\n\
                    # --enable-pprof has no effect: this program has no Go profiles\n\
                    # no effect: --logtostderr --vmodule\n\n";
    assert!(toml.starts_with(comments), "{toml}");
}
