//! A systemd unit, as far as it says which commands run: ExecStart, ExecStartPre and ExecStartPost.

use std::collections::BTreeMap;

/// The words that a shell has between two commands.
const SEPARATORS: [&str; 5] = ["&&", "||", ";", "&", "|"];

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

/// The commands of a command line, each in words.
pub(crate) fn command_line(line: &str) -> Vec<Vec<String>> {
    of_shell(words(line))
}

/// The commands in the script of `sh -c '…'`, or the command itself.
pub(super) fn of_shell(mut words: Vec<String>) -> Vec<Vec<String>> {
    let program = words.first().and_then(|program| program.rsplit('/').next());
    if matches!(program, Some("sh" | "bash" | "dash")) {
        let is_option = |word: &String| word.starts_with('-') && word.ends_with('c');
        let script = words.iter().skip_while(|word| !is_option(word)).nth(1);
        if let Some(script) = script {
            words = self::words(script);
        }
    }
    let tokens = words.iter().flat_map(|word| match word.strip_suffix(';') {
        Some(last) if !last.is_empty() => vec![last, ";"],
        _ => vec![word.as_str()],
    });
    let tokens: Vec<&str> = tokens.filter(|token| *token != "exec").collect();
    let commands = tokens.split(|token| SEPARATORS.contains(token));
    commands
        .filter(|command| !command.is_empty())
        .map(|command| command.iter().map(ToString::to_string).collect())
        .collect()
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
