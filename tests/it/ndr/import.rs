//! `import-ndr`: the configuration that it prints registers the same driver with the same paths, whether
//! a unit or a container ran node-driver-registrar.

use std::fs;
use std::path::PathBuf;

use bed::scene::{NAME, OTHER, SOON};
use bed::{Behaviour, FakeDriver, Layout, Node, Registrar, Release, Settings, TestKubelet, Timing};

use crate::PROGRAM;
use crate::ndr::unit::output;

/// A unit that runs node-driver-registrar on the host.
fn unit(node: &Node) -> String {
    unit_of(node, NAME)
}

fn unit_of(node: &Node, name: &str) -> String {
    let socket = node.csi_socket(name);
    let mut unit = format!(
        "[Unit]\nDescription=registers {name}\n\n[Service]\nEnvironment=SOCKET={}\n\
         ExecStart=/usr/local/bin/csi-node-driver-registrar \\\n  --csi-address=${{SOCKET}} \\\n  \
         --kubelet-registration-path=${{SOCKET}} \\\n  --plugin-registration-path={} \\\n  --v=5\n",
        socket.display(),
        node.registry_dir().display()
    );
    if node.layout() == Layout::TwoDirectories {
        unit += &format!(
            "ExecStartPost=/bin/sh -c 'sleep 1; ln -sf {} {}'\n",
            node.reg_socket(name).display(),
            node.link(name).display()
        );
    }
    unit + "Restart=always\n"
}

#[test]
fn the_printed_configuration_registers_the_same_driver_with_the_same_paths() {
    for layout in Layout::ALL {
        let node = Node::with_layout(layout);
        let file: PathBuf = node.root().join("ndr.service");
        fs::write(&file, unit(&node)).unwrap();
        let imported = output(&["import-ndr", file.to_str().unwrap()]);
        assert!(imported.status.success(), "{imported:?}");
        node.write_config(&String::from_utf8(imported.stdout).unwrap());
        let settings = Settings::new(node.kubelet_root(), Release::V1_36);
        let kubelet = TestKubelet::start(settings.with_timing(Timing::faster(10)));
        let driver =
            FakeDriver::start_in_new_directory(node.csi_socket(NAME), Behaviour::named(NAME));
        let mut registrar = Registrar::new(PROGRAM, &node);
        registrar.start();
        let endpoint = kubelet.wait_registered(NAME, SOON);
        assert_eq!(endpoint, driver.path().display().to_string());
        let status = registrar.wait_phase(NAME, "registered", SOON);
        let text = |path: PathBuf| Some(path.display().to_string());
        assert_eq!(status.registration_socket, text(node.reg_socket(NAME)));
        assert_eq!(status.link, text(node.link(NAME)));
    }
}

/// A DaemonSet whose containers see the directories of the host under other paths.
fn daemon_set(node: &Node, name: &str) -> String {
    let endpoint = node.csi_socket(name);
    format!(
        "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: node-plugin, namespace: storage}}\n\
         spec:\n  template:\n    spec:\n      containers:\n      - name: registrar\n        \
         image: registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.13.0\n        \
         args: [--csi-address=$(ADDRESS), --kubelet-registration-path={}]\n        \
         env: [{{name: ADDRESS, value: /csi/csi.sock}}]\n        \
         volumeMounts: [{{name: s, mountPath: /csi}}, {{name: r, mountPath: /registration}}]\n      \
         volumes:\n      - {{name: s, hostPath: {{path: {:?}}}}}\n      \
         - {{name: r, hostPath: {{path: {:?}}}}}\n",
        endpoint.display(),
        endpoint.parent().unwrap(),
        node.kubelet_registry_dir(),
    )
}

#[test]
fn the_configuration_of_a_daemon_set_registers_the_same_driver_with_the_same_paths() {
    let node = Node::with_layout(Layout::OneDirectory);
    let file = node.root().join("node-plugin.yaml");
    fs::write(&file, daemon_set(&node, NAME)).unwrap();
    let imported = output(&["import-ndr", file.to_str().unwrap()]);
    assert!(imported.status.success(), "{imported:?}");
    node.write_config(&String::from_utf8(imported.stdout).unwrap());
    let kubelet = TestKubelet::start(Settings::new(node.kubelet_root(), Release::V1_36));
    let driver = FakeDriver::start_in_new_directory(node.csi_socket(NAME), Behaviour::named(NAME));
    let mut registrar = Registrar::new(PROGRAM, &node);
    registrar.start();
    let endpoint = kubelet.wait_registered(NAME, SOON);
    assert_eq!(endpoint, driver.path().display().to_string());
    let status = registrar.wait_phase(NAME, "registered", SOON);
    assert_eq!(status.link, Some(node.link(NAME).display().to_string()));
}

