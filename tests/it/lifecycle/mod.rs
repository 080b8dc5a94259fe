//! The daemon's own life: start, reload, stop, kills, and its messages to systemd.

mod boot_id;
mod continuity;
mod environment;
mod id_changes;
mod in_use;
pub(crate) mod notify;
mod random_kills;
mod reload;
pub(crate) mod runtime_dir;
mod state_file;
mod stop;
