//! The machine as a table: each phase, each event, what becomes of it.
