//! Nodes with the registrar on them, and what tests ask of them.

pub(crate) mod base;
pub(crate) mod hostile;
pub(crate) mod many;
pub(crate) mod operator;
pub(crate) mod request;
#[path = "../../bed/src/scene.rs"]
pub(crate) mod survival;
pub(crate) mod wrapped;
