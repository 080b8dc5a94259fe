//! How long it takes from a driver that listens to a kubelet that could register it.
//!
//! `cargo bench --bench registration` runs the release binary as a process, on real sockets.

use std::thread;
use std::time::{Duration, Instant};

use bed::driver::{Behaviour, FakeDriver};
use bed::{Node, Registrar, eventually, wire};

const PROGRAM: &str = env!("CARGO_BIN_EXE_node-storage-driver-registrar");
const NAME: &str = "bench.example.com";
const RUNS: usize = 200;
const DEADLINE: Duration = Duration::from_secs(10);

fn main() {
    let node = Node::new();
    node.write_default_config(&[NAME], "");
    node.make_kubelet_registry_dir();
    std::fs::create_dir_all(
        node.csi_socket(NAME)
            .parent()
            .expect("a socket is in a directory"),
    )
    .expect("the node's directory can be written");
    let mut registrar = Registrar::new(PROGRAM, &node);
    registrar.start();
    registrar.wait_phase(NAME, "waiting-for-driver", DEADLINE);

    let mut times: Vec<Duration> = (0..RUNS).map(|_| one_run(&node)).collect();
    times.sort();
    println!("csi.sock listens -> link is there and reg.sock answers, {RUNS} runs");
    for (word, rank) in [("p50", 50), ("p90", 90), ("p99", 99), ("worst", 100)] {
        let time = times[(RUNS * rank).div_ceil(100) - 1];
        println!("  {word:<6} {:>8.3} ms", time.as_secs_f64() * 1000.0);
    }
    println!("resident memory, 1 driver: {} kB", registrar.rss_kb());
}

fn one_run(node: &Node) -> Duration {
    let link = node.link(NAME);
    let mut driver = FakeDriver::start(node.csi_socket(NAME), Behaviour::named(NAME));
    let listening = Instant::now();
    spin_until(|| link.is_symlink());
    wire::get_info(&link).expect("the socket behind the link answers");
    let time = listening.elapsed();
    driver.stop();
    eventually("the link is gone", DEADLINE, || !link.is_symlink());
    // The next run starts from a registrar at rest.
    thread::sleep(Duration::from_millis(20));
    time
}

/// Looks as often as it can: a sleep would be the largest part of what is measured.
fn spin_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "nothing happened");
        thread::yield_now();
    }
}
