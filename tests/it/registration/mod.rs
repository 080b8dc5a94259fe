//! From a driver that answers to a kubelet that has registered it, and back.

mod announcing;
mod authority;
mod back_off;
mod blind;
mod changes;
mod closing;
mod comings;
mod order;
mod refused;
mod several;
mod slow;
pub(crate) mod stand_in;
mod topology;
mod wire;
