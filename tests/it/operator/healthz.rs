//! /healthz as the livenessProbe of a node-driver-registrar uses it.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

use bed::scene::SOON;
use bed::{Behaviour, FakeDriver, Layout, Node, eventually};

use crate::ndr::command_lines::hand_run;
use crate::ndr::unit::Unit;

/// The whole answer, once the daemon listens.
fn ask(address: IpAddr, port: u16) -> String {
    let mut stream = eventually("http is served", SOON, || {
        TcpStream::connect((address, port))
    });
    let request = b"GET /healthz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A pod has an IPv4 or an IPv6 address.
#[track_caller]
fn assert_ok(port: u16) {
    let mut addresses = vec![IpAddr::from(Ipv4Addr::LOCALHOST)];
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        addresses.push(Ipv6Addr::LOCALHOST.into());
    }
    for address in addresses {
        let answer = ask(address, port);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    }
}

#[test]
fn healthz_is_ok_while_the_socket_is_served_and_while_the_driver_is_away() {
    for flag in ["--http-endpoint=:", "--health-port="] {
        let node = Node::with_layout(Layout::OneDirectory);
        let kubelet = node.kubelet();
        let port = bed::free_port();
        let mut line = hand_run(&node, "a");
        if flag == "--health-port=" {
            // An empty value counts as not given.
            line.push("--http-endpoint=".to_owned());
        }
        line.push(format!("{flag}{port}"));
        let unit = Unit::start(&line, Some(&node.runtime_dir()), node.root().join("log"));
        // node-driver-registrar does not listen before its driver runs, so its pod is restarted. The
        // registrar is healthy while it waits.
        assert_ok(port);
        let mut driver =
            FakeDriver::start_in_new_directory(node.csi_socket("a"), Behaviour::named("a.test"));
        kubelet.wait_registered("a.test", SOON);
        unit.wait_log("a: registered");
        assert_ok(port);
        driver.kill();
        unit.wait_log("the driver is gone");
        assert_ok(port);
        let deprecated = unit.logs().contains("--health-port is deprecated");
        assert_eq!(deprecated, flag.starts_with("--health-port"), "{flag}");
    }
}

#[test]
fn healthz_is_not_ok_while_the_driver_answers_and_its_socket_cannot_be_served() {
    let node = Node::new();
    let port = bed::free_port();
    let line = [
        hand_run(&node, "a"),
        vec![format!("--http-endpoint=localhost:{port}")],
    ];
    // No socket can be bound below a file.
    let registry = node.registry_dir();
    std::fs::create_dir_all(registry.parent().unwrap()).unwrap();
    std::fs::write(&registry, "").unwrap();
    let _driver =
        FakeDriver::start_in_new_directory(node.csi_socket("a"), Behaviour::named("a.test"));
    let unit = Unit::start(
        &line.concat(),
        Some(&node.runtime_dir()),
        node.root().join("log"),
    );
    eventually("it is not well", SOON, || {
        let answer = ask(Ipv4Addr::LOCALHOST.into(), port);
        let is_bad = answer.starts_with("HTTP/1.1 503 ") && answer.contains("plugins_registry");
        is_bad.then_some(()).ok_or(answer)
    });
    drop(unit);
}
