//! Registers CSI drivers that live on the host with the kubelet, and keeps them registered.
//!
//! The rooms, in the order of their dependencies: each uses only those above it.
//!
//! | room | what it is |
//! |---|---|
//! | `os` | the operating system, and small means without a domain |
//! | `grpc` | gRPC over a Unix socket, with a connection as a value |
//! | `disk` | files: the registration socket, the link, and what watches and replaces them |
//! | [`config`] | what the operator wants: files, environment, flags, and where each value came from |
//! | `kubelet` | where the kubelet lives, which ones run, the service that they call, and their volumes |
//! | `driver` | the life of one driver: a pure state machine |
//! | `csi` | the driver's side: who it is, and whether it still answers |
//! | `api` | what others read and ask of the daemon: control socket, HTTP, metrics |
//! | `systemd` | readiness, jobs, sandbox and journal |
//! | `supervisor` | runs every driver: feeds events in, carries actions out |
//! | `cluster` | what the API server knows of the registered drivers |
//! | `doctor` | finds what keeps a driver from being registered |
//! | [`cli`] | the command line |

mod os;

mod grpc;

mod disk;

pub mod config;

mod kubelet;

mod driver;

mod csi;

mod api;

mod systemd;

mod supervisor;

mod cluster;

mod doctor;

pub mod cli;
