//! `import-ndr`: the configuration that it prints registers the same driver, and moves no other driver of the
//! node.

use std::fs;
use std::path::Path;

use bed::scene::{NAME, OTHER, SOON};
use bed::{Behaviour, FakeDriver, Layout};

use crate::ndr::unit::output;
use crate::setup;

/// The flags of a node-driver-registrar that serves in this directory.
fn flags(socket: &Path, registry: &Path) -> [String; 3] {
    let (socket, registry) = (socket.display(), registry.display());
    [
        format!("--csi-address={socket}"),
        format!("--kubelet-registration-path={socket}"),
        format!("--plugin-registration-path={registry}"),
    ]
}

fn import(flags: &[String]) -> String {
    let words: Vec<&str> = flags.iter().map(String::as_str).collect();
    let imported = output(&[&["import-ndr"], words.as_slice()].concat());
    assert!(imported.status.success(), "{imported:?}");
    bed::stdout(&imported)
}

#[test]
fn the_printed_configuration_registers_the_driver_and_moves_no_other() {
    for layout in Layout::ALL {
        // A driver that discovery finds is in no table, and counts all the same.
        let scene = setup().layout(layout).discovery().started();
        let kubelet = scene.node.kubelet();
        let _present = scene.node.driver(NAME);
        kubelet.wait_registered(NAME, SOON);
        let before = scene.phase(NAME, "registered");
        let mark = kubelet.mark();
        let socket = scene
            .node
            .root()
            .join("elsewhere")
            .join(OTHER)
            .join("csi.sock");
        let mut flags = flags(&socket, &scene.node.plugins_registry()).to_vec();
        flags.extend(["--http-endpoint=:9809", "--v=5"].map(str::to_owned));
        let drop_ins = scene.node.config_file().with_file_name("config.d");
        fs::create_dir(&drop_ins).unwrap();
        fs::write(drop_ins.join("other.toml"), import(&flags)).unwrap();
        let driver = FakeDriver::start_in_new_directory(socket, Behaviour::named(OTHER));
        scene.registrar.succeed(&["reload"]);
        let endpoint = kubelet.wait_registered(OTHER, SOON);
        assert_eq!(endpoint, driver.path().display().to_string());
        let after = scene.phase(NAME, "registered");
        assert_eq!(after.registration_socket, before.registration_socket);
        assert_eq!(after.link, before.link);
        let counts = kubelet.counts_since(mark);
        assert_eq!((counts.registrations, counts.deregistrations), (1, 0));
    }
}

#[test]
fn one_dash_and_a_value_in_the_next_argument_give_the_same() {
    let socket = Path::new("/k/plugins/x/csi.sock");
    let one = import(&flags(socket, Path::new("/k/plugins_registry")));
    let line = "-csi-address /k/plugins/x/csi.sock -kubelet-registration-path \
                /k/plugins/x/csi.sock -plugin-registration-path=/k/plugins_registry";
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    assert_eq!(import(&words), one);
}

#[test]
fn what_is_no_flag_of_node_driver_registrar_is_64_and_nothing_is_printed() {
    let form = "import-ndr --csi-address=";
    for (words, said) in [
        (&["node-driver-registrar-nfs.service"][..], form),
        (&["/tmp/csi-nfs-node.yaml"], form),
        (&["ndr --csi-address=/a/csi.sock"], form),
        (&["--csi-address=/a/csi.sock", "extra"], "extra"),
        (&["--csi-addres=/a/csi.sock"], "--csi-addres"),
        (&["--csi-address"], "--csi-address"),
        (&["--timeout=soon"], "soon"),
        (
            &["--csi-address=/a/csi.sock"],
            "--kubelet-registration-path is required",
        ),
        (
            &["--csi-address=a", "--kubelet-registration-path=/a"],
            "must be an absolute path",
        ),
        (&[], "import-ndr"),
    ] {
        let refused = output(&[&["import-ndr"], words].concat());
        assert_eq!(refused.status.code(), Some(64), "{words:?}: {refused:?}");
        assert!(refused.stdout.is_empty(), "{words:?}: {refused:?}");
        let error = bed::stderr(&refused);
        assert!(error.contains(said), "{words:?}: {error}");
    }
}
