//! The name of this node in the cluster.

use nix::unistd::gethostname;

use super::unasked::Unasked;
use crate::config::NodeName;

/// The users of kubelets are called so, followed by the name of the Node.
const KUBELET: &str = "system:node:";

/// The name, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedNode {
    pub(crate) name: NodeName,
    pub(crate) source: NameSource,
}

/// Where the name comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameSource {
    CommandLine,
    Settings,
    /// The API server says that we are the kubelet of this Node.
    User,
    Host,
}

/// The name of the Node whose kubelet this user is.
pub(crate) fn of_user(user: &str) -> Option<NamedNode> {
    let name = NodeName::parse(user.strip_prefix(KUBELET)?)?;
    let source = NameSource::User;
    Some(NamedNode { name, source })
}

/// The name as a kubelet chooses it: `--hostname-override`, or else the name of the host; in lower case.
pub(crate) fn of_host(hostname_override: Option<&str>) -> Result<NamedNode, Unasked> {
    let host = || gethostname().map(|name| name.to_string_lossy().into_owned());
    let name = match hostname_override {
        Some(name) => name.to_owned(),
        None => host().unwrap_or_default(),
    };
    let name = name.trim().to_lowercase();
    let source = NameSource::Host;
    let parsed = NodeName::parse(&name).map(|name| NamedNode { name, source });
    parsed.ok_or(Unasked::NoNodeName(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_is_no_kubelet_names_no_node() {
        let name = |user: &str| of_user(user).map(|node| node.name.as_str().to_owned());
        assert_eq!(name("system:node:node-1").as_deref(), Some("node-1"));
        for other in [
            "admin",
            "system:node:",
            "system:node:../x",
            "system:nodes:a",
        ] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn the_host_is_called_as_the_kubelet_calls_it() {
        assert_eq!(of_host(Some("Node-1")).unwrap().name.as_str(), "node-1");
        assert!(matches!(of_host(Some("a/b")), Err(Unasked::NoNodeName(_))));
    }
}
