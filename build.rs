//! Compiles proto/ into Rust. protox parses the files, so no protoc has to be installed.

use std::error::Error;

/// Fields of the status that the commands and HTTP need, and that are not part of the promised JSON.
const NOT_IN_JSON: [&str; 14] = [
    "Status.config_refused",
    "Status.config_accepted",
    "Status.directories_without_socket",
    "Status.problems",
    "Driver.serving",
    "Driver.without_node_service",
    "Driver.socket_stands",
    "Driver.name_taken",
    "Driver.volume_limit",
    "Driver.registered_volume_limit",
    "Driver.cause",
    "Driver.disconnects",
    "Driver.volumes_unknown",
    "Driver.pods",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    compile("csi.proto", true, false)?;
    compile("pluginregistration.proto", false, true)?;
    compile("control.proto", true, true)
}

fn compile(file: &str, client: bool, server: bool) -> Result<(), Box<dyn Error>> {
    let files = protox::compile([file], ["proto"])?;
    let mut builder = tonic_prost_build::configure()
        .build_client(client)
        .build_server(server)
        .build_transport(false)
        .btree_map(".")
        // The status that travels over control.sock is the one that `status --json` prints.
        .type_attribute(".nsdr.control.v1", "#[derive(serde::Serialize)]");
    for field in NOT_IN_JSON {
        builder = builder.field_attribute(format!(".nsdr.control.v1.{field}"), "#[serde(skip)]");
    }
    builder.compile_fds(files)?;
    Ok(())
}
