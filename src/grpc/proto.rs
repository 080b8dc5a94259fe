//! The code that build.rs generates from the files in proto/.

#![allow(missing_docs, unreachable_pub, clippy::all)]

pub(crate) mod csi {
    tonic::include_proto!("csi.v1");
}

pub(crate) mod registration {
    tonic::include_proto!("pluginregistration");
}

pub(crate) mod control {
    tonic::include_proto!("nsdr.control.v1");
}
