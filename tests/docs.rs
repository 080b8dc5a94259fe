//! The pages say what the code does, and every path that they name exists.

#![allow(
    clippy::unwrap_used,
    reason = "in a test a panic with its line is the report"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use node_storage_driver_registrar::config::{
    self, ConfigError, Loaded, Overrides, Provenance, Sources,
};

const REFERENCE: &str = include_str!("../docs/configuration.md");
const ID: &str = "ID";

/// A row of a table of keys.
struct Row {
    kind: &'static str,
    default: &'static str,
}

impl Row {
    /// The default as TOML; none where it follows from other keys and is told in words.
    fn value(&self) -> Option<&'static str> {
        let value = self.default.strip_prefix('`')?.strip_suffix('`')?;
        (!value.contains('`')).then_some(value)
    }
}

/// The documented keys. A key stands in backticks in the first of four columns.
fn documented() -> BTreeMap<&'static str, Row> {
    let rows = REFERENCE.lines().filter_map(|line| {
        let line = line.strip_prefix("| `")?;
        let (key, rest) = line.split_once("` | ")?;
        let (kind, rest) = rest.split_once(" | ")?;
        let (default, _meaning) = rest.split_once(" | ")?;
        Some((key, Row { kind, default }))
    });
    rows.collect()
}

fn load(file: &str) -> Loaded {
    try_load(file).unwrap_or_else(|error| panic!("{error}\n{file}"))
}

fn try_load(file: &str) -> Result<Loaded, ConfigError> {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let path = dir.path().join("config.toml");
    fs::write(&path, file).expect("a file can be written there");
    let sources = Sources {
        config: Some(path),
        default_config: None,
        environment: Vec::new(),
        overrides: Overrides::default(),
    };
    config::load(&sources)
}

/// Built-in defaults, with one driver that sets nothing.
fn defaults() -> Loaded {
    load(&format!("[drivers.{ID:?}]\n"))
}

#[test]
fn the_documented_keys_are_the_ones_that_exist() {
    let explained = defaults().provenance();
    let known: BTreeSet<String> = explained
        .iter()
        .map(|entry| entry.key.to_string())
        .collect();
    let documented: BTreeSet<String> = documented().keys().map(ToString::to_string).collect();
    let missing: Vec<_> = known.difference(&documented).collect();
    assert!(
        missing.is_empty(),
        "add a row to docs/configuration.md: {missing:?}"
    );
    let gone: Vec<_> = documented.difference(&known).collect();
    assert!(gone.is_empty(), "no such key: {gone:?}");
}

#[test]
fn the_documented_defaults_are_the_built_in_ones() {
    let file: String = documented()
        .iter()
        .filter_map(|(key, row)| Some(format!("{key} = {}\n", row.value()?)))
        .collect();
    // The driver is in there with the one key of its table that has a value.
    assert_eq!(load(&file).settings, defaults().settings);
}

#[test]
fn only_what_follows_from_other_keys_has_its_default_in_words() {
    let documented = documented();
    for entry in defaults().provenance() {
        let key = entry.key.to_string();
        let follows = match entry.provenance {
            Provenance::Derived(_) | Provenance::Learned => true,
            Provenance::Defaults(_) => !key.ends_with("supported_versions"),
            Provenance::Set(_) | Provenance::Found(..) => false,
        };
        assert_eq!(documented[key.as_str()].value().is_none(), follows, "{key}");
    }
}

/// A key with a choice of words refuses any other word and lists its own.
#[test]
fn every_word_that_a_key_allows_is_documented() {
    let mut choices = 0;
    for (key, row) in documented() {
        let error = try_load(&format!("{key} = \"?\"\n")).expect_err(key);
        let error = error.to_string();
        let words = error.split(": must be \"").nth(1);
        assert_eq!(
            words.is_some(),
            row.kind.starts_with("`\""),
            "{key}: {error}"
        );
        if let Some(words) = words {
            let listed: Vec<String> = words.split('"').step_by(2).map(quoted).collect();
            assert_eq!(row.kind, listed.join(", "), "{key}");
            choices += 1;
        }
    }
    assert_eq!(choices, 6);
}

fn quoted(word: &str) -> String {
    format!("`\"{word}\"`")
}

/// Every page of the tree, except pages of generated and fetched files.
fn pages() -> Vec<(PathBuf, String)> {
    let mut pages = Vec::new();
    let mut directories = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR"))];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let (path, name) = (entry.path(), entry.file_name());
            let skipped = name == "target" || name.to_string_lossy().starts_with('.');
            if !skipped && entry.file_type().unwrap().is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&path).unwrap();
                pages.push((path, text));
            }
        }
    }
    assert!(pages.len() >= 12, "{pages:?}");
    pages
}

#[test]
fn every_link_of_every_page_leads_somewhere() {
    for (page, text) in pages() {
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let file = target.split('#').next().unwrap();
            let found = page.parent().unwrap().join(file);
            assert!(
                target.contains("://") || found.exists(),
                "{}: {target}",
                page.display()
            );
        }
    }
}

