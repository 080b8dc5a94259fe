//! The machine, tested as a table and in single cases, and searched through with a model of the world around it.

mod cases;
mod changes;
mod handover;
mod model;
pub(super) mod scenario;
mod table;
