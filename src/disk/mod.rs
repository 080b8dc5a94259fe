//! The files of a registration: the socket that we serve and the link that the kubelet finds; how to watch
//! them, and how to replace exactly the file that was seen.

pub(crate) mod boot_file;
pub(crate) mod directory;
pub(crate) mod drop_in;
pub(crate) mod identity;
pub(crate) mod layout;
pub(crate) mod link;
pub(crate) mod lock_file;
pub(crate) mod mount_table;
pub(crate) mod name;
pub(crate) mod nesting;
pub(crate) mod obstacle;
mod occupant;
pub(crate) mod propagation;
pub(crate) mod reach;
pub(crate) mod reg_socket;
pub(crate) mod regular_file;
pub(crate) mod removals;
pub(crate) mod replace;
pub(crate) mod runtime_dir;
pub(crate) mod socket;
pub(crate) mod sweep;
pub(crate) mod watch;
