//! Standard output: a text once, or frames that a terminal draws over each other.

use std::io::{self, IsTerminal, Write};
use std::mem;

use serde::Serialize;
use terminal_size::{Height, Width, terminal_size_of};

use super::paint::Paint;
use crate::cli::exit::Exit;
use crate::os::columns::rows;
use crate::os::text::printable_json;

/// The columns of a terminal that does not tell its size.
const WIDTH: usize = 80;
/// Lines longer than this are hard to read, however wide the terminal is.
const WIDEST: usize = 120;

/// A place to draw frames.
pub(in crate::cli) struct Screen {
    pub(in crate::cli) is_terminal: bool,
    pub(in crate::cli) paint: Paint,
    /// Printed before the next frame: on a terminal the way back over the last frame, else an empty
    /// line.
    before: String,
}

impl Screen {
    pub(in crate::cli) fn stdout() -> Screen {
        let is_terminal = io::stdout().is_terminal();
        Screen {
            is_terminal,
            paint: Paint::on(is_terminal),
            before: String::new(),
        }
    }

    /// How many columns a line may have. Only a terminal sets a limit: a program that reads lines
    /// wants whole lines.
    pub(in crate::cli) fn width(&self) -> Option<usize> {
        let width = || size().map_or(WIDTH, |(columns, _)| columns.min(WIDEST));
        self.is_terminal.then(width)
    }

    /// Shows a frame: on a terminal in the place of the last frame, else below it. False when no
    /// process reads it any more.
    pub(in crate::cli) fn show(&mut self, frame: &str) -> Result<bool, Exit> {
        if !self.is_terminal {
            let before = mem::replace(&mut self.before, "\n".to_owned());
            return put(&format!("{before}{frame}\n"));
        }
        let (width, height) = size().unwrap_or((WIDTH, usize::MAX));
        // One write, each line cleared after its end and not before it: nothing flickers.
        let mut out = mem::take(&mut self.before);
        let mut drawn = 0;
        let mut lines = frame.lines().peekable();
        while let Some(line) = lines.next() {
            let (taken, last) = rows(line, width);
            let more = usize::from(lines.peek().is_some());
            // The cursor cannot go up to lines that have left the screen.
            if drawn + taken + more >= height {
                out += "…\x1b[K\n";
                drawn += 1;
                break;
            }
            out += line;
            // In a full row the cursor is on the last character, which must not be cleared.
            if last < width {
                out += "\x1b[K";
            }
            out += "\n";
            drawn += taken;
        }
        self.before = format!("\x1b[{drawn}A\r");
        put(&(out + "\x1b[J"))
    }

    /// The terminal has another size and has broken the lines differently, so that the place of the
    /// last frame is not known: the next frame begins on an empty screen.
    pub(in crate::cli) fn was_resized(&mut self) {
        "\x1b[H\x1b[2J".clone_into(&mut self.before);
    }
}

/// Prints a text once, with one line feed at its end.
pub(in crate::cli) fn print(text: &str) -> Result<(), Exit> {
    put(&format!("{}\n", text.trim_end())).map(drop)
}

/// Prints a report as text or as JSON, with the characters escaped that a terminal would not show.
pub(in crate::cli) fn report(
    report: &impl Serialize,
    json: bool,
    text: impl FnOnce(&Screen) -> String,
    yes: bool,
) -> Result<(), Exit> {
    if !json {
        return answer(&text(&Screen::stdout()), yes);
    }
    let json = serde_json::to_string_pretty(report).map_err(Exit::failed)?;
    answer(&printable_json(json), yes)
}

/// Prints the answer of a command; an answer that is no becomes exit code 1.
fn answer(text: &str, yes: bool) -> Result<(), Exit> {
    print(text)?;
    if yes { Ok(()) } else { Err(Exit::No) }
}

/// Writes to standard output. False when the reader has closed it, as `head` does: that is no failure.
pub(in crate::cli) fn put(text: &str) -> Result<bool, Exit> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Exit::failed(error)),
    }
}

/// The columns and rows of the terminal, where it tells them.
fn size() -> Option<(usize, usize)> {
    let (Width(columns), Height(rows)) = terminal_size_of(io::stdout())?;
    let (columns, rows) = (usize::from(columns), usize::from(rows));
    (columns > 0 && rows > 1).then_some((columns, rows))
}
