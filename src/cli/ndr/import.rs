//! `import-ndr`: prints a configuration equivalent to a node-driver-registrar unit, manifest or command
//! line.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Parser;
use thiserror::Error;

use super::flags::{NdrError, NdrFlags};
use super::imported::{Imported, ImportedKey, configuration};
use super::manifest::{ManifestError, RegistrarContainer};
use super::normalize::{Normalized, normalize};
use super::shell::command_line;
use super::unit_file::commands;
use crate::cli::args::{Args, Command};
use crate::cli::configuration::Configuration;
use crate::cli::exit::{Exit, print_error};
use crate::cli::render::print;
use crate::config::{self, ConfigError, Loaded, Overrides, Sources};
use crate::disk::directory;
use crate::grpc::client::without_scheme;
use crate::os::go_flags;
use crate::os::text::{on_one_line, printable};

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

/// The flags whose value is a path.
const PATHS: [&str; 3] = [
    "csi-address",
    "kubelet-registration-path",
    "plugin-registration-path",
];

/// The source of the values that come from a link.
const LN: &str = "ln -s";

/// The largest manifest. A file with many custom resources has two megabytes.
const LARGEST: u64 = 4 << 20;

/// The end of a unit's name.
const SERVICE: &str = ".service";

/// The extensions of a manifest. JSON is YAML.
const MANIFESTS: [&str; 3] = ["yaml", "yml", "json"];

#[derive(Debug, Error)]
pub(super) enum ImportError {
    #[error("cannot read {}: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} has more than {LARGEST} bytes", .0.display())]
    Large(PathBuf),
    #[error("import-ndr reads one file at a time: run it separately for {}", .0.join(", "))]
    Several(Vec<String>),
    #[error("the unit {0} is in none of systemd's directories")]
    NoUnit(String),
    #[error(
        "{0} does not run node-driver-registrar: no command has --csi-address or --kubelet-registration-path"
    )]
    NoCommand(String),
    #[error("{}: {source}", .path.display())]
    Manifest {
        path: PathBuf,
        source: ManifestError,
    },
    #[error("{file}: {}", .why.join("; "))]
    NoneLeft { file: String, why: Vec<String> },
    #[error(
        "{0}: another container has the driver id \"{1}\", with other paths; import the two from separate files"
    )]
    TwoDrivers(String, String),
    #[error("node-driver-registrar does not have this flag: {0}")]
    Flags(String),
    #[error("{flag} has no value here: {why}")]
    Variable { flag: String, why: String },
    #[error("{0} is a path of Windows, where this program does not run")]
    Windows(String),
    #[error(transparent)]
    Ndr(#[from] NdrError),
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// What the words of the command line name, with its name.
#[derive(Debug)]
enum Source {
    /// A unit's commands, or a command line.
    Commands(String, Vec<Vec<String>>),
    /// The containers of a manifest.
    Containers(String, Vec<RegistrarContainer>),
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
    let imported = read(words).and_then(|source| match source {
        Source::Commands(source, commands) => translate(&source, &commands, present.as_ref()),
        Source::Containers(source, containers) => {
            let (toml, left_out) = translate_containers(&source, &containers, present.as_ref())?;
            for container in left_out {
                print_error(&format!("warning: {source}: {container}"));
            }
            Ok(toml)
        }
    });
    print(&imported.map_err(Exit::failed)?)
}

/// Reads the unit or the manifest that the words name, or takes the words as the command line itself.
fn read(words: &[String]) -> Result<Source, ImportError> {
    let of_line = |commands| Ok(Source::Commands("the command line".to_owned(), commands));
    let [only] = words else {
        // node-driver-registrar does not run without a flag.
        let has_flag = words.iter().any(|word| word.starts_with('-'));
        let is_file = |word: &String| is_manifest(word) || word.ends_with(SERVICE);
        if !has_flag && words.iter().any(is_file) {
            return Err(ImportError::Several(words.to_vec()));
        }
        return of_line(vec![words.to_vec()]);
    };
    let path = Path::new(only);
    let is_manifest = is_manifest(only);
    let is_word = !only.contains(char::is_whitespace);
    let file = if path.is_file() && (is_word || is_manifest) {
        path.to_owned()
    } else if is_word && only.ends_with(SERVICE) {
        let mut paths = UNIT_DIRECTORIES.iter().map(|dir| Path::new(dir).join(only));
        let found = paths.find(|path| path.is_file());
        found.ok_or_else(|| ImportError::NoUnit(only.clone()))?
    } else if is_word && is_manifest {
        let source = io::Error::from(io::ErrorKind::NotFound);
        let path = path.to_owned();
        return Err(ImportError::Read { path, source });
    } else {
        return of_line(command_line(only));
    };
    let text = read_file(&file)?;
    let source = file.display().to_string();
    if !is_manifest {
        return Ok(Source::Commands(source, commands(&text)));
    }
    match RegistrarContainer::all(&text) {
        Ok(containers) => Ok(Source::Containers(source, containers)),
        Err(source) => Err(ImportError::Manifest { path: file, source }),
    }
}

fn is_manifest(file: &str) -> bool {
    let extension = Path::new(file).extension();
    let extension = extension.and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| MANIFESTS.contains(&extension))
}

