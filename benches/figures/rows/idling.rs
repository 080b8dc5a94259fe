//! An idle contender whose drivers are registered.

use std::thread;
use std::time::{Duration, Instant};

use bed::{Footprint, TestKubelet};

use crate::contender::Contender;
use crate::outcome::Outcome;
use crate::scene::Scene;

/// The kubelet's calls are over, and so are the timers that follow a registration.
const SETTLE: Duration = Duration::from_secs(10);

/// Wake-ups a second in each window, with so many drivers in the first scene, in the second and
/// so on. They are idle at the same time.
pub(crate) fn measure(
    contender: &Contender,
    counts: &[usize],
    windows: usize,
    window: Duration,
) -> Vec<Outcome> {
    let scenes: Vec<(Scene, TestKubelet)> = counts
        .iter()
        .map(|drivers| registered(contender, *drivers))
        .collect();
    thread::sleep(if windows > 1 { SETTLE } else { SETTLE / 4 });
    let mut rates = vec![Vec::with_capacity(windows); counts.len()];
    for _ in 0..windows {
        let before: Vec<u64> = scenes.iter().map(wakeups).collect();
        let start = Instant::now();
        thread::sleep(window);
        let seconds = start.elapsed().as_secs_f64();
        for ((scene, before), rates) in scenes.iter().zip(before).zip(&mut rates) {
            rates.push((wakeups(scene) - before) as f64 / seconds);
        }
    }
    rates.into_iter().map(Outcome::of).collect()
}

fn registered(contender: &Contender, drivers: usize) -> (Scene, TestKubelet) {
    let mut scene = Scene::with_drivers(contender, drivers, "");
    let kubelet = scene.node.kubelet();
    scene.crew.start();
    scene.wait_registered(&kubelet);
    (scene, kubelet)
}

fn wakeups((scene, _): &(Scene, TestKubelet)) -> u64 {
    scene.crew.sum(Footprint::wakeups)
}
