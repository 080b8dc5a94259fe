//! From a driver that answers to a kubelet that has registered it, and back.

mod announcements;
mod authority;
mod closed_connections;
mod driver_changes;
mod driver_restarts;
mod kubelet_backoff;
mod multiple_drivers;
mod registration_calls;
mod slow_node_get_info;
mod startup_order;
mod topology;
mod unseen_kubelet;
