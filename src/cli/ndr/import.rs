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
use crate::config::{self, ConfigError, ExplainedKey, Origin, Provenance, Sources};
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

/// A link that the unit makes for the kubelet.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    target: PathBuf,
    /// The directory of the link, and its name there unless that is the target's name.
    directory: PathBuf,
    name: Option<String>,
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
        put_link(&link, &flags, &mut sources, &mut notes);
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

/// The link that `ln -s` makes.
fn link(command: &[String]) -> Option<Link> {
    let (program, rest) = command.split_first()?;
    let (options, paths): (Vec<&String>, Vec<&String>) =
        rest.iter().partition(|word| word.starts_with('-'));
    let symbolic = |option: &&String| {
        **option == "--symbolic" || !option.starts_with("--") && option.contains('s')
    };
    if program.rsplit('/').next() != Some("ln") || !options.iter().any(symbolic) {
        return None;
    }
    let (target, at) = (paths.first()?, paths.get(1)?);
    let path = Path::new(at.as_str());
    let into = at.ends_with('/') || !at.ends_with(".sock");
    let name = path.file_name().and_then(|name| name.to_str());
    Some(Link {
        target: target.into(),
        directory: if into { path } else { path.parent()? }.to_owned(),
        name: name.filter(|_| !into).map(str::to_owned),
    })
}

/// A link shows which directory the kubelet watches, and by which path it reaches our socket.
fn put_link(link: &Link, flags: &NdrFlags, sources: &mut Sources, notes: &mut Vec<String>) {
    let overrides = &mut sources.overrides;
    overrides.set(LN, &["kubelet", "registry_dir"], text(&link.directory));
    if let Some(root) = link.directory.parent()
        && link.directory.ends_with("plugins_registry")
    {
        overrides.set(LN, &["kubelet", "root_dir"], text(root));
    }
    let ours = flags.plugin_registration_path.as_deref().map(Path::new);
    let is_socket = link.target.extension().is_some_and(|end| end == "sock");
    let seen = if is_socket {
        link.target.parent()
    } else {
        Some(link.target.as_path())
    };
    if let Some(seen) = seen
        && seen.is_absolute()
        && ours.is_some_and(|ours| ours.components().ne(seen.components()))
    {
        overrides.set(LN, &["kubelet", "sees_registry_as"], text(seen));
    }
    if let (Some(name), Some(target)) = (&link.name, link.target.file_name())
        && target != name.as_str()
    {
        notes.push(format!(
            "the link was {name}; its name now comes from the driver"
        ));
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A configuration file with the values that the command sets. The others have their defaults.
fn toml(source: &str, entries: &[ExplainedKey], notes: &[String]) -> String {
    let mut toml = format!("# Equivalent to the node-driver-registrar of {source}\n");
    for note in notes {
        toml += &format!("# {note}\n");
    }
    let mut table = String::new();
    for entry in entries {
        let (Provenance::Set(Origin::Flag(flag)), Some(value)) = (&entry.provenance, &entry.value)
        else {
            continue;
        };
        let Some((key, parents)) = entry.key.parts().split_last() else {
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
