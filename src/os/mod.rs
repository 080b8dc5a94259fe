//! The operating system and what every room above it needs: no domain in here.

pub(crate) mod async_fd;
pub(crate) mod backoff;
pub(crate) mod boot;
pub(crate) mod clock;
pub(crate) mod columns;
#[cfg(test)]
pub(crate) mod fuzz;
pub(crate) mod go_flags;
pub(crate) mod memory;
pub(crate) mod peer;
pub(crate) mod process;
pub(crate) mod rlimit;
pub(crate) mod task;
pub(crate) mod text;
