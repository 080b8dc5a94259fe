//! Units and command lines, and the configuration that comes of them.

use std::fs;

use super::super::imported::NOT_SET;
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

#[test]
fn several_files_are_refused_with_the_reason() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<String>>();
    for (line, files) in [
        ("a.yaml b.yaml", "a.yaml, b.yaml"),
        ("/x/a.json b.yml c.service", "/x/a.json, b.yml, c.service"),
        ("a.service b", "a.service, b"),
    ] {
        let refused = read(&words(line)).unwrap_err().to_string();
        let expected =
            format!("import-ndr reads one file at a time: run it separately for {files}");
        assert_eq!(refused, expected, "{line}");
    }
    let line = "ndr --csi-address=/a/b --kubelet-registration-path /a/b.service";
    let source = read(&words(line)).unwrap();
    assert!(matches!(source, Source::Commands(..)), "{source:?}");
}

/// A DaemonSet with node-driver-registrar, as a driver's chart has it.
const DAEMON_SET: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: csi-nfs-node, namespace: kube-system}
spec:
  template:
    spec:
      containers:
      - name: liveness-probe
        image: registry.k8s.io/sig-storage/livenessprobe:v2.15.0
        args: [--csi-address=/csi/csi.sock, --http-endpoint=localhost:29653]
      - name: node-driver-registrar
        image: registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.13.0
        args:
        - --v=2
        - --csi-address=/csi/csi.sock
        - --kubelet-registration-path=$(REG_SOCK)
        - --http-endpoint=$(POD_IP):9809
        - --logtostderr
        env:
        - {name: REG_SOCK, value: /var/lib/kubelet/plugins/csi-nfsplugin/csi.sock}
        - name: POD_IP
          valueFrom: {fieldRef: {fieldPath: status.podIP}}
        volumeMounts:
        - {name: socket-dir, mountPath: /csi}
        - {name: registration-dir, mountPath: /registration}
      volumes:
      - name: socket-dir
        hostPath: {path: /var/lib/kubelet/plugins/csi-nfsplugin, type: DirectoryOrCreate}
      - name: registration-dir
        hostPath: {path: /var/lib/kubelet/plugins_registry/}
";

/// The same for another driver.
fn other_daemon_set() -> String {
    let other = DAEMON_SET.replace("csi-nfsplugin", "smb.csi.k8s.io");
    other.replace("csi-nfs-node", "csi-smb-node")
}

fn of_manifest(text: &str, present: &str) -> Result<(String, Vec<String>), ImportError> {
    let containers = RegistrarContainer::all(text).unwrap();
    translate_containers("x.yaml", &containers, Some(&host(present)))
}

#[test]
fn a_daemon_set_becomes_a_configuration_with_the_paths_of_the_host() {
    let (toml, left_out) = of_manifest(DAEMON_SET, "").unwrap();
    assert!(left_out.is_empty(), "{left_out:?}");
    assert_eq!(
        toml,
        r#"# Equivalent to the node-driver-registrar of x.yaml
# document 1, DaemonSet kube-system/csi-nfs-node, container node-driver-registrar:
#   not imported: --http-endpoint=$(POD_IP):9809: $(POD_IP): its value comes from fieldRef
#   --csi-address /csi/csi.sock is /var/lib/kubelet/plugins/csi-nfsplugin/csi.sock on the host (volume socket-dir)
#   --plugin-registration-path /registration is /var/lib/kubelet/plugins_registry on the host (volume registration-dir)
#   the driver on the host should listen on /vdata/storage/plugins/csi-nfsplugin/csi.sock; then remove csi_socket and endpoint
#   no effect: --logtostderr
registry_dir = "/var/lib/kubelet/plugins_registry"  # --plugin-registration-path

[kubelet]
root_dir = "/var/lib/kubelet"  # --plugin-registration-path
registry_dir = "/var/lib/kubelet/plugins_registry"  # --plugin-registration-path

[log]
level = "info"  # --v

[drivers."csi-nfsplugin"]
csi_socket = "/var/lib/kubelet/plugins/csi-nfsplugin/csi.sock"  # --csi-address
endpoint = "/var/lib/kubelet/plugins/csi-nfsplugin/csi.sock"  # --kubelet-registration-path
"#
    );
    let settings = settings(&toml);
    assert!(settings.drivers.contains_key("csi-nfsplugin"));
}

