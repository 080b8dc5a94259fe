//! The generated wire types: CSI, both sides, and Registration, both sides.

/// `csi.v1`, with just the messages that a registrar uses.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod csi {
    tonic::include_proto!("csi.v1");
}

/// `pluginregistration`; the server half is for stand-ins of the registrar.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod registration {
    tonic::include_proto!("pluginregistration");
}
