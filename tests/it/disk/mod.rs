//! Sockets and links on disk: foreign files in their way, repairs and removals.

mod filesystem_errors;
mod foreign_files;
mod layout_change;
mod leftovers;
pub(crate) mod ndr_process;
mod nested_registry;
mod obstacles;
mod races;
mod repair;
mod rivals;
mod unreadable_directories;
