//! GetInfo while many connections are open.

use bed::{Callers, Turn};

use crate::contender::Contender;
use crate::outcome::Outcome;
use crate::scene::{Scene, milliseconds};

const CONNECTIONS: usize = 1000;

/// One by one, and all at once; each connection asks once in each round.
pub(crate) fn measure(contender: &Contender, rounds: usize) -> [Outcome; 2] {
    let mut scene = Scene::with_drivers(contender, 1, "");
    scene.crew.start();
    scene.wait_serving();
    let crowd = Callers::open(&scene.link(), CONNECTIONS).expect("all connections are taken");
    [Turn::OneByOne, Turn::AllAtOnce].map(|turn| {
        let round = |_| {
            crowd
                .get_info(turn)
                .expect("every connection has its answer")
        };
        Outcome::of((0..rounds).flat_map(round).map(milliseconds))
    })
}
