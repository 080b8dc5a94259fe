//! The operating system, and small parts that every other room uses. Nothing here knows of drivers or kubelets.

pub(crate) mod async_fd;
pub(crate) mod backoff;
pub(crate) mod boot;
pub(crate) mod clock;
pub(crate) mod columns;
pub(crate) mod go_flags;
pub(crate) mod memory;
pub(crate) mod peer;
pub(crate) mod process;
pub(crate) mod rlimit;
pub(crate) mod task;
pub(crate) mod text;

#[cfg(test)]
pub(crate) mod fuzz;
