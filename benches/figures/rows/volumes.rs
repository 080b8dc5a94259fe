//! A look at the volumes of a full node.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use bed::{Footprint, Node};

use crate::contender::Contender;
use crate::outcome::Outcome;
use crate::scene::{Scene, milliseconds};

/// More than the kubelet's own limit of 110.
const PODS: usize = 250;
/// The daemon shows a look for a second, and then looks again.
const SHOWN: Duration = Duration::from_millis(1100);
const KB_PER_MB: f64 = 1024.0;

/// The time of `/status` with a look in it, the reads of that look, and the resident memory after it.
pub(crate) fn measure(contender: &Contender, runs: usize) -> [Outcome; 3] {
    if contender.is_peer() {
        return [(); 3].map(|()| Outcome::senseless("it does not look at volumes"));
    }
    let mut scene = Scene::with_drivers(contender, 1, "");
    let listen = format!("unix:{}", scene.node.http_socket().display());
    let more = format!("[discovery]\nenabled = true\n[http]\nlisten = \"{listen}\"\n");
    scene.node.write_default_config(&[], &more);
    fill(&scene.node, &scene.names[0]);
    scene.crew.start();
    scene.wait_serving();
    let reads = || scene.crew.sum(Footprint::reads);
    let (mut times, mut counts, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        thread::sleep(SHOWN);
        let before = reads();
        let start = Instant::now();
        let status = status(&scene.node);
        times.push(milliseconds(start.elapsed()));
        let in_use = format!("\"volumes\":{}", 2 * PODS);
        assert!(status.contains(&in_use), "other volumes: {status}");
        let looked = reads();
        // The same answer without a look.
        self::status(&scene.node);
        counts.push((looked - before) as f64 - (reads() - looked) as f64);
        memory.push(scene.crew.sum(Footprint::rss_kb) as f64 / KB_PER_MB);
    }
    [times, counts, memory].map(Outcome::of)
}

/// Each pod has two volumes, and each volume is staged: four files for a pod.
fn fill(node: &Node, driver: &str) {
    let kubelet = node.volumes();
    for pod in 0..PODS {
        let id = format!("0a1b2c3d-0000-4000-8000-{pod:012}");
        for number in [1, 2] {
            let volume = format!("pvc-{pod:04}-{number}");
            let handle = format!("server#share#{volume}");
            kubelet.pod(&id, &volume, driver, &handle);
            kubelet.staged_from_1_24(&format!("{number}{pod:063}"), driver, &handle);
        }
    }
}

fn status(node: &Node) -> String {
    let mut stream = UnixStream::connect(node.http_socket()).expect("http is served");
    let request = b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut answer = String::new();
    stream
        .write_all(request)
        .and_then(|()| stream.read_to_string(&mut answer))
        .expect("the daemon answers");
    answer
}
