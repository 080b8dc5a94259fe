//! How a terminal shows things: tables, colours, wrapped lines, frames drawn over each other.

pub(in crate::cli) mod paint;
mod screen;
mod table;
mod wrap;

pub(in crate::cli) use self::screen::{Screen, print, put, report};
pub(in crate::cli) use self::table::table;
pub(in crate::cli) use self::wrap::{keyed, wrap};
