//! The files in examples/drivers are correct.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::ndr::unit::output;

fn files(end: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/drivers");
    let entries = fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|found| found == end))
        .collect()
}

fn stems(end: &str) -> BTreeSet<String> {
    let stem = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    files(end).iter().map(stem).collect()
}

#[test]
fn check_accepts_each_configuration_and_all_of_them_together() {
    let dir = tempfile::tempdir().unwrap();
    let main = dir.path().join("config.toml");
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/config/config.toml");
    fs::copy(shipped, &main).unwrap();
    fs::create_dir(dir.path().join("config.d")).unwrap();
    for file in files("toml") {
        let alone = output(&["check", "--config", file.to_str().unwrap()]);
        assert!(alone.status.success(), "{}: {alone:?}", file.display());
        let there = dir.path().join("config.d").join(file.file_name().unwrap());
        fs::copy(&file, there).unwrap();
    }
    let all = output(&["check", "--config", main.to_str().unwrap()]);
    assert!(all.status.success(), "{all:?}");
    let said = String::from_utf8(all.stdout).unwrap();
    assert_eq!(said.matches("\ndriver ").count(), 6, "{said}");
    assert!(said.contains("discovery is on"), "{said}");
}

/// The unit makes the driver listen on the socket that the registrar expects.
#[test]
fn each_unit_listens_where_its_configuration_waits() {
    assert_eq!(stems("toml"), stems("service"));
    assert_eq!(stems("toml").len(), 6);
    for file in files("toml") {
        let check = output(&["check", "--config", file.to_str().unwrap()]);
        let said = String::from_utf8(check.stdout).unwrap();
        let waits = said
            .lines()
            .find_map(|line| line.trim().strip_prefix("waits for"));
        let socket = Path::new(waits.unwrap().trim());
        let unit = fs::read_to_string(file.with_extension("service")).unwrap();
        let socket_url = format!("unix://{}", socket.display());
        // Most drivers have a flag, and lustre-csi-driver has a variable.
        let listens = ["--endpoint=", "CSI_ENDPOINT="].map(|given| format!("{given}{socket_url}"));
        assert!(listens.iter().any(|given| unit.contains(given)), "{unit}");
        let directory = socket.parent().unwrap().display();
        assert!(
            unit.contains(&format!("install -d -m 0750 {directory}\n")),
            "{unit}"
        );
        assert!(
            !unit.contains("node-storage-driver-registrar.service"),
            "{unit}"
        );
    }
}
