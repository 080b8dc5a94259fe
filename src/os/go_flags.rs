//! Flags as Go's programs take them: one dash or two, the value after `=` or in the next argument.

use std::time::Duration;

/// The value of a flag, the last value if the flag is given more than once.
pub(crate) fn flag<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    flags(arguments, name).into_iter().next_back()
}

/// Every value of a flag that may be given more than once.
pub(crate) fn flags<'a>(arguments: &'a [String], name: &str) -> Vec<&'a str> {
    let mut values = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match split(argument).filter(|(given, _)| *given == name) {
            Some((_, Some(value))) => values.push(value),
            Some((_, None)) => values.extend(arguments.next().map(String::as_str)),
            None => {}
        }
    }
    values
}

/// The name of a flag, and its value if that comes after `=`. None for an argument that is no flag.
pub(crate) fn split(argument: &str) -> Option<(&str, Option<&str>)> {
    let flag = argument.strip_prefix('-')?;
    let flag = flag.strip_prefix('-').unwrap_or(flag);
    if flag.is_empty() || flag.starts_with(['-', '=']) {
        return None;
    }
    Some(match flag.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (flag, None),
    })
}

/// A duration as Go writes it: `1m30s`, `1.5s`, `100ms`. The settings have whole milliseconds at the
/// least.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let unfit = || format!("\"{text}\" is not a duration such as 1s, 1m30s or 500ms");
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut seconds = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c| !is_number(c)).ok_or_else(unfit)?;
        let (number, after) = rest.split_at(digits);
        let (unit, after) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        let unit = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(unfit()),
        };
        seconds += number.parse::<f64>().map_err(|_| unfit())? * unit;
        rest = after;
    }
    let span = Duration::try_from_secs_f64(seconds).map_err(|_| unfit())?;
    match span.as_millis() {
        0 => Err(unfit()),
        _ => Ok(Duration::from_micros(span.as_micros() as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_flags_as_go_does() {
        let arguments = ["-a=1", "--b", "2", "--a", "3", "x", "--", "---c=4", "-"];
        let arguments = arguments.map(str::to_owned);
        assert_eq!(flags(&arguments, "a"), ["1", "3"]);
        assert_eq!(flag(&arguments, "a"), Some("3"));
        assert_eq!(flag(&arguments, "b"), Some("2"));
        assert_eq!(flag(&arguments, "c"), None);
        assert_eq!(split("--x="), Some(("x", Some(""))));
        assert_eq!(split("-"), None);
    }

    #[test]
    fn reads_durations_as_go_writes_them() {
        for (text, millis) in [
            ("1s", 1000),
            ("1m30s", 90_000),
            ("1.5s", 1500),
            ("250ms", 250),
            ("1h", 3_600_000),
            ("2000us", 2),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "1", "s", "-1s", "1 s", "1d", "0s", "1..5s", "1ns"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
