//! Whether a Node is the one of this machine: a wrong name, or the kubeconfig of another cluster, must not make us take
//! drivers off this node.

use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1::Node;

use crate::os::boot;

/// The machine that we run on.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThisMachine {
    boot_id: Option<String>,
    /// The machine id of a node that is a container.
    container_id: Option<String>,
}

/// The machine of a Node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Machine {
    This,
    Other,
    /// The Node or this machine does not tell.
    #[default]
    Unknown,
}

impl ThisMachine {
    pub(crate) fn read() -> ThisMachine {
        // systemd makes this file in a container. A host may have the machine id of the image that it was made from, and
        // so of other hosts.
        let is_container = Path::new("/run/systemd/container").exists();
        ThisMachine {
            boot_id: boot::id().map(str::to_owned),
            container_id: is_container.then(machine_id).flatten(),
        }
    }

    /// By the id of the boot, which the kubelet reports when it starts. A node that is a container goes by its machine id:
    /// it may share the boot id with others, or have one that a unit does not see in its sandbox before systemd 257.
    pub(crate) fn of(&self, node: &Node) -> Machine {
        let status = node.status.as_ref();
        let Some(info) = status.and_then(|status| status.node_info.as_ref()) else {
            return Machine::Unknown;
        };
        let (ours, reported) = match &self.container_id {
            Some(id) if !info.machine_id.is_empty() => (Some(id), &info.machine_id),
            _ => (self.boot_id.as_ref(), &info.boot_id),
        };
        match ours {
            Some(ours) if ours == reported => Machine::This,
            Some(_) if !reported.is_empty() => Machine::Other,
            _ => Machine::Unknown,
        }
    }
}

/// As the kubelet reads it; none where the machine has none.
fn machine_id() -> Option<String> {
    let id = fs::read_to_string("/etc/machine-id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(boot_id: &str, machine_id: &str) -> Node {
        let mut node = Node::default();
        let status = node.status.get_or_insert_default();
        let info = status.node_info.get_or_insert_default();
        info.boot_id = boot_id.to_owned();
        info.machine_id = machine_id.to_owned();
        node
    }

    fn this(boot_id: Option<&str>, container_id: Option<&str>) -> ThisMachine {
        ThisMachine {
            boot_id: boot_id.map(str::to_owned),
            container_id: container_id.map(str::to_owned),
        }
    }

    #[test]
    fn the_boot_id_tells_the_machine() {
        let host = this(Some("a"), None);
        assert_eq!(host.of(&node("a", "m")), Machine::This);
        // Whatever the machine id is: hosts from one image may share it.
        assert_eq!(host.of(&node("b", "m")), Machine::Other);
        assert_eq!(host.of(&node("b", "")), Machine::Other);
    }

    #[test]
    fn the_machine_id_tells_a_container() {
        let container = this(Some("a"), Some("m"));
        assert_eq!(container.of(&node("b", "m")), Machine::This);
        assert_eq!(container.of(&node("b", "n")), Machine::Other);
        // Of a container beside it.
        assert_eq!(container.of(&node("a", "n")), Machine::Other);
        assert_eq!(container.of(&node("a", "")), Machine::This);
        assert_eq!(container.of(&node("b", "")), Machine::Other);
        assert_eq!(this(None, Some("m")).of(&node("", "m")), Machine::This);
    }

    #[test]
    fn an_id_that_is_missing_on_one_side_tells_nothing() {
        let host = this(Some("a"), None);
        assert_eq!(host.of(&Node::default()), Machine::Unknown);
        assert_eq!(host.of(&node("", "m")), Machine::Unknown);
        assert_eq!(this(None, None).of(&node("b", "m")), Machine::Unknown);
    }
}
