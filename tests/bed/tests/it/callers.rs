//! Many connections to one socket.

use std::path::Path;

use bed::{Callers, Node, Sidecar, Turn};

#[test]
fn every_connection_of_a_crowd_has_its_answer_in_either_order() {
    let node = Node::new();
    node.make_plugins_registry();
    let socket = node.link("d");
    let _sidecar = Sidecar::start(&socket, "d", Path::new("/csi.sock"));
    let crowd = Callers::open(&socket, 20).unwrap();
    for turn in [Turn::OneByOne, Turn::AllAtOnce] {
        assert_eq!(crowd.get_info(turn).unwrap().len(), 20);
    }
}

#[test]
fn callers_without_a_listener_report_the_connection_that_failed() {
    let node = Node::new();
    let error = Callers::open(&node.link("d"), 2).err().unwrap();
    assert!(error.message().starts_with("connection 0 to "), "{error}");
}

#[test]
fn callers_report_that_their_socket_is_gone() {
    let node = Node::new();
    node.make_plugins_registry();
    let socket = node.link("d");
    let sidecar = Sidecar::start(&socket, "d", Path::new("/csi.sock"));
    let crowd = Callers::open(&socket, 2).unwrap();
    sidecar.kill();
    assert!(crowd.get_info(Turn::AllAtOnce).is_err());
}
