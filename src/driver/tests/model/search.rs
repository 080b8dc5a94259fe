//! Breadth first through all states, with the way back to the start for the one that breaks a rule.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};

use super::world::{Step, World};

/// Left alone, a driver is registered after so many steps at the most.
const PATIENCE: usize = 400;

/// States are remembered by two independent hashes: a clash of both is less likely than a bit that
/// flips in memory.
type Fingerprint = (u64, u64);

pub(super) struct Search {
    start: World,
    /// How each state was first reached.
    reached: HashMap<Fingerprint, Option<(Fingerprint, Step)>>,
    /// States from which the driver is known to end up registered.
    good: HashSet<Fingerprint>,
}

pub(super) enum Verdict {
    Holds { states: usize },
    Fails { why: String, path: Vec<String> },
}

impl Search {
    pub(super) fn new(start: World) -> Search {
        Search {
            start,
            reached: HashMap::new(),
            good: HashSet::new(),
        }
    }

    pub(super) fn run(mut self) -> Verdict {
        let mut start = self.start.clone();
        start.normalise();
        let first = fingerprint(&start);
        self.reached.insert(first, None);
        let mut frontier = VecDeque::from([(first, start)]);
        while let Some((from, world)) = frontier.pop_front() {
            if let Err((why, calm)) = self.settles(&world) {
                let mut path = self.path(from);
                path.push("— and then, left alone —".to_owned());
                path.extend(calm.into_iter().map(|step| format!("{step:?}")));
                return Verdict::Fails { why, path };
            }
            for step in world.steps() {
                let mut next = world.clone();
                if let Err(why) = next.take(step) {
                    let mut path = self.path(from);
                    path.push(format!("{step:?}"));
                    return Verdict::Fails { why, path };
                }
                next.normalise();
                let print = fingerprint(&next);
                if let Entry::Vacant(new) = self.reached.entry(print) {
                    new.insert(Some((from, step)));
                    frontier.push_back((print, next));
                }
            }
        }
        Verdict::Holds {
            states: self.reached.len(),
        }
    }

    /// Lets everything happen by itself, and sees whether the driver gets registered.
    fn settles(&mut self, world: &World) -> Result<(), (String, Vec<Step>)> {
        if !world.could_be_registered() {
            return Ok(());
        }
        let mut world = world.clone();
        let (mut passed, mut steps) = (Vec::new(), Vec::new());
        for _ in 0..PATIENCE {
            let print = fingerprint(&world);
            if self.good.contains(&print) || world.is_registered() {
                self.good.extend(passed);
                self.good.insert(print);
                return Ok(());
            }
            passed.push(print);
            let Some(step) = world.next_by_itself() else {
                break;
            };
            steps.push(step);
            world.take(step).map_err(|why| (why, steps.clone()))?;
            world.normalise();
        }
        Err((
            "left alone, the driver is not registered although driver and kubelet are there"
                .to_owned(),
            steps,
        ))
    }

    fn path(&self, mut at: Fingerprint) -> Vec<String> {
        let mut path = Vec::new();
        while let Some(Some((from, step))) = self.reached.get(&at) {
            path.push(format!("{step:?}"));
            at = *from;
        }
        path.reverse();
        path
    }
}

fn fingerprint(world: &World) -> Fingerprint {
    let mut first = DefaultHasher::new();
    world.hash(&mut first);
    let mut second = DefaultHasher::new();
    0x5eed_u64.hash(&mut second);
    world.hash(&mut second);
    (first.finish(), second.finish())
}