fn read_file(path: &Path) -> Result<String, ImportError> {
    let failed = |source| ImportError::Read {
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    let read = file.take(LARGEST + 1).read_to_string(&mut text);
    if read.map_err(failed)? as u64 > LARGEST {
        return Err(ImportError::Large(path.to_owned()));
    }
    Ok(text)
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
    notes.extend(without_effect(&flags, &ignored));
    let keys = keys(&sources)?;
    let import = Imported {
        place: None,
        keys,
        notes,
    };
    configuration(source, vec![import], &[], present)
}

/// The configuration of all containers, and those that are left out, with the reason.
fn translate_containers(
    source: &str,
    containers: &[RegistrarContainer],
    present: Option<&Loaded>,
) -> Result<(String, Vec<String>), ImportError> {
    let (mut imports, mut left_out) = (Vec::new(), Vec::new());
    let mut together = Sources::default();
    for container in containers {
        match of_container(container, present) {
            Ok((flags, import)) => {
                flags.put_into(&mut together)?;
                imports.push(import);
            }
            Err(why) => {
                let why = printable(&on_one_line(&why.to_string()));
                left_out.push(format!("{}: left out: {why}", container.place));
            }
        }
    }
    if imports.is_empty() {
        return Err(ImportError::NoneLeft {
            file: source.to_owned(),
            why: left_out,
        });
    }
    let toml = configuration(source, imports, &left_out, present)?;
    // Drivers that are valid alone may have one socket together.
    config::load(&together)?;
    Ok((toml, left_out))
}

/// The flags of a container with the paths of the host, and the keys that they set.
fn of_container(
    container: &RegistrarContainer,
    present: Option<&Loaded>,
) -> Result<(NdrFlags, Imported), ImportError> {
    let mut notes = Vec::new();
    let command = resolved(container, &mut notes)?;
    let (mut flags, ignored) = parse(&command)?;
    if let Some(path) = of_windows(&flags) {
        return Err(ImportError::Windows(printable(path)));
    }
    notes.extend(flags.move_to_host(|path| container.on_host(path)));
    let settings = present.map(|present| present.settings.clone());
    let socket = settings.unwrap_or_default().driver(&flags.id()).csi_socket;
    if flags.csi_address.as_deref().map(Path::new) != Some(&socket) {
        notes.push(format!(
            "the driver on the host should listen on {}; then remove csi_socket and endpoint",
            socket.display()
        ));
    }
    notes.extend(without_effect(&flags, &ignored));
    let mut sources = Sources::default();
    flags.put_into(&mut sources)?;
    let keys = keys(&sources)?;
    let place = Some(container.place.clone());
    Ok((flags, Imported { place, keys, notes }))
}

/// A path such as `C:\csi\csi.sock`.
fn of_windows(flags: &NdrFlags) -> Option<&str> {
    let paths = [
        &flags.csi_address,
        &flags.kubelet_registration_path,
        &flags.plugin_registration_path,
    ];
    let mut paths = paths.into_iter().flatten().map(|path| without_scheme(path));
    paths.find(|path| path.contains('\\') || path.as_bytes().get(1) == Some(&b':'))
}

/// The command without the flags whose value is not in the manifest. A path must have a value.
fn resolved(
    container: &RegistrarContainer,
    notes: &mut Vec<String>,
) -> Result<Vec<String>, ImportError> {
    let mut command = Vec::new();
    for word in &container.command {
        let Some(why) = container.unresolved(word) else {
            command.push(word.clone());
            continue;
        };
        match go_flags::split(word) {
            Some((name, Some(_))) if !PATHS.contains(&name) => {
                notes.push(format!("not imported: {}: {why}", printable(word)));
            }
            _ => {
                let flag = printable(word);
                return Err(ImportError::Variable { flag, why });
            }
        }
    }
    Ok(command)
}

/// What the flags do not do here.
fn without_effect(flags: &NdrFlags, ignored: &[String]) -> Vec<String> {
    let without = flags.without_effect().into_iter().map(str::to_owned);
    let ignored = (!ignored.is_empty()).then(|| format!("no effect: {}", ignored.join(" ")));
    without.chain(ignored).collect()
}

fn keys(sources: &Sources) -> Result<Vec<ImportedKey>, ImportError> {
    let explained = config::load(sources)?.provenance().into_iter();
    Ok(explained.filter_map(ImportedKey::of).collect())
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

#[cfg(test)]
mod tests;
