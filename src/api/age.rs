//! The time since an event, as one short word.

use jiff::Timestamp;

/// The age of an RFC 3339 time, such as `5s`, `12m`, `7h` or `40d`. Zero if the clock was
/// set back; `?` if the text is not a time.
pub(crate) fn age(since: &str, now: Timestamp) -> String {
    let Ok(since) = since.parse() else {
        return "?".to_owned();
    };
    match now.duration_since(since).as_secs().max(0) {
        seconds @ ..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..86_400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_unit_is_enough() {
        let now: Timestamp = "2026-03-02T10:00:00Z".parse().unwrap();
        for (since, shown) in [
            ("2026-03-02T10:00:00Z", "0s"),
            ("2026-03-02T09:59:01Z", "59s"),
            ("2026-03-02T09:59:00Z", "1m"),
            ("2026-03-02T09:00:00Z", "1h"),
            ("2026-01-01T10:00:00Z", "60d"),
            ("2026-03-02T11:00:00Z", "0s"),
            ("yesterday", "?"),
        ] {
            assert_eq!(age(since, now), shown, "{since}");
        }
    }
}
