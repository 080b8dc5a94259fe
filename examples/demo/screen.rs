//! What the demo prints: 80 columns, times on the right, colours on a terminal only.

use std::cell::Cell;
use std::env;
use std::io::{IsTerminal, stdout};
use std::path::Path;
use std::time::Duration;

const WIDTH: usize = 80;
const INDENT: usize = 6;
/// Where the text of a line with a time ends.
const TEXT_END: usize = 70;

/// The terminal or file that the demo prints to.
pub(crate) struct Screen {
    colours: bool,
    /// Left out of every path.
    root: String,
    step: Cell<u32>,
}

impl Screen {
    pub(crate) fn new(root: &Path) -> Screen {
        Screen {
            colours: stdout().is_terminal() && env::var_os("NO_COLOR").is_none(),
            root: format!("{}/", root.display()),
            step: Cell::new(0),
        }
    }

    /// A paragraph at the left edge.
    pub(crate) fn paragraph(&self, text: &str) {
        for line in wrapped(&self.relative(text), WIDTH) {
            println!("{line}");
        }
        println!();
    }

    /// A path of the list at the start, with its name.
    pub(crate) fn place(&self, what: &str, path: &Path) {
        println!(
            "  {what:<19}  {}",
            self.relative(&path.display().to_string())
        );
    }

    /// The heading of the next step.
    pub(crate) fn step(&self, text: &str) {
        self.step.set(self.step.get() + 1);
        let number = self.step.get();
        if number > 1 {
            println!();
        }
        println!("{}", self.painted("1", &format!("{number}. {text}")));
    }

    /// A step has succeeded, with its duration.
    pub(crate) fn came_true(&self, text: &str, taken: Duration) {
        self.fact(text, Some(taken));
    }

    /// A condition holds.
    pub(crate) fn is_so(&self, text: &str) {
        self.fact(text, None);
    }

    /// A remark on the line above, or the output of a program.
    pub(crate) fn aside(&self, text: &str) {
        for line in wrapped(&self.relative(text), WIDTH - INDENT) {
            println!("{:INDENT$}{}", "", self.painted("2", &line));
        }
    }

    /// The demo fails here.
    pub(crate) fn failed(&self, why: &str) {
        let why = self.relative(why);
        let (said, log) = why.split_once("\n\n").unwrap_or((&why, ""));
        println!("\n{}", self.painted("1;31", "FAILED"));
        for line in wrapped(said, WIDTH) {
            println!("{line}");
        }
        // Lines of a log are left as they are.
        if !log.is_empty() {
            println!("\n{log}");
        }
    }

    fn fact(&self, text: &str, taken: Option<Duration>) {
        let mark = self.painted("32", "ok");
        let lines = wrapped(&self.relative(text), TEXT_END - INDENT);
        let last = lines.len().saturating_sub(1);
        for (number, line) in lines.iter().enumerate() {
            let mark = if number == 0 { mark.as_str() } else { "  " };
            let width = TEXT_END - INDENT;
            match taken.filter(|_| number == last) {
                Some(taken) => println!("  {mark}  {line:<width$}{:>9}", shown(taken)),
                None => println!("  {mark}  {line}"),
            }
        }
    }

    fn relative(&self, text: &str) -> String {
        text.replace(&self.root, "")
    }

    fn painted(&self, colour: &str, text: &str) -> String {
        if self.colours {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

fn shown(taken: Duration) -> String {
    let seconds = taken.as_secs_f64();
    if seconds < 0.1 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{seconds:.2} s")
    }
}

/// Breaks a text between words. A word that is longer than a line gets its own line.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
