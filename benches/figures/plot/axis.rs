//! A logarithmic axis.

/// Whole decades, laid between two places on the paper.
pub(super) struct Axis {
    /// Powers of ten.
    low: i32,
    high: i32,
    from: f64,
    to: f64,
}

impl Axis {
    /// Wide enough for all values, which are above zero, and one decade at least.
    pub(super) fn around(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let low = low.log10().floor() as i32;
        let high = (high.log10().ceil() as i32).max(low + 1);
        Axis {
            low,
            high,
            from,
            to,
        }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let part = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Each decade, with its place and its number.
    pub(super) fn decades(&self) -> impl Iterator<Item = (f64, String)> {
        (self.low..=self.high).map(|power| {
            let value = 10_f64.powi(power);
            (self.at(value), number(value))
        })
    }

    /// The places of 2, 3, … 9 times each decade.
    pub(super) fn between(&self) -> impl Iterator<Item = f64> {
        let steps = |power| (2..10).map(move |step| f64::from(step) * 10_f64.powi(power));
        let values = (self.low..self.high).flat_map(steps);
        values.map(|value| self.at(value))
    }
}

/// With the digits that a reader needs, and commas between thousands.
pub(super) fn number(value: f64) -> String {
    match value {
        value if value >= 999.5 => {
            let whole = value.round() as u64;
            format!("{},{:03}", whole / 1000, whole % 1000)
        }
        value if value >= 99.5 => format!("{value:.0}"),
        value if value >= 9.95 => trimmed(format!("{value:.1}")),
        value => trimmed(format!("{value:.2}")),
    }
}

fn trimmed(number: String) -> String {
    number
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}
