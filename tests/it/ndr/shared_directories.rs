//! Units that share the directories, each with its own driver and state.

use std::fs;

use bed::scene::SOON;
use bed::{Behaviour, FakeDriver, Layout, Node};

use crate::ndr::command_lines::hand_run;
use crate::ndr::unit::Unit;

/// Starts the unit of one driver, with the same runtime directory each time.
fn start(node: &Node, id: &str) -> Unit {
    let runtime_dir = node.root().join(format!("run-{id}"));
    let log = node.root().join(format!("log-{id}"));
    Unit::start(&hand_run(node, id), Some(&runtime_dir), log)
}

#[test]
fn a_unit_that_starts_leaves_a_neighbour_alone_that_is_down_for_a_moment() {
    for layout in Layout::ALL {
        let node = Node::with_layout(layout);
        let kubelet = node.kubelet();
        let _drivers = ["a.test", "b.test"].map(|id| {
            FakeDriver::start_in_new_directory(node.csi_socket(id), Behaviour::named(id))
        });
        let neighbour = start(&node, "a.test");
        kubelet.wait_registered("a.test", SOON);
        neighbour.wait_log("a.test: registered");
        // The unit is killed, and its socket stays without a process behind it.
        drop(neighbour);
        let mark = kubelet.mark();
        let unit = start(&node, "b.test");
        kubelet.wait_registered("b.test", SOON);
        assert!(fs::symlink_metadata(node.reg_socket("a.test")).is_ok());
        assert!(node.link("a.test").is_symlink());
        let neighbour = start(&node, "a.test");
        neighbour.wait_log("a.test: taken up after a restart, registered since ");
        let counts = kubelet.counts_since(mark);
        assert_eq!((counts.registrations, counts.deregistrations), (1, 0));
        drop((unit, neighbour));
    }
}