#[test]
fn every_container_has_a_table_and_keys_of_the_host_are_there_once() {
    let other = other_daemon_set().replace("--v=2", "--v=5");
    let both = format!("{DAEMON_SET}---\n{other}");
    let (toml, left_out) = of_manifest(&both, "").unwrap();
    assert!(left_out.is_empty(), "{left_out:?}");
    let settings = settings(&toml);
    let ids: Vec<&str> = settings.drivers.keys().map(String::as_str).collect();
    assert_eq!(ids, ["csi-nfsplugin", "smb.csi.k8s.io"]);
    let clash = "#   log.level = \"debug\"  # --v; this file has \"info\", for every driver\n";
    assert!(toml.contains(clash), "{toml}");
    // The keys of the host become comments here, too.
    let present = "[drivers.'local.csi.paas.cucloud']";
    let (toml, _) = of_manifest(&both, present).unwrap();
    assert!(keys_of_host(&toml).is_empty(), "{toml}");
    assert!(toml.contains(NOT_SET), "{toml}");
}

#[test]
fn the_same_driver_twice_is_one_table_and_two_with_one_id_are_refused() {
    let twice = format!("{DAEMON_SET}---\n{DAEMON_SET}");
    let (toml, _) = of_manifest(&twice, "").unwrap();
    assert_eq!(toml.matches("[drivers.").count(), 1, "{toml}");
    assert!(toml.contains("the same driver as above"), "{toml}");
    let moved = DAEMON_SET.replace("{path: /var/lib/kubelet/plugins/", "{path: /elsewhere/");
    let refused = of_manifest(&format!("{DAEMON_SET}---\n{moved}"), "").unwrap_err();
    let words = "document 2, DaemonSet kube-system/csi-nfs-node, container node-driver-registrar: \
                 another container has the driver id \"csi-nfsplugin\"";
    assert!(refused.to_string().starts_with(words), "{refused}");
    let socket = DAEMON_SET.replace("value: /var/lib/kubelet/plugins/csi-nfsplugin", "value: /b");
    let refused = of_manifest(&format!("{DAEMON_SET}---\n{socket}"), "").unwrap_err();
    assert!(matches!(refused, ImportError::Config(_)), "{refused}");
}

#[test]
fn a_volume_that_is_no_directory_of_the_host_leaves_the_kubelets_path() {
    let text = DAEMON_SET.replace("hostPath: {path:", "emptyDir: {x:");
    let (toml, _) = of_manifest(&text, "").unwrap();
    for note in [
        "#   --csi-address /csi/csi.sock: volume socket-dir is no hostPath; \
         /var/lib/kubelet/plugins/csi-nfsplugin/csi.sock in its place\n",
        "#   --plugin-registration-path /registration: volume registration-dir is no hostPath; \
         /var/lib/kubelet/plugins_registry in its place\n",
    ] {
        assert!(toml.contains(note), "{toml}");
    }
    assert_eq!(
        settings(&toml),
        settings(&of_manifest(DAEMON_SET, "").unwrap().0)
    );
}

