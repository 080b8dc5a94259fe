//! The program that is measured: our own binary, or a peer.

use std::path::{Path, PathBuf};

use bed::{Footprint, Layout, Node, Registrar, SidecarProcess};

/// A program that registers drivers.
pub(crate) enum Contender {
    /// One process for all drivers of the node.
    Ours(PathBuf),
    /// node-driver-registrar, or a program with its flags: one process for each driver.
    Peer(PathBuf),
}

impl Contender {
    pub(crate) fn program(&self) -> &Path {
        match self {
            Contender::Ours(program) | Contender::Peer(program) => program,
        }
    }

    pub(crate) fn is_peer(&self) -> bool {
        matches!(self, Contender::Peer(_))
    }

    /// Where it keeps its sockets.
    pub(crate) fn layout(&self) -> Layout {
        match self {
            Contender::Ours(_) => Layout::TwoDirectories,
            Contender::Peer(_) => Layout::OneDirectory,
        }
    }

    /// The processes that serve these drivers of the node; not started yet.
    pub(crate) fn crew(&self, node: &Node, names: &[String]) -> Crew {
        let members = match self {
            Contender::Ours(program) => vec![Member::Ours(Registrar::exactly(program, node))],
            Contender::Peer(program) => {
                let peer = |name: &String| {
                    let runtime_dir = node.runtime_dir().join(name);
                    let registry_dir = node.plugins_registry();
                    SidecarProcess::new(
                        program,
                        &node.csi_socket(name),
                        &registry_dir,
                        &runtime_dir,
                    )
                };
                names.iter().map(peer).map(Member::Peer).collect()
            }
        };
        Crew { members }
    }
}

/// The processes of one contender on one node. Dropping it kills them.
pub(crate) struct Crew {
    members: Vec<Member>,
}

enum Member {
    Ours(Registrar),
    Peer(SidecarProcess),
}

impl Crew {
    pub(crate) fn start(&mut self) {
        for member in &mut self.members {
            match member {
                Member::Ours(registrar) => registrar.start(),
                Member::Peer(peer) => peer.start(),
            }
        }
    }

    /// An orderly end, as by `systemctl stop`.
    pub(crate) fn stop(&mut self) {
        for member in &mut self.members {
            match member {
                Member::Ours(registrar) => {
                    registrar.stop();
                }
                Member::Peer(peer) => peer.stop(),
            }
        }
    }

    /// Asks for the status as an operator does; a peer has none.
    pub(crate) fn asks_status(&self) -> bool {
        let mut members = self.members.iter();
        members.all(|member| match member {
            Member::Ours(registrar) => registrar.status().is_some(),
            Member::Peer(_) => false,
        })
    }

    /// Whether it shows that it runs while it has no driver to serve. A peer's processes do not.
    pub(crate) fn is_up(&self) -> bool {
        let is_peer = |member: &Member| matches!(member, Member::Peer(_));
        self.members.iter().all(is_peer) || self.asks_status()
    }

    /// The sum over all its processes.
    pub(crate) fn sum(&self, cost: impl Fn(&Footprint) -> u64) -> u64 {
        let footprints = self.members.iter().map(|member| match member {
            Member::Ours(registrar) => registrar.footprint(),
            Member::Peer(peer) => peer.footprint(),
        });
        footprints.map(|footprint| cost(&footprint)).sum()
    }
}
