//! A systemd unit, as far as it says which commands run: ExecStart, ExecStartPre and ExecStartPost.

use std::collections::BTreeMap;

use super::shell::{of_shell, words};

/// The commands of a unit's `[Service]`, in the order in which they run, each in words.
pub(crate) fn commands(text: &str) -> Vec<Vec<String>> {
    let assignments = service(text);
    let values = |key: &'static str| {
        let of_key = assignments.iter().filter(move |(name, _)| name == key);
        of_key.map(|(_, value)| value.as_str())
    };
    let variables: Vec<String> = values("Environment").flat_map(words).collect();
    let variables = variables.iter().filter_map(|pair| pair.split_once('='));
    let environment: BTreeMap<&str, &str> = variables.collect();
    let mut commands = Vec::new();
    for key in ["ExecStartPre", "ExecStart", "ExecStartPost"] {
        let lines: Vec<&str> = values(key).collect();
        // An empty value takes back the lines before it.
        let lines = lines.rsplit(|line| line.is_empty()).next();
        for line in lines.unwrap_or_default() {
            let line = line.trim_start_matches(['@', '-', ':', '+', '!', '|']);
            let words = words(line).into_iter();
            let words = words.map(|word| expand(&word, &environment));
            commands.extend(of_shell(words.collect()));
        }
    }
    commands
}

/// The assignments of `[Service]`, with continued lines joined.
fn service(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().map(str::trim);
    let joined: String = lines
        .filter(|line| !line.starts_with(['#', ';']))
        .map(|line| match line.strip_suffix('\\') {
            Some(part) => format!("{part} "),
            None => format!("{line}\n"),
        })
        .collect();
    let mut section = "";
    let mut assignments = Vec::new();
    for line in joined.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section == "[Service]"
            && let Some((key, value)) = line.split_once('=')
        {
            assignments.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    assignments
}

/// Replaces `$NAME`, `${NAME}` and a pod's `$(NAME)` by their values. An unknown name stays as it is,
/// so that the reader sees it.
fn expand(word: &str, environment: &BTreeMap<&str, &str>) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('$') {
        out += before;
        let closed = |close| after.find(close).map_or(0, |end| end + 1);
        let length = match after.chars().next() {
            Some('{') => closed('}'),
            Some('(') => closed(')'),
            _ => after
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(after.len()),
        };
        let (reference, behind) = after.split_at(length);
        match environment.get(reference.trim_matches(['{', '}', '(', ')'])) {
            Some(value) => out += value,
            None => out += &format!("${reference}"),
        }
        rest = behind;
    }
    (out + rest).replace("%%", "%")
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
    fn a_dollar_that_leads_nowhere_stays() {
        for text in ["$", "a$", "${", "$(X)", "$$", "${}"] {
            assert_eq!(expand(text, &BTreeMap::new()), text);
        }
    }
}