#[test]
fn a_container_that_cannot_be_imported_is_left_out_with_the_reason() {
    let other = other_daemon_set();
    for (from, to, words) in [
        (
            "{name: REG_SOCK, value: /var/lib/kubelet/plugins/smb.csi.k8s.io/csi.sock}",
            "{name: REG_SOCK, valueFrom: {configMapKeyRef: {name: x, key: y}}}",
            "--kubelet-registration-path=$(REG_SOCK) has no value here: $(REG_SOCK): its value comes from configMapKeyRef",
        ),
        (
            "/var/lib/kubelet/plugins/smb.csi.k8s.io/csi.sock",
            r"unix://C:\var\lib\kubelet\plugins\smb.csi.k8s.io\csi.sock",
            r"C:\var\lib\kubelet\plugins\smb.csi.k8s.io\csi.sock is a path of Windows, where this program does not run",
        ),
        (
            "--v=2",
            "--frobnicate=2",
            "node-driver-registrar does not have this flag",
        ),
        (
            "--kubelet-registration-path=$(REG_SOCK)",
            "--enable-pprof",
            "--kubelet-registration-path is required",
        ),
    ] {
        assert!(other.contains(from), "{from}");
        let text = other.replace(from, to);
        let place =
            "DaemonSet kube-system/csi-smb-node, container node-driver-registrar: left out: ";
        let (toml, left_out) = of_manifest(&format!("{DAEMON_SET}---\n{text}"), "").unwrap();
        assert_eq!(settings(&toml).drivers.len(), 1, "{toml}");
        assert!(left_out[0].starts_with(&format!("document 2, {place}")));
        assert!(left_out[0].contains(words), "{left_out:?}");
        assert!(toml.contains(words), "{toml}");
        // Nothing is left.
        let refused = of_manifest(&text, "").unwrap_err().to_string();
        assert!(
            refused.starts_with(&format!("x.yaml: document 1, {place}")),
            "{refused}"
        );
    }
}

/// A key quotes it as TOML does.
#[test]
fn text_of_a_manifest_stays_in_its_comment() {
    let evil = "\\n[drivers.evil]\\n\\r\\u2028\\e[2J";
    for (from, to) in [
        ("name: csi-nfs-node", format!("name: \"{evil}\"")),
        (
            "- name: node-driver-registrar",
            format!("- name: \"{evil}\""),
        ),
        ("- --logtostderr", format!("- \"--{evil}\"")),
        ("- --logtostderr", format!("- \"--vmodule={evil}\"")),
        (
            "- --logtostderr",
            format!("- \"--http-endpoint=$({evil})\""),
        ),
        ("socket-dir", format!("\"{evil}\"")),
        (
            "- --csi-address=/csi/csi.sock",
            format!("- \"--csi-address=/csi/{evil}\""),
        ),
        ("status.podIP}}", format!("x}}, \"{evil}\": y}}")),
        ("{fieldRef: {", format!("{{\"{evil}\": {{")),
    ] {
        let text = DAEMON_SET.replace(from, &to);
        assert_ne!(text, DAEMON_SET, "{from}");
        let both = format!("{text}---\n{}", other_daemon_set());
        let containers = RegistrarContainer::all(&both).unwrap();
        // The name of a file may have any character, too.
        let file = "\n[drivers.evil]\n.yaml";
        let (toml, left_out) = translate_containers(file, &containers, Some(&host(""))).unwrap();
        assert!(!settings(&toml).drivers.contains_key("evil"), "{toml}");
        let comments = toml.lines().filter(|line| line.starts_with('#'));
        for line in comments.chain(left_out.iter().map(String::as_str)) {
            assert!(!line.contains(crate::os::text::garbles), "{line:?}");
        }
    }
}

#[test]
fn a_manifest_is_known_by_the_name_of_its_file_and_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    for name in ["a.yaml", "b.yml", "with blank.yaml"] {
        let source = read(&[file(name, DAEMON_SET)]).unwrap();
        assert!(
            matches!(source, Source::Containers(..)),
            "{name}: {source:?}"
        );
    }
    let source = read(&[file("c.service", UNIT)]).unwrap();
    assert!(matches!(source, Source::Commands(..)), "{source:?}");
    let large = format!("{DAEMON_SET}#{}", "x".repeat(LARGEST as usize));
    for (path, words) in [
        (file("large.yaml", &large), "has more than 4194304 bytes"),
        (
            file("bad.yaml", "a: ["),
            "bad.yaml: not a YAML file: line 2, column 1",
        ),
        (
            file("other.yaml", "kind: Service"),
            "other.yaml: no container",
        ),
        (
            format!("{}/none.yaml", dir.path().display()),
            "none.yaml: entity not found",
        ),
    ] {
        let refused = read(&[path]).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
}
