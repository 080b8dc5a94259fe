//! A driver comes up under a contender that waits for it.

use std::thread;
use std::time::{Duration, Instant};

use bed::{Behaviour, FakeDriver};

use crate::contender::Contender;
use crate::outcome::Outcome;
use crate::scene::{Scene, milliseconds, rest, spin_until};

pub(crate) fn measure(contender: &Contender, runs: usize) -> Outcome {
    let mut scene = Scene::new(contender, 1, "");
    if contender.is_peer() {
        // It does not notice that a driver goes, so each run has a process of its own, which waits
        // for other lengths of time so as not to be met in step.
        return Outcome::of((0..runs).map(|run| {
            scene.crew.start();
            thread::sleep(Duration::from_millis(200 + (run as u64 * 137) % 1000));
            let time = one_run(&scene);
            scene.crew.stop();
            time
        }));
    }
    scene.crew.start();
    scene.wait_up();
    Outcome::of((0..runs).map(|_| one_run(&scene)))
}

/// The clock starts before the driver's `bind`: what it needs for that and for `listen` counts.
fn one_run(scene: &Scene) -> f64 {
    let link = scene.link();
    let socket = scene.node.csi_socket(&scene.names[0]);
    let behaviour = Behaviour::named(&scene.names[0]);
    let start = Instant::now();
    let mut driver = FakeDriver::start(socket, behaviour);
    scene.wait_serving();
    let time = milliseconds(start.elapsed());
    driver.stop();
    // A peer's socket stays until the peer ends.
    if link.is_symlink() {
        spin_until("the link goes with the driver", || !link.is_symlink());
    }
    rest();
    time
}
