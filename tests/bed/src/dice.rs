//! Random numbers that a seed repeats.

use std::time::{SystemTime, UNIX_EPOCH};

/// A generator (xorshift) of numbers that look random.
pub struct Dice(u64);

impl Dice {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        // Spread over all bits; xorshift never leaves the state zero.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number from 0 to `limit` - 1.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let limit = u64::try_from(choices.len()).unwrap();
        choices[usize::try_from(self.below(limit)).unwrap()]
    }
}

/// The number in this environment variable, if it is set.
pub fn given(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(error) => panic!("{variable}={text}: {error}"),
    }
}

/// A new seed at each call.
pub fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::from(now.subsec_nanos()) ^ now.as_secs() << 30
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rolls(seed: u64) -> Vec<u64> {
        let mut dice = Dice::new(seed);
        (0..50).map(|_| dice.below(6)).collect()
    }

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_another_seed_does_not() {
        assert_eq!(rolls(7), rolls(7));
        assert_ne!(rolls(7), rolls(8));
        assert!((0..6).all(|face| rolls(0).contains(&face)));
    }
}
