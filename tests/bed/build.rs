//! Compiles the project's .proto files for the fakes: the sides that the registrar does not play.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=../../proto");
    // The driver is served by the fake and asked by the test kubelet.
    compile("csi.proto")?;
    // Registration is asked by the test kubelet; its server is a stand-in in the bed's own tests.
    compile("pluginregistration.proto")
}

fn compile(file: &str) -> Result<(), Box<dyn Error>> {
    let files = protox::compile([file], ["../../proto"])?;
    tonic_prost_build::configure()
        .build_client(true)
        .build_server(true)
        .btree_map(".")
        .compile_fds(files)?;
    Ok(())
}
