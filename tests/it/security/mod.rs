//! Drivers, callers, users and files that mean harm.

mod connection_floods;
mod endless_answers;
mod file_modes;
mod hanging_mounts;
mod hostile_drivers;
mod hostile_text;
mod inotify_storm;
mod notify_socket;
mod other_users;
mod planted_links;
mod silent_callers;
pub(crate) mod victim;
mod volumes;
mod writable_directories;
