//! The test bed: fake drivers, fake kubelets, and the real registrar between them.
//!
//! Every fake runs on its own thread and speaks the real protocols on real Unix sockets. Its handle is
//! synchronous, for plain tests and async code alike, and dropping the handle ends the fake.
//!
//! - [`Setup`]: sets up a [`Scene`], a node with the registrar on it
//! - [`Node`]: a temporary directory laid out as a node
//! - [`FakeDriver`]: a CSI driver that can be late, slow, wrong or gone
//! - [`kubelet`]: a kubelet of a chosen release, in this process or in its own
//! - [`ApiServer`]: an API server with the objects of one node, and with faults
//! - [`NotifySocket`]: systemd's end of `NOTIFY_SOCKET`
//! - [`Process`]: a child process that ends with its owner
//! - [`Registrar`]: the real binary, run as a process
//! - [`RawListener`]: a listener that does not speak gRPC
//! - [`Storm`]: endless changes in a node's directories
//! - [`Sidecar`]: a stand-in for node-driver-registrar
//! - [`SidecarProcess`]: node-driver-registrar itself, or a program with its flags, as a process
//! - [`Container`]: a container: its own mount namespace and root
//! - [`HangingMount`]: a file system whose server hangs
//! - [`Mounts`]: mounts that only this thread and its children see
//! - [`flood()`]: many connections that a client holds and does not use
//! - [`Footprint`]: memory, files, threads and wake-ups of a process
//! - [`Dice`]: random numbers that a seed repeats
//! - [`KubeletVolumes`]: a kubelet's files about the volumes that it has set up
//! - [`Sentinels`]: foreign files that the registrar must not touch
//! - [`script`]: a program that the test writes or copies
//! - [`skipped`]: for a test that cannot run on this machine
//! - [`control`]: single calls of the program verify
//! - [`exchange`]: such a call as bytes, and a [`ByteServer`] that answers it
//! - [`wire`]: single calls of a kubelet; [`Callers`] makes many
//! - [`raw`]: such a call, written byte by byte
//! - [`mod@eventually`]: waits for a condition instead of sleeping

pub mod api_server;
pub mod callers;
mod channel;
pub mod container;
pub mod control;
mod dead_socket;
pub mod dice;
pub mod driver;
pub mod eventually;
pub mod exchange;
pub mod flood;
pub mod footprint;
pub mod hanging;
mod identity;
pub mod kubelet;
pub mod mounts;
pub mod node;
pub mod notify_socket;
pub mod output;
mod port;
pub mod process;
pub mod proto;
pub mod raw;
pub mod raw_listener;
pub mod registrar;
pub mod scene;
pub mod script;
pub mod sentinels;
pub mod setup;
pub mod sidecar;
pub mod sidecar_process;
pub mod skipping;
pub mod status;
pub mod storm;
pub mod volumes;
pub mod wire;
mod worker;

pub use api_server::ApiServer;
pub use callers::{Callers, Turn};
pub use container::Container;
pub use control::{ClusterFinding, repair, report_cluster, report_cluster_late};
pub use dead_socket::{dead_socket, try_dead_socket};
pub use dice::Dice;
pub use driver::{Behaviour, FakeDriver};
pub use eventually::{eventually, eventually_every, never, stays};
pub use exchange::ByteServer;
pub use flood::flood;
pub use footprint::Footprint;
pub use hanging::{Hang, HangingMount};
pub use identity::identity;
pub use kubelet::{Faults, KubeletProcess, Release, Settings, TestKubelet, Timing};
pub use mounts::Mounts;
pub use node::{Layout, Node};
pub use notify_socket::NotifySocket;
pub use output::{stderr, stdout};
pub use port::free_port;
pub use process::Process;
pub use raw_listener::RawListener;
pub use registrar::Registrar;
pub use scene::{KubeletScene, Scene};
pub use sentinels::Sentinels;
pub use setup::Setup;
pub use sidecar::Sidecar;
pub use sidecar_process::SidecarProcess;
pub use skipping::{has_program, is_root, skipped};
pub use status::{DriverStatus, Status};
pub use storm::{Storm, Weather};
pub use volumes::{KubeletVolumes, VolumeDir};
