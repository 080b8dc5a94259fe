//! The name of this node in the cluster.

use nix::unistd::gethostname;

use super::unasked::Unasked;
use crate::config::NodeName;

/// The users of kubelets are called so, followed by the name of the Node.
const KUBELET: &str = "system:node:";

/// The name of the Node whose kubelet this user is.
pub(crate) fn of_user(user: &str) -> Option<NodeName> {
    NodeName::parse(user.strip_prefix(KUBELET)?)
}

/// The name as a kubelet chooses it: `--hostname-override`, or else the name of the host; in lower case.
pub(crate) fn of_host(hostname_override: Option<&str>) -> Result<NodeName, Unasked> {
    let host = || gethostname().map(|name| name.to_string_lossy().into_owned());
    let name = match hostname_override {
        Some(name) => name.to_owned(),
        None => host().unwrap_or_default(),
    };
    let name = name.trim().to_lowercase();
    NodeName::parse(&name).ok_or(Unasked::NoNodeName(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_is_no_kubelet_names_no_node() {
        let name = |user: &str| of_user(user).map(|name| name.as_str().to_owned());
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
        assert_eq!(of_host(Some("Node-1")).unwrap().as_str(), "node-1");
        assert!(matches!(of_host(Some("a/b")), Err(Unasked::NoNodeName(_))));
    }
}
