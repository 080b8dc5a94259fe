//! Units and command lines, and the configuration that comes of them.

use super::*;
use crate::config::{RootDir, Settings};

const UNIT: &str = "\
[Unit]
Description=registers the driver
[Service]
Environment=DIR=/vdata/storage
ExecStart=/usr/bin/csi-node-driver-registrar \\
    --csi-address=${DIR}/plugins/local.csi.paas.cucloud/csi.sock \\
    --kubelet-registration-path=${DIR}/plugins/local.csi.paas.cucloud/csi.sock \\
    --plugin-registration-path=${DIR}/plugins_registry \\
    --timeout=1.5s --v=5 --logtostderr
ExecStartPost=/bin/ln -sfn /vdata/storage/plugins_registry/local.csi.paas.cucloud-reg.sock \\
    /var/lib/kubelet/plugins_registry/local.csi.paas.cucloud-reg.sock
Restart=always
";

/// The configuration of a host with this file.
fn host(toml: &str) -> Loaded {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    fs::write(&file, toml).unwrap();
    let sources = Sources {
        config: Some(file),
        ..Sources::default()
    };
    config::load(&sources).unwrap_or_else(|error| panic!("{error}\n{toml}"))
}

fn settings(toml: &str) -> Settings {
    host(toml).settings
}

fn of_unit(unit: &str) -> String {
    translate("x.service", &commands(unit), Some(&host(""))).unwrap()
}

fn of_line(line: &str) -> Result<String, ImportError> {
    translate("the command line", &command_line(line), Some(&host("")))
}

#[test]
fn a_unit_with_its_link_becomes_a_configuration() {
    assert_eq!(
        of_unit(UNIT),
        r#"# Equivalent to the node-driver-registrar of x.service
# no effect: --logtostderr

registry_dir = "/vdata/storage/plugins_registry"  # --plugin-registration-path

[kubelet]
root_dir = "/var/lib/kubelet"  # ln -s
registry_dir = "/var/lib/kubelet/plugins_registry"  # ln -s

[log]
level = "debug"  # --v

[drivers."local.csi.paas.cucloud"]
csi_socket = "/vdata/storage/plugins/local.csi.paas.cucloud/csi.sock"  # --csi-address
endpoint = "/vdata/storage/plugins/local.csi.paas.cucloud/csi.sock"  # --kubelet-registration-path
request_timeout = "1s 500ms"  # --timeout
"#
        .replace("\n\nregistry_dir", "\nregistry_dir")
    );
}

/// Lines of the output that are not comments, without tables and their keys for a driver.
fn keys_of_host(toml: &str) -> Vec<&str> {
    let of_host = toml.split("[drivers").next().unwrap().lines();
    let keys = of_host.filter(|line| !line.starts_with('#'));
    keys.filter(|line| !line.is_empty()).collect()
}

#[test]
fn a_second_unit_sets_no_key_that_applies_to_every_driver() {
    let second =
        UNIT.replace("local.csi.paas.cucloud", "nfs.csi.k8s.io") + "\nExecStartPost=/bin/true\n";
    let other_host = "registry_dir = '/vdata/storage/plugins_registry'\nlog.level = 'warn'\n";
    for present in [
        // A driver is declared, another value is set, or both.
        "[drivers.'local.csi.paas.cucloud']",
        other_host,
        &format!("{other_host}[drivers.'local.csi.paas.cucloud']"),
    ] {
        let host = host(present);
        let toml = translate("y.service", &commands(&second), Some(&host)).unwrap();
        assert!(keys_of_host(&toml).is_empty(), "{toml}");
        // With the present configuration, the output changes nothing but the driver.
        let mut both = settings(&format!(
            "{present}\n{}",
            &toml[toml.find("[drivers").unwrap()..]
        ));
        assert!(both.drivers.remove("nfs.csi.k8s.io").is_some());
        assert_eq!(both, host.settings);
    }
    let toml = translate("y.service", &commands(&second), Some(&host(other_host))).unwrap();
    let head = toml.split("\n\n").next().unwrap();
    let file = "config.toml";
    let lines: Vec<&str> = head.lines().skip(2).collect();
    assert_eq!(lines[0], format!("# {NOT_SET}"));
    for (line, start, end) in [
        (
            lines[1],
            "#   registry_dir = \"/vdata/storage/plugins_registry\"  # --plugin-registration-path; in effect already, from ",
            file,
        ),
        (
            lines[2],
            "#   kubelet.root_dir = \"/var/lib/kubelet\"  # ln -s; in effect already, ",
            "built-in default",
        ),
        (
            lines[4],
            "#   log.level = \"debug\"  # --v; this host has \"warn\", from ",
            file,
        ),
    ] {
        assert!(line.starts_with(start) && line.ends_with(end), "{line}");
    }
}

