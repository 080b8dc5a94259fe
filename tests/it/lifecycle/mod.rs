//! The daemon's own life: start, reload, stop, kills, and what it tells systemd.

mod boot;
mod environment;
mod kills;
mod moved;
pub(crate) mod notify;
mod reload;
pub(crate) mod runtime_dir;
mod state_file;
mod stop;
