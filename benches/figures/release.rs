//! The binary that is measured: the release build as it is shipped.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

const NAME: &str = "node-storage-driver-registrar";

/// `$REGISTRAR_BIN`, or else what `cargo build --release` makes.
///
/// Not the binary that cargo has built along with this program: that binary also has the features of
/// shared crates that only tests need, such as a clock that can be stopped.
pub(crate) fn binary() -> Result<PathBuf, String> {
    let named = std::env::var_os("REGISTRAR_BIN").map(PathBuf::from);
    let binary = named.map_or_else(build, Ok)?;
    if binary.is_file() {
        Ok(binary)
    } else {
        Err(format!("there is no {}", binary.display()))
    }
}

fn build() -> Result<PathBuf, String> {
    eprintln!("building {NAME}");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = Command::new(cargo)
        .args(["build", "--release", "--locked", "--bin", NAME])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !build.status.success() {
        return Err(format!("cargo build: {}", build.status));
    }
    let messages = String::from_utf8_lossy(&build.stdout);
    let built = messages.lines().find_map(executable);
    built.ok_or_else(|| "cargo does not say what it has built".to_owned())
}

/// The program that a message of cargo's is about; most are about libraries.
fn executable(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let executable = message.get("executable")?.as_str()?;
    Some(PathBuf::from(executable))
}
