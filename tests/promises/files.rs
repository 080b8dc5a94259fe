//! The places of files: in the packages, in the runtime directory, and in the directories of the kubelet.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use bed::Layout;
use bed::scene::NAME;

use crate::list::keeps;
use crate::setup;

const MANIFEST: &str = include_str!("../../Cargo.toml");
const NAME_OF_PROGRAM: &str = "node-storage-driver-registrar";
/// Below these, the files are for people.
const PAGES: [&str; 3] = [
    "/usr/share/doc/",
    "/usr/share/licenses/",
    "/usr/share/lintian/",
];

/// The files of a package that has this list of assets. `place` finds source and destination in a line.
fn contents(
    heading: &str,
    place: impl Fn(&'static str) -> Option<(&'static str, String)>,
) -> BTreeSet<String> {
    let section = MANIFEST.split_once(heading).unwrap().1;
    let list = section.split_once("\nassets = [").unwrap().1;
    let list = list.split_once("\n]").unwrap().0;
    let mut files = BTreeSet::new();
    for (source, destination) in list.lines().filter_map(place) {
        // A directory takes the name of the source, which may be a pattern.
        let (directory, pattern) = source.rsplit_once('/').unwrap_or((".", source));
        let names = match pattern.split_once('*') {
            Some((start, end)) => matching(directory, start, end),
            None => vec![pattern.to_owned()],
        };
        files.extend(names.iter().map(|name| match destination.ends_with('/') {
            true => format!("{destination}{name}"),
            false => destination.clone(),
        }));
    }
    files.retain(|path| !PAGES.iter().any(|pages| path.starts_with(pages)));
    files
}

fn matching(directory: &str, start: &str, end: &str) -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let names = fs::read_dir(directory).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.starts_with(start) && name.ends_with(end))
        .collect()
}

fn units() -> Vec<String> {
    let units = ["service", "timer"].map(|kind| format!(".{kind}"));
    units
        .iter()
        .flat_map(|end| matching("systemd", NAME_OF_PROGRAM, end))
        .collect()
}

/// The texts between double quotes.
fn quoted(line: &'static str) -> Vec<&'static str> {
    line.split('"').skip(1).step_by(2).collect()
}

#[test]
fn every_promised_file_of_the_packages_is_there() {
    let deb = contents("[package.metadata.deb]", |line| match quoted(line)[..] {
        [source, destination, _mode] => Some((source, format!("/{destination}"))),
        _ => None,
    });
    let rpm = contents("[package.metadata.generate-rpm]", |line| {
        let [source, destination, ..] = quoted(line)[..] else {
            return None;
        };
        Some((source, destination.to_owned()))
    });
    // cargo-deb puts the units of maintainer scripts there.
    let units = units().into_iter();
    let units = units.map(|unit| format!("/usr/lib/systemd/system/{unit}"));
    let deb: BTreeSet<String> = deb.into_iter().chain(units).collect();
    let lines = deb
        .union(&rpm)
        .map(|path| match (deb.contains(path), rpm.contains(path)) {
            (true, true) => path.clone(),
            (true, false) => format!("{path} (.deb)"),
            (false, _) => format!("{path} (.rpm)"),
        });
    keeps("package", lines);
}

/// The directives by which other units, drop-ins and tools know the units.
const DIRECTIVES: [&str; 8] = [
    "Before",
    "ExecReload",
    "ExecStart",
    "RestartPreventExitStatus",
    "RuntimeDirectory",
    "RuntimeDirectoryPreserve",
    "Type",
    "WantedBy",
];

#[test]
fn every_promised_directive_of_the_units_is_there() {
    let mut lines = Vec::new();
    for unit in units() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("systemd")
            .join(&unit);
        let text = fs::read_to_string(path).unwrap();
        for line in text.lines() {
            let Some((name, value)) = line.split_once('=') else {
                continue;
            };
            let values: Vec<&str> = match name {
                // A list, which may grow.
                "Before" => value.split(' ').collect(),
                _ => vec![value],
            };
            if DIRECTIVES.contains(&name) {
                lines.extend(values.iter().map(|value| format!("{unit} {name}={value}")));
            }
        }
    }
    keeps("unit", lines);
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn the_runtime_directory_has_the_promised_files() {
    let (scene, _driver, _kubelet) = setup().registered();
    let mut files = names(&scene.node.runtime_dir());
    // verify writes it with its first repair: see the module recording.
    files.push("repairs.json".to_owned());
    keeps("runtime", files);
}

#[test]
fn the_socket_and_the_link_have_the_promised_names() {
    let mut lines = Vec::new();
    for (layout, words) in [
        (Layout::TwoDirectories, "two directories"),
        (Layout::OneDirectory, "one directory"),
    ] {
        let (scene, _driver, _kubelet) = setup().layout(layout).registered();
        let registry = scene.node.registry_dir();
        let kubelet = scene.node.plugins_registry();
        let mut directories = vec![("kubelet.plugins_registry", &kubelet)];
        if layout == Layout::TwoDirectories {
            directories.push(("registry_dir", &registry));
        }
        for (key, directory) in directories {
            for name in names(directory) {
                let file = directory.join(&name);
                let kind = match file.is_symlink() {
                    true => "link",
                    false => "socket",
                };
                let name = name.replace(NAME, "NAME");
                lines.push(format!("{words}: {kind} {name} in {key}"));
            }
        }
    }
    keeps("registry", lines);
}
