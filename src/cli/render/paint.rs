//! Colours, where there is a terminal that wants them.

use std::io::IsTerminal;

use crate::driver::phase::Phase;

/// Whether output has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Coloured,
}

/// What a piece of output means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Title,
    Good,
    Pending,
    Bad,
    Quiet,
}

impl Paint {
    /// Colours only on a terminal, and never against the wish of <https://no-color.org>.
    pub(crate) fn for_stdout() -> Paint {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        if std::io::stdout().is_terminal() && !unwanted {
            Paint::Coloured
        } else {
            Paint::Plain
        }
    }

    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let code = match (self, tone) {
            (Paint::Plain, _) => return text.to_owned(),
            (Paint::Coloured, Tone::Title) => "1",
            (Paint::Coloured, Tone::Good) => "32",
            (Paint::Coloured, Tone::Pending) => "33",
            (Paint::Coloured, Tone::Bad) => "31",
            (Paint::Coloured, Tone::Quiet) => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// The line as it reads: without the sequences that [`Paint::paint`] has put around its parts. No
/// other escape character is in it, because what others say is made printable.
pub(crate) fn unpainted(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let mut bare = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        bare += part.split_once('m').map_or(part, |(_, text)| text);
    }
    bare
}

impl Tone {
    /// The tone of a phase, by its name on the wire.
    pub(crate) fn of_phase(phase: &str) -> Tone {
        match phase {
            phase if phase == Phase::Registered.as_str() => Tone::Good,
            phase if phase == Phase::Withdrawn.as_str() => Tone::Quiet,
            phase if phase == Phase::Rejected.as_str() || phase == Phase::Conflict.as_str() => {
                Tone::Bad
            }
            _ => Tone::Pending,
        }
    }
}
