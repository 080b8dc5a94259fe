//! Registers CSI drivers that live on the host with the kubelet, and keeps them registered.
//!
//! The modules, in the order in which data flows:
//!
//! | module | what it is |
//! |---|---|
//! | [`config`] | what the operator wants: files, environment, flags, and where each value came from |
//! | `watch` | "look again": one inotify instance over paths that may not exist yet |
//! | [`csi`] | the driver's side: who it is, and whether it is still there |
//! | `registration` | the kubelet's side: the service on reg.sock |
//! | `kubelet` | the kubelet as a process: which one spoke, whether it still runs |
//! | `kubelet_root` | where it lives, for `root_dir = "auto"` |
//! | `link` | what stands on disk: the socket's and the link's place, and who is there |
//! | `driver` | the life of one driver: a pure state machine |
//! | `supervisor` | runs every driver: feeds events in, carries effects out |
//! | `state` | what must survive us: state.json |
//! | `status` | what is so, for those who ask |
//! | `systemd`, `control`, `http`, `doctor`, `cli` | its readers |
//!
//! Underneath: `grpc` (a connection as a value), `socket`, `swap` (takes the place of one file and of
//! no other), `identity`, `moment`, `boot`, `backoff`, `printable`, `metrics`, `task`, `log`, `journal`,
//! `command_line` (flags as Go takes them), `columns` (the room that a text takes on a terminal),
//! `directory` (one of our own making), `reach` (looks where a file system may hang), `descriptors`
//! (room for open files), `polled` (one that is waited for), `memory` (gives back what is free).

mod backoff;
mod boot;
pub mod cli;
mod columns;
mod command_line;
pub mod config;
mod control;
pub mod csi;
mod descriptors;
mod directory;
mod doctor;
mod driver;
#[cfg(test)]
mod fuzz;
mod grpc;
mod http;
mod identity;
mod journal;
mod kubelet;
mod kubelet_root;
mod link;
mod log;
mod memory;
mod metrics;
mod moment;
pub mod name;
mod polled;
mod printable;
mod proto;
mod reach;
mod registration;
mod runtime;
mod socket;
mod state;
mod status;
mod supervisor;
mod swap;
mod systemd;
mod task;
mod watch;
