//! The command line of a shell, as far as it says which commands run.

/// The words that a shell has between two commands.
const SEPARATORS: [&str; 5] = ["&&", "||", ";", "&", "|"];

/// The commands of a command line, each in words.
pub(super) fn command_line(line: &str) -> Vec<Vec<String>> {
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

/// Splits at blanks outside quotes.
pub(super) fn words(line: &str) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(commands: Vec<Vec<String>>) -> Vec<String> {
        commands.iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn takes_a_command_line_apart() {
        assert_eq!(
            joined(command_line("ndr --a='x y' \\\"b && ln -s c d")),
            ["ndr --a=x y \"b", "ln -s c d"]
        );
        assert!(command_line("").is_empty());
    }
}
