//! Chance that can be had again: the same seed gives the same throws.

/// splitmix64: small, without a period worth a thought here, and good enough to choose by.
pub struct Dice(u64);

impl Dice {
    /// The dice of one round. Each round has its own, so that no round depends on how many throws an
    /// earlier one took.
    pub fn of(seed: u64, round: u64) -> Self {
        let mut dice = Self(seed ^ round.wrapping_mul(0xd134_2543_de82_ef95));
        dice.throw();
        dice
    }

    /// Any number.
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.throw() % end
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of them.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}
