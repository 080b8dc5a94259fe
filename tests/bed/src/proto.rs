//! The generated protobuf types of CSI, Registration and the control socket, with clients and servers.

/// `csi.v1`, with only the messages that a registrar uses.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod csi {
    tonic::include_proto!("csi.v1");
}

/// `pluginregistration`; the server half is for stand-ins of the registrar.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod registration {
    tonic::include_proto!("pluginregistration");
}

/// `nsdr.control.v1`
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod control {
    tonic::include_proto!("nsdr.control.v1");
}
