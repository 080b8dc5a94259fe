//! The configuration that an import prints: the keys of each node-driver-registrar, and comments.

use std::iter;

use super::import::ImportError;
use crate::config::{ExplainedKey, Key, Loaded, Origin, Provenance};
use crate::os::text::garbles;

/// The note before keys that are not set.
pub(super) const NOT_SET: &str =
    "These keys apply to every driver, and this host is configured already, so they are comments:";

/// What an import makes of a node-driver-registrar.
pub(super) struct Imported {
    /// Its place, if the source has more than one.
    pub(super) place: Option<String>,
    pub(super) keys: Vec<ImportedKey>,
    /// What the keys do not say.
    pub(super) notes: Vec<String>,
}

/// A key that the command sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImportedKey {
    key: Key,
    value: String,
    flag: String,
}

impl ImportedKey {
    pub(super) fn of(explained: ExplainedKey) -> Option<ImportedKey> {
        match (explained.provenance, explained.value) {
            (Provenance::Set(Origin::Flag(flag)), Some(value)) => Some(ImportedKey {
                key: explained.key,
                value,
                flag,
            }),
            _ => None,
        }
    }

    fn is_of_driver(&self) -> bool {
        self.key
            .parts()
            .first()
            .is_some_and(|first| first == "drivers")
    }

    /// The id of its driver.
    fn driver(&self) -> Option<&str> {
        match self.key.parts() {
            [first, id, ..] if first == "drivers" => Some(id),
            _ => None,
        }
    }

    /// The key with its value, and what this host has in its place.
    fn beside(&self, present: &[ExplainedKey]) -> String {
        let Self { key, value, flag } = self;
        let present = present.iter().find(|present| present.key == *key);
        let present = present.and_then(|present| Some((present.value.as_ref()?, present)));
        let why = match present {
            Some((same, at)) if same == value => format!("; in effect already, {}", at.provenance),
            Some((other, at)) => format!("; this host has {other}, {}", at.provenance),
            None => String::new(),
        };
        format!("{key} = {value}  # {flag}{why}")
    }
}

/// A line that stays a comment, whatever the text has.
fn comment(text: &str) -> String {
    let mut line = "# ".to_owned();
    for c in text.chars() {
        if garbles(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line + "\n"
}

/// Whether the keys that apply to every driver may be set: the host declares no driver yet, and sets
/// none of these keys to another value.
fn may_set(keys: &[ImportedKey], present: Option<&Loaded>) -> bool {
    let Some(present) = present else {
        return false;
    };
    let is_set = |entry: &ExplainedKey| match &entry.provenance {
        Provenance::Set(origin) | Provenance::Found(origin, _) => *origin != Origin::BuiltIn,
        Provenance::Defaults(_) | Provenance::Derived(_) | Provenance::Learned => false,
    };
    let entries = present.provenance();
    let differs = |key: &ImportedKey| {
        let mut set = entries.iter().filter(|entry| is_set(entry));
        set.any(|entry| entry.key == key.key && entry.value.as_ref() != Some(&key.value))
    };
    present.settings.drivers.is_empty() && !keys.iter().any(differs)
}

/// The configuration file of these registrars. `left_out` is about those that are not in it, `present` is
/// the configuration of this host, if it is valid.
pub(super) fn configuration(
    source: &str,
    imports: Vec<Imported>,
    left_out: &[String],
    present: Option<&Loaded>,
) -> Result<String, ImportError> {
    let mut file = ConfigurationFile::default();
    for import in imports {
        file.add(import)?;
    }
    file.notes.extend_from_slice(left_out);
    if !may_set(&file.of_host, present) {
        file.comment_host(present);
    }
    Ok(file.toml(source))
}

/// The keys of all registrars, each once.
#[derive(Default)]
struct ConfigurationFile {
    notes: Vec<String>,
    /// The keys that apply to every driver.
    of_host: Vec<ImportedKey>,
    of_drivers: Vec<ImportedKey>,
}

impl ConfigurationFile {
    fn add(&mut self, import: Imported) -> Result<(), ImportError> {
        let Imported { place, keys, notes } = import;
        let (of_driver, of_host): (Vec<_>, Vec<_>) =
            keys.into_iter().partition(ImportedKey::is_of_driver);
        let indent = if place.is_some() { "  " } else { "" };
        self.notes
            .extend(place.as_ref().map(|place| format!("{place}:")));
        self.notes
            .extend(notes.iter().map(|note| format!("{indent}{note}")));
        for key in of_host {
            match self.of_host.iter().find(|known| known.key == key.key) {
                None => self.of_host.push(key),
                Some(known) if known.value == key.value => {}
                Some(known) => {
                    let ImportedKey { key, value, flag } = key;
                    let kept = &known.value;
                    let note = format!(
                        "{indent}{key} = {value}  # {flag}; this file has {kept}, for every driver"
                    );
                    self.notes.push(note);
                }
            }
        }
        let is_same = |key: &ImportedKey| self.of_drivers.contains(key);
        if of_driver.iter().all(is_same) {
            self.notes.push(format!("{indent}the same driver as above"));
            return Ok(());
        }
        let mut ids = of_driver.iter().filter_map(ImportedKey::driver);
        let has = |id: &&str| self.of_drivers.iter().any(|key| key.driver() == Some(*id));
        if let Some(id) = ids.find(has) {
            let place = place.unwrap_or_default();
            return Err(ImportError::TwoDrivers(place, id.to_owned()));
        }
        self.of_drivers.extend(of_driver);
        Ok(())
    }

    /// Makes comments of the keys that apply to every driver.
    fn comment_host(&mut self, present: Option<&Loaded>) {
        if self.of_host.is_empty() {
            return;
        }
        self.notes.push(NOT_SET.to_owned());
        let present = present.map(Loaded::provenance).unwrap_or_default();
        let keys = self.of_host.drain(..);
        let lines = keys.map(|key| format!("  {}", key.beside(&present)));
        self.notes.extend(lines);
    }

    /// The other keys have their defaults.
    fn toml(&self, source: &str) -> String {
        let title = format!("Equivalent to the node-driver-registrar of {source}");
        let notes = self.notes.iter().map(|note| comment(note));
        let mut toml: String = iter::once(comment(&title)).chain(notes).collect();
        // Keys without a table come before the first table.
        let mut tables: Vec<(String, String)> = vec![(String::new(), String::new())];
        for ImportedKey { key, value, flag } in self.of_host.iter().chain(&self.of_drivers) {
            let [parents @ .., key] = key.parts() else {
                continue;
            };
            let header = match parents {
                [] => String::new(),
                parents => format!("\n[{}]\n", Key::of(parents)),
            };
            let line = format!("{key} = {value}  # {flag}\n");
            match tables.iter_mut().find(|(known, _)| *known == header) {
                Some((_, lines)) => *lines += &line,
                None => tables.push((header, line)),
            }
        }
        for (header, lines) in tables {
            toml += &(header + &lines);
        }
        toml
    }
}