#[test]
fn every_source_file_that_a_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rooted = ["src/", "tests/", "benches/", "docs/", "packaging/"];
    for (page, text) in pages() {
        // Blocks of code are examples, and paths in them may be a reader's own.
        let prose = text.split("```").step_by(2);
        for span in prose.flat_map(|prose| prose.split('`').skip(1).step_by(2)) {
            let is_path = rooted.iter().any(|start| span.starts_with(start))
                && span
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            assert!(
                !is_path || root.join(span).exists(),
                "{}: {span}",
                page.display()
            );
        }
    }
}

#[test]
fn the_readme_in_chinese_has_every_section_table_row_and_example_of_the_english_one() {
    let english = include_str!("../README.md");
    let chinese = include_str!("../README.zh-CN.md");
    let shape = |text: &str| {
        let count = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        ["## ", "| ", "```", "- "].map(count)
    };
    assert_eq!(shape(chinese), shape(english));
    // What is typed is the same in every language.
    let code = |text: &'static str| -> Vec<&str> {
        text.split("```")
            .skip(1)
            .step_by(2)
            .filter(|block| !block.starts_with("sh"))
            .collect()
    };
    assert_eq!(code(chinese), code(english));
}

#[test]
fn the_operating_guide_explains_every_phase() {
    let guide = include_str!("../docs/operating.md");
    let machine = include_str!("../README.md");
    for phase in [
        "waiting-for-driver",
        "waiting-for-kubelet",
        "registered",
        "rejected",
        "conflict",
        "withdrawn",
    ] {
        let row = format!("\n| `{phase}` | ");
        assert!(guide.contains(&row) && machine.contains(&row), "{phase}");
    }
}

/// The directives in the head of an example of a driver: before the section of the program.
fn before_kubelets(unit: &str) -> Vec<&str> {
    let mut lines = unit.lines();
    lines.by_ref().find(|line| *line == "[Unit]");
    let of_unit = lines.take_while(|line| !line.starts_with('['));
    of_unit
        .filter_map(|line| line.strip_prefix("Before="))
        .collect()
}

#[test]
fn every_example_of_a_driver_starts_before_every_kubelet_and_shares_its_mounts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ours = include_str!("../systemd/node-storage-driver-registrar.service");
    let ours = before_kubelets(ours);
    assert_eq!(ours.len(), 1, "{ours:?}");
    let directory = root.join("examples/drivers");
    let page = fs::read_to_string(directory.join("README.md")).unwrap();
    let mut drivers = 0;
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "toml") {
            continue;
        }
        drivers += 1;
        for kind in ["service", "container"] {
            let path = path.with_extension(kind);
            let name = path.file_name().unwrap().to_str().unwrap();
            let unit = fs::read_to_string(&path).unwrap();
            assert_eq!(before_kubelets(&unit), ours, "{name}");
            assert!(page.contains(&format!("]({name})")), "README.md: {name}");
            let shared = "\nVolume=/var/lib/kubelet:/var/lib/kubelet:rshared\n";
            assert!(kind == "service" || unit.contains(shared), "{name}");
        }
    }
    assert_eq!(drivers, 6);
}

/// The format of an rpm does not list the directories, so that a script removes them.
#[test]
fn the_removal_of_the_rpm_removes_every_directory_of_pages_and_examples() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path| fs::read_to_string(root.join(path)).unwrap();
    let (manifest, script) = (read("Cargo.toml"), read("packaging/rpm/postun.sh"));
    let destinations = manifest.split("dest = \"/usr/share/doc/").skip(1);
    let files = destinations.filter_map(|text| Some(text.split_once('"')?.0));
    let directories: BTreeSet<&str> = files
        .filter_map(|path| Some(path.rsplit_once('/')?.0))
        .collect();
    assert!(directories.len() > 3, "{directories:?}");
    for directory in directories {
        let line = format!(" /usr/share/doc/{directory} \\\n");
        assert!(script.contains(&line), "{directory}");
    }
}

#[test]
fn the_picture_of_the_demo_shows_its_steps() {
    let story = include_str!("../examples/demo/story.rs");
    let picture = include_str!("../docs/demo.svg");
    let steps: Vec<&str> = story
        .split(".step(\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(steps.len() >= 6, "{steps:?}");
    for (number, step) in (1..).zip(&steps) {
        let shown = format!("{number}. {step}");
        assert!(picture.contains(&shown), "not in docs/demo.svg: {shown}");
    }
}

#[test]
fn every_figure_of_the_benchmark_is_in_the_table_and_explained() {
    let page = include_str!("../docs/performance.md");
    let source = include_str!("../benches/figures/figure.rs");
    let quoted = |key: &str| -> Vec<&str> {
        let values = source.split(key).skip(1);
        values.filter_map(|rest| rest.split('"').next()).collect()
    };
    let figures = quoted("words: \"");
    assert!(figures.len() >= 16, "{figures:?}");
    for words in figures {
        assert!(page.contains(&format!("\n| {words} | ")), "{words}");
    }
    let explained = |name: &str| page.contains(&format!("\n| `{name}` | "));
    let names: Vec<&str> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Row::")?.split_once(" => \""))
        .filter_map(|(_, name)| name.strip_suffix("\","))
        .collect();
    assert_eq!(names.len(), 11, "{names:?}");
    for name in names {
        assert!(explained(name), "--only {name}");
    }
}
