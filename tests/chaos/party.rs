//! One driver of the node, with its present name and whether it is healthy.

use std::fs;
use std::path::PathBuf;

use bed::{Behaviour, FakeDriver, Node};

use crate::disk::attempt;

/// A driver, and the data that the kubelet should have of it.
pub(crate) struct Party {
    /// The name of its directory.
    pub(crate) id: String,
    /// Its first name.
    name: String,
    renamed: bool,
    node_id: u32,
    /// The volume limit, which may change while the driver runs.
    limit: i64,
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
            name: id.clone(),
            id,
            renamed: false,
            node_id: 1,
            limit: 0,
            well: true,
            socket,
            driver,
        }
    }

    /// Its present name.
    pub(crate) fn name(&self) -> String {
        self.names()[usize::from(self.renamed)].clone()
    }

    /// Every name that it ever has.
    pub(crate) fn names(&self) -> [String; 2] {
        [self.name.clone(), format!("renamed.{}", self.name)]
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

    /// Stops, and starts in another directory. The old directory is removed.
    pub(crate) fn move_elsewhere(&mut self) -> bool {
        let old = self.socket.parent().unwrap();
        let moved = format!("moved.{}", self.name);
        let id = if self.id == moved {
            self.name.clone()
        } else {
            moved
        };
        let socket = old.with_file_name(&id).join("csi.sock");
        self.driver.kill();
        // A mount there keeps it.
        if attempt(fs::remove_dir_all(old)).is_none() {
            self.well = false;
            return false;
        }
        self.driver = FakeDriver::start_in_new_directory(&socket, self.healthy());
        (self.id, self.socket, self.well) = (id, socket, true);
        true
    }

    /// Changes the volume limit on open connections. In the calm the driver restarts with it.
    pub(crate) fn change_its_limit(&mut self) {
        self.limit += 1;
        self.fall_ill(|_| {});
    }

    /// Starts as a healthy driver.
    pub(crate) fn restart(&mut self) {
        let behaviour = self.healthy();
        self.come_up(behaviour);
        self.well = true;
    }

    /// Restarts with this behaviour until the calm.
    pub(crate) fn restart_unwell(&mut self, change: impl FnOnce(&mut Behaviour)) {
        let mut behaviour = self.healthy();
        change(&mut behaviour);
        self.come_up(behaviour);
        self.well = false;
    }

    /// Changes its behaviour on open connections until the calm.
    pub(crate) fn fall_ill(&mut self, change: impl FnOnce(&mut Behaviour)) {
        let mut behaviour = self.healthy();
        change(&mut behaviour);
        // To listen in another way it has to restart, and its directory may be gone.
        if self.driver.behaviour().listening == behaviour.listening {
            self.driver.change(behaviour);
        } else {
            self.come_up(behaviour);
        }
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

    /// A fault changed its files.
    pub(crate) fn is_harmed(&mut self) {
        self.well = false;
    }

    /// Makes it healthy again, if it was not.
    pub(crate) fn recover(&mut self) -> Option<()> {
        (!self.well).then(|| self.restart())
    }

    fn healthy(&self) -> Behaviour {
        Behaviour {
            node_id: self.node_id(),
            max_volumes: self.limit,
            ..Behaviour::named(self.name())
        }
    }

    fn come_up(&mut self, behaviour: Behaviour) {
        fs::create_dir_all(self.socket.parent().unwrap()).unwrap();
        self.driver.restart(behaviour);
    }
}
