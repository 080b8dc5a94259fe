//! A driver gets registered through the link, and stays so.

use std::time::Duration;

use bed::driver::{Behaviour, FakeDriver};
use bed::kubelet::{KubeletProcess, Release, Settings};
use bed::node::{Layout, Node};
use bed::registrar::Registrar;

bed::kubelet_process!();

const PROGRAM: &str = env!("CARGO_BIN_EXE_node-storage-driver-registrar");
const SOON: Duration = Duration::from_secs(10);
const NAME: &str = "local.csi.paas.cucloud";

#[test]
fn a_driver_that_comes_after_the_registrar_is_registered_through_the_link() {
    for layout in Layout::ALL {
        let node = Node::with_layout(layout);
        node.write_default_config(&[NAME], "");
        let kubelet = KubeletProcess::start(Settings::new(node.kubelet_root(), Release::V1_36));
        let mut registrar = Registrar::new(PROGRAM, &node);
        registrar.start();
        registrar.wait_phase(NAME, "waiting-for-driver", SOON);
        let _driver =
            FakeDriver::start_in_new_directory(node.csi_socket(NAME), Behaviour::named(NAME));
        assert_eq!(
            kubelet.wait_registered(NAME, SOON),
            node.csi_socket(NAME).display().to_string()
        );
        let status = registrar.wait_phase(NAME, "registered", SOON);
        assert_eq!(status.registrations, 1);
        assert!(registrar.stop().success());
        kubelet.wait_deregistered(NAME, SOON);
    }
}
