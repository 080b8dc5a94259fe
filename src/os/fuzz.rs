//! Fuzzing on stable Rust: the inputs of a corpus, and mutations of them.
//!
//! A target is a test beside the code that it attacks. It hands a check to [`Fuzz`], which calls it
//! with each file of `tests/corpus/TARGET`, and then with mutations until its time is over. The
//! check panics when an invariant does not hold, and otherwise returns the outcome: an input with a
//! new outcome is mutated further, in place of the coverage that libFuzzer measures.
//!
//! An input that makes the check panic is saved in the system's directory for temporary files, never in
//! the corpus: a failing run leaves the source tree as it was. A developer who moves the file to
//! `tests/corpus/TARGET` keeps it for every later run. `FUZZ_SEED=` repeats a run or begins another
//! one, `FUZZ_SECONDS=` makes it longer.

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// In a plain `cargo test`.
const SHORT: Duration = Duration::from_secs(2);
/// In the long run, where `FUZZ_SECONDS` says nothing.
const LONG: Duration = Duration::from_secs(60);
/// Larger inputs are cut: what is slow to check finds less in its time.
const LONGEST: usize = 40_000;
/// Inputs that are mutated; a new one takes the place of any.
const POOL: usize = 1_000;

/// One target.
pub(crate) struct Fuzz {
    target: &'static str,
    /// What its inputs are made of, to be put in anywhere.
    words: &'static [&'static str],
    corpus: PathBuf,
    /// For inputs that make the check panic.
    failures: PathBuf,
}

impl Fuzz {
    pub(crate) fn new(target: &'static str, words: &'static [&'static str]) -> Fuzz {
        let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
        Fuzz {
            target,
            words,
            corpus: corpora.join(target),
            failures: std::env::temp_dir(),
        }
    }

    /// For a couple of seconds, the same each time.
    pub(crate) fn short<O: Hash>(&self, check: impl FnMut(&[u8]) -> O) {
        self.run(SHORT, 1, check);
    }

    /// For longer, and another way each time.
    pub(crate) fn long<O: Hash>(&self, check: impl FnMut(&[u8]) -> O) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.run(LONG, now.unwrap().as_secs(), check);
    }

    fn run<O: Hash>(&self, time: Duration, seed: u64, mut check: impl FnMut(&[u8]) -> O) {
        let time = number_from("FUZZ_SECONDS").map_or(time, Duration::from_secs);
        let seed = number_from("FUZZ_SEED").unwrap_or(seed);
        let mut pool = self.corpus();
        assert!(!pool.is_empty(), "{}: nothing to begin with", self.target);
        let mut outcomes = HashSet::new();
        for input in &pool {
            outcomes.insert(hash(&self.attempt(input, seed, &mut check)));
        }
        let kept = pool.len();
        let mut random = Random(seed);
        let (begun, mut tried) = (Instant::now(), 0_u64);
        while begun.elapsed() < time {
            let input = self.mutate(&pool, &mut random);
            let outcome = hash(&self.attempt(&input, seed, &mut check));
            tried += 1;
            if outcomes.insert(outcome) {
                if pool.len() < POOL {
                    pool.push(input);
                } else {
                    let place = kept + random.below(POOL - kept);
                    pool[place] = input;
                }
            }
        }
        eprintln!(
            "{}: FUZZ_SEED={seed}: {kept} kept inputs, {tried} mutations, {} outcomes",
            self.target,
            outcomes.len()
        );
    }

    fn corpus(&self) -> Vec<Vec<u8>> {
        let mut files: Vec<PathBuf> = fs::read_dir(&self.corpus)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        let read = |path: &PathBuf| decode(&fs::read(path).unwrap(), path);
        files.iter().map(read).collect()
    }

    fn attempt<O>(&self, input: &[u8], seed: u64, check: &mut impl FnMut(&[u8]) -> O) -> O {
        match catch_unwind(AssertUnwindSafe(|| check(input))) {
            Ok(outcome) => outcome,
            Err(panic) => {
                let name = format!("{}-found-{:016x}", self.target, hash(&input));
                let path = self.failures.join(name);
                let saved = fs::write(&path, encode(input));
                eprintln!("{}: FUZZ_SEED={seed}", self.target);
                eprintln!(
                    "the input is in {} ({saved:?}); move it to {} to keep it",
                    path.display(),
                    self.corpus.display()
                );
                resume_unwind(panic)
            }
        }
    }

