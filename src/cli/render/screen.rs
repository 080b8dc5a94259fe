//! Where frames go: drawn over each other on a terminal, one after the other elsewhere.

use std::io::{self, IsTerminal, Write};

use rustix::termios::tcgetwinsize;

use crate::api::status::WIDTH;
use crate::cli::render::paint::{Paint, unpainted};
use crate::os::columns::Fold;

/// Lines longer than this are hard to read, however wide the terminal is.
const WIDEST: usize = 120;

/// Standard output.
pub(in crate::cli) struct Screen {
    terminal: bool,
    paint: Paint,
    /// Rows of the terminal that the frame on it takes.
    drawn: usize,
    /// A frame was printed, so that the next one is set apart from it.
    printed: bool,
}

impl Screen {
    pub(in crate::cli) fn stdout() -> Screen {
        Screen {
            terminal: io::stdout().is_terminal(),
            paint: Paint::for_stdout(),
            drawn: 0,
            printed: false,
        }
    }

    pub(in crate::cli) fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub(in crate::cli) fn paint(&self) -> Paint {
        self.paint
    }

    /// How many columns a line may have; no terminal sets no limit, because a program that reads
    /// lines wants whole ones.
    pub(in crate::cli) fn width(&self) -> Option<usize> {
        let width = || {
            self.size()
                .map_or(WIDTH, |(columns, _)| columns.min(WIDEST))
        };
        self.terminal.then(width)
    }

    fn size(&self) -> Option<(usize, usize)> {
        let size = self.terminal.then(|| tcgetwinsize(io::stdout()).ok())??;
        let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
        (columns > 0 && rows > 1).then_some((columns, rows))
    }

    /// Prints a text once.
    pub(in crate::cli) fn print(&mut self, text: &str) -> io::Result<()> {
        put(&format!("{text}\n"))
    }

    /// Shows a frame: on a terminal in the place of the last one, else below it.
    pub(in crate::cli) fn show(&mut self, frame: &str) -> io::Result<()> {
        if !self.terminal {
            let gap = if std::mem::replace(&mut self.printed, true) {
                "\n"
            } else {
                ""
            };
            return put(&format!("{gap}{frame}\n"));
        }
        let (width, height) = self.size().unwrap_or((WIDTH, usize::MAX));
        // One write, each line cleared behind its end and not before: nothing flickers.
        let mut out = self.back();
        let mut drawn = 0;
        let mut lines = frame.lines().peekable();
        while let Some(line) = lines.next() {
            let fold = Fold::of(&unpainted(line), width);
            let more = usize::from(lines.peek().is_some());
            // The cursor cannot go up to lines that have left the screen.
            if drawn + fold.rows + more >= height {
                out += "…\x1b[K\n";
                drawn += 1;
                break;
            }
            out += line;
            // In a row that is full the cursor stands on the last character.
            if fold.last < width {
                out += "\x1b[K";
            }
            out += "\n";
            drawn += fold.rows;
        }
        out += "\x1b[J";
        self.drawn = drawn;
        put(&out)
    }

    /// The terminal has another size, and has broken the lines anew: nobody knows where they are.
    pub(in crate::cli) fn was_resized(&mut self) -> io::Result<()> {
        self.drawn = 0;
        put("\x1b[H\x1b[2J")
    }

    fn back(&self) -> String {
        match self.drawn {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\r"),
        }
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
