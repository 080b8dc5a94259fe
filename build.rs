//! Compiles proto/ into Rust. protox parses the files, so no protoc has to be installed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    compile("csi.proto", true, false)?;
    compile("pluginregistration.proto", false, true)?;
    compile("control.proto", true, true)
}

fn compile(file: &str, client: bool, server: bool) -> Result<(), Box<dyn Error>> {
    let files = protox::compile([file], ["proto"])?;
    tonic_prost_build::configure()
        .build_client(client)
        .build_server(server)
        .build_transport(false)
        .btree_map(".")
        // The status that travels over control.sock is the one that `status --json` prints.
        .type_attribute(".nsdr.control.v1", "#[derive(serde::Serialize)]")
        .field_attribute(".nsdr.control.v1.Status.notes", "#[serde(skip)]")
        .field_attribute(".nsdr.control.v1.Driver.serving", "#[serde(skip)]")
        .field_attribute(".nsdr.control.v1.Driver.answering", "#[serde(skip)]")
        .field_attribute(
            ".nsdr.control.v1.Driver.without_node_service",
            "#[serde(skip)]",
        )
        .field_attribute(".nsdr.control.v1.Driver.socket_stands", "#[serde(skip)]")
        .compile_fds(files)?;
    Ok(())
}
