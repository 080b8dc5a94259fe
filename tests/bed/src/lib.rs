//! The test bed: the two parties around the registrar, and what runs the registrar between them.
//!
//! Every fake runs on a thread of its own and speaks the real wire on real Unix sockets; its
//! handle is synchronous, so plain tests and async code use it alike, and dropping it ends it.
//!
//! - [`Setup`]: sets up a [`Scene`], a node with the registrar on it
//! - [`Node`]: a temporary directory laid out as a node
//! - [`FakeDriver`]: a CSI driver that can be late, slow, wrong or gone
//! - [`kubelet`]: a kubelet of a chosen release, in this process or in one of its own
//! - [`NotifySocket`]: systemd's end of `NOTIFY_SOCKET`
//! - [`Process`]: a child process that ends with its owner
//! - [`Registrar`]: the real binary, run as a process
//! - [`Stranger`]: somebody on a socket who does not speak gRPC
//! - [`Storm`]: changes without end in a node's directories
//! - [`Sidecar`]: a stand-in for node-driver-registrar
//! - [`SidecarProcess`]: node-driver-registrar itself, or what takes its flags, as a process
//! - [`View`]: a mount namespace, as a container has it
//! - [`HangingMount`]: a file system whose server hangs
//! - [`Mounts`]: mounts that only this thread and its children see
//! - [`flood()`]: many connections that a client holds and does not use
//! - [`Footprint`]: what a process costs
//! - [`Dice`]: numbers that the same seed gives again
//! - [`Sentinels`]: foreign files that nobody may touch
//! - [`script`]: a program written or copied by the test
//! - [`skipped`]: for what a machine cannot do
//! - [`wire`]: a kubelet's calls, one at a time and by hand; [`Crowd`] makes many
//! - [`raw`]: such a call, byte by byte
//! - [`mod@eventually`]: waiting on a condition instead of sleeping

mod channel;
pub mod crowd;
mod dead_socket;
pub mod dice;
pub mod driver;
pub mod eventually;
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
pub mod stranger;
pub mod view;
pub mod wire;
mod worker;

pub use crowd::{Crowd, Turn};
pub use dead_socket::{dead_socket, try_dead_socket};
pub use dice::Dice;
pub use driver::{Behaviour, FakeDriver};
pub use eventually::{eventually, eventually_every, never, stays};
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
pub use registrar::Registrar;
pub use scene::{KubeletScene, Scene};
pub use sentinels::Sentinels;
pub use setup::Setup;
pub use sidecar::Sidecar;
pub use sidecar_process::SidecarProcess;
pub use skipping::{has_program, is_root, skipped};
pub use status::{DriverStatus, Status};
pub use storm::{Storm, Weather};
pub use stranger::Stranger;
pub use view::View;
