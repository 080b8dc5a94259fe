//! The command line of a shell, as far as it says which commands run.

/// The words that a shell has between two commands.
const SEPARATORS: [&str; 5] = ["&&", "||", ";", "&", "|"];
/// The names of a shell's own variables, such as its arguments.
const SPECIAL: [char; 7] = ['@', '*', '#', '?', '!', '$', '-'];

/// The commands of a command line, each in words.
pub(super) fn command_line(line: &str) -> Vec<Vec<String>> {
    of_shell(words(line))
}

/// The commands in the script of `sh -c '…'`, or the command itself.
pub(super) fn of_shell(words: Vec<String>) -> Vec<Vec<String>> {
    match script(&words) {
        Some(script) => of_script(script, |_| None),
        None => commands(&words),
    }
}

/// The script of `sh -c '…'`.
pub(super) fn script(words: &[String]) -> Option<&str> {
    let program = words.first()?.rsplit('/').next();
    if !matches!(program, Some("sh" | "bash" | "dash")) {
        return None;
    }
    let is_option = |word: &&String| word.starts_with('-') && word.ends_with('c');
    let mut words = words.iter().skip_while(|word| !is_option(word));
    words.nth(1).map(String::as_str)
}

/// The commands in a script, with the values of its variables. A variable without a value stays as it is.
pub(super) fn of_script(
    script: &str,
    value: impl FnMut(&str) -> Option<String>,
) -> Vec<Vec<String>> {
    commands(&split(script, true, value))
}

/// The variable that a script assigns with this word.
pub(super) fn assigned(word: &str) -> Option<&str> {
    let (name, _) = word.split_once('=')?;
    (identifier(name) == name && !name.is_empty()).then_some(name)
}

/// The text after a `$` that a shell replaces, and the name in it: a variable's, or that of an expression
/// such as `${A:-b}` and `$@`.
pub(super) fn reference(after: &str) -> Option<(&str, &str)> {
    if let Some(inside) = after.strip_prefix('{') {
        let (name, _) = inside.split_once('}')?;
        return Some((&after[..name.len() + 2], name));
    }
    let first = after.chars().next()?;
    let text = if first.is_ascii_digit() || SPECIAL.contains(&first) {
        &after[..1]
    } else {
        identifier(after)
    };
    (!text.is_empty()).then_some((text, text))
}

/// The name at the start of a text; empty if there is none.
pub(super) fn identifier(text: &str) -> &str {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let name = &text[..end];
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return "";
    }
    name
}

fn commands(words: &[String]) -> Vec<Vec<String>> {
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
    split(line, false, |_| None)
}

/// Splits at blanks outside quotes. In a script a line is a command, unless it ends in a `\`.
fn split(
    line: &str,
    is_script: bool,
    mut value: impl FnMut(&str) -> Option<String>,
) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '\\') if is_script && chars.as_str().starts_with('\n') => {
                chars.next();
            }
            (_, '\\') => word.get_or_insert_default().extend(chars.next()),
            (_, '$') => {
                let word = word.get_or_insert_default();
                let reference = reference(chars.as_str());
                match reference.and_then(|(text, name)| Some((text, value(name)?))) {
                    Some((text, value)) => {
                        *word += &value;
                        chars = chars.as_str()[text.len()..].chars();
                    }
                    None => word.push('$'),
                }
            }
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '\n') if is_script => {
                words.extend(word.take());
                words.push(";".to_owned());
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
