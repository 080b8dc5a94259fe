//! One driver of the node, with what it is called at the moment and whether it is well.

use std::fs;
use std::path::PathBuf;

use bed::{Behaviour, FakeDriver, Node};

/// A driver and what the kubelet should know of it.
pub(crate) struct Party {
    pub(crate) id: String,
    renamed: bool,
    node_id: u32,
    well: bool,
    socket: PathBuf,
    driver: FakeDriver,
}

impl Party {
    pub(crate) fn start(node: &Node, number: usize) -> Party {
        let id = format!("chaos-{number}.test");
        let socket = node.csi_socket(&id);
        let driver = FakeDriver::start_in_new_directory(&socket, Behaviour::named(&id));
        Party {
            id,
            renamed: false,
            node_id: 1,
            well: true,
            socket,
            driver,
        }
    }

    /// What it calls itself.
    pub(crate) fn name(&self) -> String {
        self.names()[usize::from(self.renamed)].clone()
    }

    /// All that it ever calls itself.
    pub(crate) fn names(&self) -> [String; 2] {
        [self.id.clone(), format!("renamed.{}", self.id)]
    }

    pub(crate) fn node_id(&self) -> String {
        format!("node-{}", self.node_id)
    }

    pub(crate) fn socket(&self) -> &PathBuf {
        &self.socket
    }

    /// Connections to it so far.
    pub(crate) fn met(&self) -> usize {
        self.driver.met()
    }

    pub(crate) fn rename(&mut self) {
        self.renamed = !self.renamed;
        self.restart();
    }

    pub(crate) fn move_to_another_node_id(&mut self) {
        self.node_id += 1;
        self.restart();
    }

    /// Comes up well, whatever it was before.
    pub(crate) fn restart(&mut self) {
        let behaviour = self.healthy();
        self.come_up(behaviour);
        self.well = true;
    }

    /// Comes up in this way until the calm.
    pub(crate) fn restart_unwell(&mut self, change: impl FnOnce(&mut Behaviour)) {
        let mut behaviour = self.healthy();
        change(&mut behaviour);
        self.come_up(behaviour);
        self.well = false;
    }

    /// Goes on in this way until the calm, on the connections that it has.
    pub(crate) fn fall_ill(&mut self, change: impl FnOnce(&mut Behaviour)) {
        let mut behaviour = self.healthy();
        change(&mut behaviour);
        self.driver.change(behaviour);
        self.well = false;
    }

    pub(crate) fn kill(&mut self) {
        self.driver.kill();
        self.well = false;
    }

    pub(crate) fn stop(&mut self) {
        self.driver.stop();
        self.well = false;
    }

    /// Something happened to its files.
    pub(crate) fn is_harmed(&mut self) {
        self.well = false;
    }

    /// Is well again, if it was not.
    pub(crate) fn recover(&mut self) -> Option<()> {
        (!self.well).then(|| self.restart())
    }

    fn healthy(&self) -> Behaviour {
        Behaviour {
            node_id: self.node_id(),
            ..Behaviour::named(self.name())
        }
    }

    fn come_up(&mut self, behaviour: Behaviour) {
        fs::create_dir_all(self.socket.parent().unwrap()).unwrap();
        self.driver.restart(behaviour);
    }
}
