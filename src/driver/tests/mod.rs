//! The machine, tested as a table, and searched through with a model of the world around it.

mod model;
mod scenario;
mod table;
