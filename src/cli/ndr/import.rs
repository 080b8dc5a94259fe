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
use crate::cli::exit::Exit;
use crate::cli::render::print;
use crate::config::{self, ConfigError, ExplainedKey, Origin, Overrides, Provenance, Sources};
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

pub(crate) fn import(words: &[String]) -> Result<(), Exit> {
    let imported = read(words).and_then(|(source, commands)| translate(&source, &commands));
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

fn translate(source: &str, commands: &[Vec<String>]) -> Result<String, ImportError> {
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
    let loaded = config::load(&sources)?;
    Ok(toml(source, &loaded.provenance(), &notes))
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

/// A configuration file with the values that the command sets. The others have their defaults.
fn toml(source: &str, entries: &[ExplainedKey], notes: &[String]) -> String {
    let mut toml = format!("# Equivalent to the node-driver-registrar of {source}\n");
    for note in notes {
        toml += &format!("# {note}\n");
    }
    let mut table = String::new();
    for entry in entries {
        let (Provenance::Set(Origin::Flag(flag)), Some(value), [parents @ .., key]) =
            (&entry.provenance, &entry.value, entry.key.parts())
        else {
            continue;
        };
        let header = match parents {
            [] => String::new(),
            [table] => format!("[{table}]"),
            [table, id @ ..] => format!("[{table}.{:?}]", id.join(".")),
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