    /// One input out of the pool, changed in one to eight places.
    fn mutate(&self, pool: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
        let mut input = pool[random.below(pool.len())].clone();
        for _ in 0..=random.below(8) {
            let at = random.below(input.len() + 1);
            let end = (at + random.below(32)).min(input.len());
            match random.below(10) {
                0 => drop(input.drain(at..end)),
                1 => input.truncate(at),
                2 => {
                    let bytes: Vec<u8> = (0..random.below(8)).map(|_| random.byte()).collect();
                    input.splice(at..at, bytes);
                }
                3 => {
                    let again = input[at..end].repeat(1 + random.below(20));
                    input.splice(at..at, again);
                }
                4 => {
                    let other = &pool[random.below(pool.len())];
                    let from = random.below(other.len() + 1);
                    let to = (from + random.below(200)).min(other.len());
                    input.splice(at..end, other[from..to].iter().copied());
                }
                5 | 6 if !self.words.is_empty() => {
                    let word = self.words[random.below(self.words.len())];
                    let over = if random.below(2) == 0 { at } else { end };
                    input.splice(at..over, word.bytes());
                }
                7 => {
                    // A length, wherever it may be: near a border of its type.
                    let borders = [0, 1, 0x7f, 0x80, 0xff, 0x3fff, 0x4001, 0xffff, u32::MAX];
                    let number = borders[random.below(borders.len())].to_be_bytes();
                    for (place, byte) in input[at..].iter_mut().zip(&number[random.below(4)..]) {
                        *place = *byte;
                    }
                }
                _ => {
                    if let Some(byte) = input.get_mut(at) {
                        *byte = match random.below(3) {
                            0 => random.byte(),
                            1 => *byte ^ (1 << random.below(8)),
                            _ => byte.wrapping_add(1),
                        };
                    }
                }
            }
        }
        input.truncate(LONGEST);
        input
    }
}

/// splitmix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Zero when there is nothing below.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % (bound.max(1) as u64)) as usize
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }
}

/// What an input's bytes add up to; a target takes from it where to cut, so that a kept input is
/// always cut alike.
pub(crate) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Inputs are kept as text, so that a reader and a diff can show them: `\xNN` is a byte, `\\` a
/// backslash, and the line feed at the very end belongs to the file.
fn encode(input: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(input.len() + 1);
    for byte in input {
        match byte {
            b'\\' => text.extend(b"\\\\"),
            b'\n' | b' '..=b'~' => text.push(*byte),
            byte => text.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
    text.push(b'\n');
    text
}

fn decode(text: &[u8], path: &Path) -> Vec<u8> {
    let mut rest = text.strip_suffix(b"\n").unwrap_or(text);
    let mut input = Vec::with_capacity(rest.len());
    while let [first, after @ ..] = rest {
        let (byte, length) = match (first, after) {
            (b'\\', [b'\\', ..]) => (b'\\', 2),
            (b'\\', [b'x', high, low, ..]) => {
                let digits = [*high, *low];
                let digits = str::from_utf8(&digits).unwrap_or_default();
                let byte = u8::from_str_radix(digits, 16);
                (byte.unwrap_or_else(|_| panic!("{}", path.display())), 4)
            }
            (b'\\', _) => panic!("{}: a lone backslash", path.display()),
            (byte, _) => (*byte, 1),
        };
        input.push(byte);
        rest = &rest[length..];
    }
    input
}

#[test]
fn a_kept_input_reads_back_as_it_was() {
    let all: Vec<u8> = (0..=255).chain(*b"\\x41\n\n").collect();
    assert_eq!(decode(&encode(&all), Path::new("")), all);
}

#[test]
fn an_input_that_makes_a_check_panic_is_saved_outside_of_the_corpus() {
    let (corpus, failures) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(corpus.path().join("seed"), "hello\n").unwrap();
    let fuzz = Fuzz {
        target: "planted",
        words: &["fault"],
        corpus: corpus.path().to_owned(),
        failures: failures.path().to_owned(),
    };
    let is_planted = |input: &[u8]| input.windows(5).any(|five| five == b"fault");
    let check = |input: &[u8]| assert!(!is_planted(input), "planted");
    let found = catch_unwind(|| fuzz.run(Duration::from_secs(60), 1, check));
    assert!(found.is_err(), "not found");
    assert_eq!(fuzz.corpus(), [b"hello"]);
    let saved: Vec<_> = fs::read_dir(failures.path()).unwrap().collect();
    let [Ok(saved)] = saved.as_slice() else {
        panic!("{saved:?}");
    };
    let input = decode(&fs::read(saved.path()).unwrap(), &saved.path());
    assert!(is_planted(&input));
}
