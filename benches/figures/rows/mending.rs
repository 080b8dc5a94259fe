//! Another process deletes the link or the socket.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::contender::Contender;
use crate::outcome::Outcome;
use crate::scene::{Scene, connects, milliseconds, rest, spins_until};

/// After more repairs than this within 30 s, the registrar waits longer each time, on purpose.
const AT_ONCE: usize = 3;
/// A file that is not restored by then stays deleted.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn link(contender: &Contender, runs: usize) -> Outcome {
    let scene = Scene::with_drivers(contender, 1, "");
    let link = scene.link();
    measure(scene, runs, |_| {
        if !link.is_symlink() {
            return Err("it makes no link".to_owned());
        }
        delete(&link, &link)
    })
}

pub(crate) fn socket(contender: &Contender, runs: usize) -> Outcome {
    let scene = Scene::with_drivers(contender, 1, "");
    let link = scene.link();
    measure(scene, runs, |_| {
        let socket = fs::canonicalize(&link).expect("the socket exists");
        delete(&socket, &link)
    })
}

fn measure(
    mut scene: Scene,
    runs: usize,
    one_run: impl Fn(&Scene) -> Result<f64, String>,
) -> Outcome {
    let mut times = Vec::with_capacity(runs);
    while times.len() < runs {
        scene.crew.start();
        scene.wait_serving();
        for _ in 0..AT_ONCE.min(runs - times.len()) {
            rest();
            match one_run(&scene) {
                Ok(time) => times.push(time),
                Err(why) => return Outcome::Senseless(why),
            }
        }
        // The next process knows nothing of these deletions.
        scene.crew.stop();
    }
    Outcome::of(times)
}

/// How long it takes until `link` leads to a socket that listens again.
fn delete(path: &Path, link: &Path) -> Result<f64, String> {
    let start = Instant::now();
    fs::remove_file(path).expect("the file can be deleted");
    if spins_until(PATIENCE, || connects(link)) {
        Ok(milliseconds(start.elapsed()))
    } else {
        Err(format!("not back within {} s", PATIENCE.as_secs()))
    }
}
