//! How a terminal shows things: tables, colours, folded lines, frames drawn over each other.

pub(crate) mod paint;
mod screen;
mod table;
mod wrap;

pub(in crate::cli) use self::screen::Screen;
pub(crate) use self::table::table;
pub(crate) use self::wrap::wrap;
