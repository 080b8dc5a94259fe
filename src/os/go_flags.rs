//! Flags as Go's programs take them: one dash or two, the value behind `=` or in the next argument.

/// The value of a flag, the last one where it is given more than once.
pub(crate) fn flag<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    flags(arguments, name).into_iter().next_back()
}

/// Every value of a flag that may be given more than once.
pub(crate) fn flags<'a>(arguments: &'a [String], name: &str) -> Vec<&'a str> {
    let mut values = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let Some((given, value)) = split(argument) else {
            continue;
        };
        if given == name {
            match value {
                Some(value) => values.push(value),
                None => values.extend(arguments.next().map(String::as_str)),
            }
        }
    }
    values
}

/// The name of a flag, and its value where that stands behind `=`. None for what is no flag.
pub(crate) fn split(argument: &str) -> Option<(&str, Option<&str>)> {
    let flag = argument
        .strip_prefix("--")
        .or_else(|| argument.strip_prefix('-'))?;
    if flag.is_empty() || flag.starts_with(['-', '=']) {
        return None;
    }
    Some(match flag.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (flag, None),
    })
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
}
