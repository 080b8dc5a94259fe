//! Compiles the project's .proto files for the fakes.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=../../proto");
    // The fake driver is the server, the test kubelet the client.
    compile("csi.proto")?;
    // The test kubelet is the client of Registration; its server is a stand-in in the bed's own tests.
    compile("pluginregistration.proto")?;
    // The client of the control socket is a stand-in for the program verify.
    compile("control.proto")
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
