//! Compiles proto/ into Rust. protox parses the files, so no protoc has to be installed.

use std::env;
use std::error::Error;

/// Fields of the status that the commands and HTTP need, and that are not part of the promised JSON.
const NOT_IN_JSON: [&str; 18] = [
    "Status.config_refused",
    "Status.config_accepted",
    "Status.directories_without_socket",
    "Status.problems",
    "Status.cluster_checked",
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
    "Driver.cluster_difference",
    "Driver.registered_node_id",
    "Driver.registered_topology",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    order_code();
    compile("csi.proto", true, false)?;
    compile("pluginregistration.proto", false, true)?;
    compile("control.proto", true, true)
}

/// Keeps the code of the commands apart from the daemon's, in a release build with the default linker. Another
/// linker may not know such a script.
fn order_code() {
    const SCRIPT: &str = "packaging/commands.ld";
    println!("cargo:rerun-if-changed={SCRIPT}");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|set| set == value);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is_default = env::var_os("RUSTC_LINKER").is_none() && !flags.contains("link");
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") && is_default {
        let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        let daemon = env::var("CARGO_PKG_NAME").unwrap_or_default();
        println!("cargo:rustc-link-arg-bin={daemon}=-Wl,-T,{root}/{SCRIPT}");
    }
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
