//! The MESSAGE_IDs of our lines in the journal, which the message catalog explains.

/// Each event that an operator may look up or wait for has an id; `journalctl -x` shows the catalog's
/// text. A released id keeps its meaning.
pub(crate) mod message_id {
    /// The kubelet has registered a driver.
    pub(crate) const REGISTERED: &str = "2441604389cd4b188fd4a73895ffda0a";
    /// The kubelet has refused a driver.
    pub(crate) const REJECTED: &str = "bc7c343eb46e4af6abe40d921f43e0f4";
    /// A driver no longer answers; its registration stays.
    pub(crate) const DRIVER_LOST: &str = "b8ee6fbd6bc34f3d90afb52c94b90da7";
    /// Another process removed or changed the link or the socket, and the registrar restored it.
    pub(crate) const LINK_REPAIRED: &str = "20eb13f4937641f981a31c69d5cd2801";
    /// Another process, or a foreign file, occupies the path of our link or socket.
    pub(crate) const CONFLICT: &str = "9a83c93d2e954a23b04e904e24d4c9a1";
    /// A driver would have been taken off the node, and stays, because its volumes are in use.
    pub(crate) const KEPT_IN_USE: &str = "6da041effa6b4f05b3cabd7e3fe06f99";
    /// The kubelet has registered a driver, and the cluster does not have it.
    pub(crate) const NOT_IN_CLUSTER: &str = "003c0890ebf246319f276128cb7635cb";
    /// The daemon refused a changed configuration and keeps the old configuration.
    pub(crate) const CONFIG_REFUSED: &str = "6bb07a7fdc974c20a1e1e44f2639854d";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::message_id;

    #[test]
    fn the_catalog_explains_exactly_our_messages() {
        let catalog = include_str!("../../packaging/node-storage-driver-registrar.catalog");
        let explained: BTreeSet<&str> = catalog
            .lines()
            .filter_map(|line| line.strip_prefix("-- "))
            .collect();
        let ours = BTreeSet::from([
            message_id::REGISTERED,
            message_id::REJECTED,
            message_id::DRIVER_LOST,
            message_id::LINK_REPAIRED,
            message_id::CONFLICT,
            message_id::KEPT_IN_USE,
            message_id::NOT_IN_CLUSTER,
            message_id::CONFIG_REFUSED,
        ]);
        assert_eq!(explained, ours);
    }
}