#[test]
fn the_first_unit_sets_them_and_so_does_a_host_that_agrees() {
    let of_first = keys_of_host(&of_unit(UNIT)).len();
    assert_eq!(of_first, 6, "two tables and four keys");
    let agrees = host("log.level = 'debug'\n[discovery]\nenabled = true\n");
    let toml = translate("x", &commands(UNIT), Some(&agrees)).unwrap();
    assert_eq!(keys_of_host(&toml).len(), of_first, "{toml}");
}

#[test]
fn a_host_whose_configuration_has_errors_gets_no_key_that_applies_to_every_driver() {
    let toml = translate("x", &commands(UNIT), None).unwrap();
    assert!(keys_of_host(&toml).is_empty(), "{toml}");
    assert!(
        toml.contains("#   log.level = \"debug\"  # --v\n"),
        "{toml}"
    );
}

#[test]
fn the_printed_configuration_gives_the_settings_that_the_flags_give() {
    for line in [
        "ndr --kubelet-registration-path=/var/lib/kubelet/plugins/x/csi.sock",
        "ndr -csi-address /csi/csi.sock -kubelet-registration-path /k/plugins/x/csi.sock -v 6",
        "ndr --csi-address=unix:///a/csi.sock --kubelet-registration-path=/a/csi.sock \
         --plugin-registration-path=/k/plugins_registry --http-endpoint=:9809 \
         --logging-format=json --timeout=2s",
    ] {
        let (flags, _) = parse(&command_line(line)[0]).unwrap();
        let mut sources = Sources::default();
        flags.put_into(&mut sources).unwrap();
        let told = config::load(&sources).unwrap().settings;
        assert_eq!(settings(&of_line(line).unwrap()), told, "{line}");
    }
}

#[test]
fn a_link_says_where_the_kubelet_looks_and_what_it_sees() {
    let base = "ndr --kubelet-registration-path=/p/x/csi.sock --plugin-registration-path=/r";
    for (ln, registry, seen, root) in [
        (
            "ln -s /r/x-reg.sock /k/plugins_registry/x-reg.sock",
            "/k/plugins_registry",
            "/r",
            "/k",
        ),
        (
            "ln -sf /r/x-reg.sock /k/plugins_registry/",
            "/k/plugins_registry",
            "/r",
            "/k",
        ),
        (
            "ln --symbolic /host/r/x-reg.sock /d/x-reg.sock",
            "/d",
            "/host/r",
            "/var/lib/kubelet",
        ),
        (
            "sh -c 'sleep 2; ln -s /r/x-reg.sock /d/y.sock'",
            "/r",
            "/r",
            "/var/lib/kubelet",
        ),
    ] {
        let mut commands = command_line(base);
        commands.extend(command_line(ln));
        let toml = translate("x", &commands, Some(&host(""))).unwrap();
        let settings = settings(&toml);
        if ln.starts_with("sh") {
            assert!(toml.contains("# the link was y.sock"), "{toml}");
            assert_eq!(settings.kubelet.registry_dir, Path::new("/d"));
            continue;
        }
        assert_eq!(settings.registry_dir, Path::new("/r"), "{ln}");
        assert_eq!(settings.kubelet.registry_dir, Path::new(registry), "{ln}");
        assert_eq!(settings.kubelet.sees_registry_as, Path::new(seen), "{ln}");
        assert_eq!(
            settings.kubelet.root_dir,
            RootDir::Path(root.into()),
            "{ln}"
        );
    }
}

#[test]
fn what_is_no_node_driver_registrar_is_refused_with_the_reason() {
    for (line, words) in [
        ("sleep 5", "does not run node-driver-registrar"),
        (
            "ndr --csi-address=/a/b",
            "--kubelet-registration-path is required",
        ),
        ("ndr --csi-address=/a/b --frobnicate=1", "--frobnicate"),
        (
            "ndr --kubelet-registration-path=$(PATH)",
            "must be an absolute path",
        ),
    ] {
        let refused = of_line(line).unwrap_err().to_string();
        assert!(refused.contains(words), "{line}: {refused}");
    }
    let missing = read(&["no-such-unit.service".to_owned()]).unwrap_err();
    assert!(missing.to_string().contains("no-such-unit.service"));
}
