//! Colours, on a terminal that accepts them.

use anstyle::{AnsiColor, Style};

use crate::driver::phase::Phase;

pub(crate) const TITLE: Style = Style::new().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const PENDING: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const QUIET: Style = Style::new().dimmed();

/// Whether output has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Coloured,
}

impl Paint {
    /// Colours only on a terminal, and not where <https://no-color.org> turns them off.
    pub(crate) fn on(is_terminal: bool) -> Paint {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        match is_terminal && !unwanted {
            true => Paint::Coloured,
            false => Paint::Plain,
        }
    }

    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        match self {
            Paint::Plain => text.to_owned(),
            Paint::Coloured => format!("{style}{text}{style:#}"),
        }
    }

    /// The first word of a finding: a fault keeps a driver from being registered, a warning does not.
    pub(crate) fn severity(self, fault: bool) -> String {
        if fault {
            self.paint(BAD, "fault")
        } else {
            self.paint(PENDING, "warning")
        }
    }
}

/// The style of a phase, by its name on the wire.
pub(crate) fn style_of(phase: &str) -> Style {
    match Phase::ALL.into_iter().find(|known| known.as_str() == phase) {
        Some(Phase::Registered) => GOOD,
        Some(Phase::Withdrawn) => QUIET,
        Some(Phase::Rejected | Phase::Conflict) => BAD,
        Some(Phase::WaitingForDriver | Phase::WaitingForKubelet) | None => PENDING,
    }
}