#[test]
fn a_manifest_that_gives_no_configuration_is_1_with_file_document_and_container() {
    let node = Node::new();
    let file = node.root().join("node-plugin.yaml");
    let fault =
        daemon_set(&node, NAME).replace("value: /csi/csi.sock", "valueFrom: {secretKeyRef: {}}");
    fs::write(&file, format!("kind: Namespace\n---\n{fault}")).unwrap();
    let refused = output(&["import-ndr", file.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.stdout.is_empty());
    let words = format!(
        "error: {}: document 2, DaemonSet storage/node-plugin, container registrar: left out: \
         --csi-address=$(ADDRESS) has no value here: $(ADDRESS): its value comes from secretKeyRef",
        file.display()
    );
    assert!(bed::stderr(&refused).contains(&words), "{refused:?}");
    // With a container that can be imported, the other is a comment and a warning.
    let both = format!("{fault}---\n{}", daemon_set(&node, OTHER));
    fs::write(&file, both).unwrap();
    let imported = output(&["import-ndr", file.to_str().unwrap()]);
    assert!(imported.status.success(), "{imported:?}");
    for said in [bed::stdout(&imported), bed::stderr(&imported)] {
        let words = "document 1, DaemonSet storage/node-plugin, container registrar: left out: ";
        assert!(said.contains(words), "{said}");
    }
}

/// Its output goes into config.d beside that of the first unit.
#[test]
fn a_second_unit_adds_its_driver_and_changes_nothing_for_the_first() {
    let node = Node::new();
    node.write_config("");
    let drop_ins = node.config_file().with_file_name("config.d");
    fs::create_dir(&drop_ins).unwrap();
    let config = node.config_file().display().to_string();
    let import = |unit: String, drop_in: &str| {
        let file = node.root().join("ndr.service");
        fs::write(&file, unit).unwrap();
        let imported = output(&["--config", &config, "import-ndr", file.to_str().unwrap()]);
        assert!(imported.status.success(), "{imported:?}");
        fs::write(drop_ins.join(drop_in), imported.stdout).unwrap();
    };
    let effective = || {
        let printed = bed::stdout(&output(&["--config", &config, "config"]));
        let keys = printed.lines().filter(|line| !line.contains(OTHER));
        let values = keys.map(|line| line.split("  # ").next().unwrap().to_owned());
        values.collect::<Vec<String>>()
    };
    import(unit(&node), "1.toml");
    let first = effective();
    let elsewhere = node.root().join("elsewhere").display().to_string();
    let registry = node.registry_dir().display().to_string();
    let second = unit_of(&node, OTHER).replace(&registry, &elsewhere);
    import(
        second.replace("--v=5", "--v=6 --http-endpoint=:9809"),
        "2.toml",
    );
    assert_eq!(effective(), first);

    let kubelet = TestKubelet::start(Settings::new(node.kubelet_root(), Release::V1_36));
    let drivers = [NAME, OTHER].map(|name| {
        FakeDriver::start_in_new_directory(node.csi_socket(name), Behaviour::named(name))
    });
    let mut registrar = Registrar::new(PROGRAM, &node);
    registrar.start();
    for (driver, name) in drivers.iter().zip([NAME, OTHER]) {
        let endpoint = kubelet.wait_registered(name, SOON);
        assert_eq!(endpoint, driver.path().display().to_string());
    }
}

#[test]
fn a_command_line_is_taken_in_one_argument_or_in_many() {
    let line = "ndr -csi-address /csi/csi.sock -kubelet-registration-path=/k/plugins/x/csi.sock";
    let one = output(&["import-ndr", line]);
    let words: Vec<&str> = std::iter::once("import-ndr")
        .chain(line.split(' '))
        .collect();
    let many = output(&words);
    assert!(one.status.success(), "{one:?}");
    assert_eq!(one.stdout, many.stdout);
    let refused = output(&["import-ndr", "sleep 5"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stdout.is_empty() && !refused.stderr.is_empty());
}
