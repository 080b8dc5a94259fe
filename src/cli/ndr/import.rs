//! `import-ndr`: prints a configuration equivalent to a node-driver-registrar unit or command line.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Parser;
use thiserror::Error;

use super::flags::{NdrError, NdrFlags};
use super::normalize::{Normalized, normalize};
use super::unit_file::{command_line, commands};
use crate::cli::args::{Args, Command};
use crate::cli::configuration::Configuration;
use crate::cli::exit::{Exit, print_error};
use crate::cli::render::print;
use crate::config::{
    self, ConfigError, ExplainedKey, Key, Loaded, Origin, Overrides, Provenance, Sources,
};
use crate::disk::directory;
use crate::os::go_flags;

/// The directories of systemd's units, in the order of their precedence.
const UNIT_DIRECTORIES: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// A command with one of these flags is node-driver-registrar's, whatever the name of its program.
const NDR_FLAGS: [&str; 2] = ["csi-address", "kubelet-registration-path"];

/// The source of the values that come from a link.
const LN: &str = "ln -s";

/// The note before keys that are not set.
const NOT_SET: &str =
    "These keys apply to every driver, and this host is configured already, so they are comments:";

#[derive(Debug, Error)]
enum ImportError {
    #[error("cannot read {}: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the unit {0} is in none of systemd's directories")]
    NoUnit(String),
    #[error(
        "{0} does not run node-driver-registrar: no command has --csi-address or --kubelet-registration-path"
    )]
    NoCommand(String),
    #[error("node-driver-registrar does not have this flag: {0}")]
    Flags(String),
    #[error(transparent)]
    Ndr(#[from] NdrError),
    #[error(transparent)]
    Config(#[from] ConfigError),
}

pub(crate) fn import(args: &Args, words: &[String]) -> Result<(), Exit> {
    let present = Configuration::of_command(args).load();
    if let Err(error) = &present {
        print_error(&format!(
            "warning: keys that apply to every driver are comments, because the present configuration \
             has errors: {error}"
        ));
    }
    let present = present.ok();
    let imported =
        read(words).and_then(|(source, commands)| translate(&source, &commands, present.as_ref()));
    print(&imported.map_err(Exit::failed)?)
}

/// The commands of the unit that the words name, or the command line itself.
fn read(words: &[String]) -> Result<(String, Vec<Vec<String>>), ImportError> {
    let of_line = |commands| Ok(("the command line".to_owned(), commands));
    let [only] = words else {
        return of_line(vec![words.to_vec()]);
    };
    let is_word = !only.contains(char::is_whitespace);
    let file = if is_word && Path::new(only).is_file() {
        PathBuf::from(only)
    } else if is_word && only.ends_with(".service") {
        let mut paths = UNIT_DIRECTORIES.iter().map(|dir| Path::new(dir).join(only));
        let found = paths.find(|path| path.is_file());
        found.ok_or_else(|| ImportError::NoUnit(only.clone()))?
    } else {
        return of_line(command_line(only));
    };
    let text = fs::read_to_string(&file).map_err(|source| ImportError::Read {
        path: file.clone(),
        source,
    })?;
    Ok((file.display().to_string(), commands(&text)))
}

/// `present` is the configuration of this host, if it is valid.
fn translate(
    source: &str,
    commands: &[Vec<String>],
    present: Option<&Loaded>,
) -> Result<String, ImportError> {
    let is_registrar = |command: &&Vec<String>| {
        let mut flags = command.iter().filter_map(|word| go_flags::split(word));
        flags.any(|(name, _)| NDR_FLAGS.contains(&name))
    };
    let registrar = commands.iter().find(is_registrar);
    let registrar = registrar.ok_or_else(|| ImportError::NoCommand(source.to_owned()))?;
    let (flags, ignored) = parse(registrar)?;
    let mut sources = Sources::default();
    flags.put_into(&mut sources)?;
    let mut notes = Vec::new();
    for link in commands.iter().filter_map(|command| link(command)) {
        notes.extend(put_link(link, &flags, &mut sources.overrides));
    }
    notes.extend(flags.without_effect().into_iter().map(str::to_owned));
    if !ignored.is_empty() {
        notes.push(format!("no effect: {}", ignored.join(" ")));
    }
    let imported: Vec<ImportedKey> = config::load(&sources)?
        .provenance()
        .into_iter()
        .filter_map(ImportedKey::of)
        .collect();
    let (of_drivers, of_host): (Vec<_>, Vec<_>) =
        imported.into_iter().partition(ImportedKey::is_of_driver);
    if may_set(&of_host, present) {
        return Ok(toml(source, &notes, of_host.iter().chain(&of_drivers)));
    }
    if !of_host.is_empty() {
        notes.push(NOT_SET.to_owned());
        let present = present.map(Loaded::provenance).unwrap_or_default();
        notes.extend(
            of_host
                .iter()
                .map(|key| format!("  {}", key.beside(&present))),
        );
    }
    Ok(toml(source, &notes, of_drivers.iter()))
}

/// A key that the command sets.
struct ImportedKey {
    key: Key,
    value: String,
    flag: String,
}

impl ImportedKey {
    fn of(explained: ExplainedKey) -> Option<ImportedKey> {
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

fn parse(command: &[String]) -> Result<(NdrFlags, Vec<String>), ImportError> {
    let Normalized { arguments, ignored } = normalize(command.iter().map(OsString::from));
    let args = Args::try_parse_from(arguments)
        .map_err(|error| ImportError::Flags(error.to_string().trim().to_owned()))?;
    match args.command {
        Some(Command::Run(flags)) => Ok((flags, ignored)),
        _ => Err(ImportError::Flags(command.join(" "))),
    }
}

/// The link that `ln -s` makes: its target, and its path or the directory that it goes into.
fn link(command: &[String]) -> Option<(&str, &str)> {
    let mut words = command.iter().map(String::as_str);
    let program = words.next()?.rsplit('/').next();
    let (options, paths): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with('-'));
    let symbolic = |option: &&str| match option.strip_prefix("--") {
        Some(long) => long == "symbolic",
        None => option.contains('s'),
    };
    let is_link = program == Some("ln") && options.iter().any(symbolic);
    is_link.then_some((*paths.first()?, *paths.get(1)?))
}

/// A link shows which directory the kubelet watches, and by which path it reaches our socket. Returns
/// what the configuration cannot say.
fn put_link(
    (target, at): (&str, &str),
    flags: &NdrFlags,
    overrides: &mut Overrides,
) -> Option<String> {
    let names_link = at.ends_with(".sock");
    let (target, at) = (Path::new(target), Path::new(at));
    let registry = if names_link { directory::of(at) } else { at };
    overrides.set(LN, &["kubelet", "registry_dir"], registry.to_str());
    if registry.ends_with("plugins_registry") {
        let root = registry.parent().and_then(Path::to_str);
        overrides.set(LN, &["kubelet", "root_dir"], root);
    }
    let ours = flags.plugin_registration_path.as_deref().map(Path::new);
    let is_socket = target.extension().is_some_and(|end| end == "sock");
    let seen = if is_socket {
        directory::of(target)
    } else {
        target
    };
    if seen.is_absolute() && ours.is_some_and(|ours| ours != seen) {
        overrides.set(LN, &["kubelet", "sees_registry_as"], seen.to_str());
    }
    let (name, target) = (at.file_name()?.display(), target.file_name()?);
    let renamed = names_link && at.file_name() != Some(target);
    renamed.then(|| format!("the link was {name}; its name now comes from the driver"))
}

/// A configuration file with these values. The others have their defaults.
fn toml<'a>(source: &str, notes: &[String], keys: impl Iterator<Item = &'a ImportedKey>) -> String {
    let mut toml = format!("# Equivalent to the node-driver-registrar of {source}\n");
    for note in notes {
        toml += &format!("# {note}\n");
    }
    let mut table = String::new();
    for ImportedKey { key, value, flag } in keys {
        let [parents @ .., key] = key.parts() else {
            continue;
        };
        let header = match parents {
            [] => String::new(),
            parents => format!("[{}]", Key::of(parents)),
        };
        if header != table {
            toml += &format!("\n{header}\n");
            table = header;
        }
        toml += &format!("{key} = {value}  # {flag}\n");
    }
    toml
}

#[cfg(test)]
mod tests;
