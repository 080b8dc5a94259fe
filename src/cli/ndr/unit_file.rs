//! A systemd unit, as far as it says which commands run: ExecStart and its neighbours.

use std::collections::BTreeMap;

/// The commands of a unit's `[Service]`, in the order in which they run, each in words.
pub(crate) fn commands(text: &str) -> Vec<Vec<String>> {
    let mut environment = BTreeMap::new();
    let mut lists: [Vec<String>; 3] = Default::default();
    for (key, value) in service(text) {
        let list = match key.as_str() {
            "ExecStartPre" => 0,
            "ExecStart" => 1,
            "ExecStartPost" => 2,
            "Environment" => {
                let pairs = words(&value);
                let pairs = pairs.iter().filter_map(|pair| pair.split_once('='));
                environment.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
                continue;
            }
            _ => continue,
        };
        // An empty line takes back what came before it.
        if value.is_empty() {
            lists[list].clear();
        } else {
            lists[list].push(value);
        }
    }
    let lines = lists.into_iter().flatten();
    lines
        .flat_map(|line| {
            let line = line.trim_start_matches(['@', '-', ':', '+', '!', '|']);
            let words = words(line);
            let words = words.iter().map(|word| expand(word, &environment));
            of_shell(words.collect())
        })
        .collect()
}

/// A command line in words, with what a shell in it would run taken apart.
pub(crate) fn command_line(line: &str) -> Vec<Vec<String>> {
    of_shell(words(line))
}

/// `sh -c '…'` stands for the commands in its script; any other for itself.
fn of_shell(words: Vec<String>) -> Vec<Vec<String>> {
    let shell = words
        .first()
        .and_then(|program| program.rsplit('/').next())
        .is_some_and(|name| matches!(name, "sh" | "bash" | "dash"));
    let script = words
        .iter()
        .position(|word| word.starts_with('-') && word.ends_with('c'))
        .and_then(|at| words.get(at + 1));
    let parts = match script {
        Some(script) if shell => self::words(script),
        _ => words,
    };
    let mut commands = vec![Vec::new()];
    for word in parts {
        let end = word.ends_with(';') && word.len() > 1;
        if matches!(word.as_str(), "&&" | "||" | ";" | "&" | "|") {
            commands.push(Vec::new());
        } else if let Some(last) = commands.last_mut()
            && word != "exec"
        {
            last.push(if end {
                word[..word.len() - 1].to_owned()
            } else {
                word
            });
            if end {
                commands.push(Vec::new());
            }
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// The assignments of `[Service]`, continued lines joined.
fn service(text: &str) -> Vec<(String, String)> {
    let mut assignments = Vec::new();
    let mut section = String::new();
    let mut joined = String::new();
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(part) = line.strip_suffix('\\') {
            joined += part;
            joined.push(' ');
            continue;
        }
        let whole = std::mem::take(&mut joined) + line;
        if whole.starts_with('[') {
            section = whole;
        } else if section == "[Service]"
            && let Some((key, value)) = whole.split_once('=')
        {
            assignments.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    assignments
}

/// Splits at blanks outside quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Puts values for `$NAME`, `${NAME}` and a pod's `$(NAME)`. An unknown one stays as it is, to be
/// seen.
fn expand(word: &str, environment: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('$') {
        out += &rest[..at];
        let after = &rest[at + 1..];
        let (name, length) = match after.chars().next() {
            Some('{') => enclosed(after, '}'),
            Some('(') => enclosed(after, ')'),
            _ => {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                let end = end.unwrap_or(after.len());
                (&after[..end], end)
            }
        };
        match environment.get(name) {
            Some(value) => out += value,
            None => out += &rest[at..=at + length],
        }
        rest = &after[length..];
    }
    (out + rest).replace("%%", "%")
}

fn enclosed(text: &str, close: char) -> (&str, usize) {
    match text.find(close) {
        Some(end) => (&text[1..end], end + 1),
        None => ("", 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(commands: Vec<Vec<String>>) -> Vec<String> {
        commands.iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn reads_the_commands_of_a_unit() {
        let unit = "\
            [Unit]\nExecStart=/no\n\
            [Service]\n# ExecStart=/no\n\
            Environment=A=/a \"B=b c\"\n\
            Environment=C=/c\n\
            ExecStart=/taken/back\nExecStart=\n\
            ExecStart=-/usr/bin/ndr --x=${A} \\\n  # in between\n  --y=$C/d \\\n  \"--z=$B\" $UNKNOWN 100%%\n\
            ExecStartPost=/bin/sh -c 'sleep 1; exec ln -sf /a \"/b c\" && true'\n\
            [Install]\nExecStart=/no\n";
        assert_eq!(
            joined(commands(unit)),
            [
                "/usr/bin/ndr --x=/a --y=/c/d --z=b c $UNKNOWN 100%",
                "sleep 1",
                "ln -sf /a /b c",
                "true"
            ]
        );
    }

    #[test]
    fn takes_a_command_line_apart() {
        assert_eq!(
            joined(command_line("ndr --a='x y' \\\"b && ln -s c d")),
            ["ndr --a=x y \"b", "ln -s c d"]
        );
        assert!(command_line("").is_empty());
    }

    #[test]
    fn a_dollar_that_leads_nowhere_stays() {
        for text in ["$", "a$", "${", "$(X)", "$$", "${}"] {
            assert_eq!(expand(text, &BTreeMap::new()), text);
        }
    }
}
