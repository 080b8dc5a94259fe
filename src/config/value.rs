//! Single values as they are written in a file: paths, durations, addresses, lists.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};

use crate::disk::name::{DriverName, NameError};
use crate::disk::socket::SUN_PATH_MAX;

const LONGEST_HOURS: u64 = 24;
const LONGEST_WITHDRAWAL_HOURS: u64 = 365 * 24;
const SHORTEST: Duration = Duration::from_millis(1);

/// The kubelet's root directory, or the order to find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootDir {
    /// This directory.
    Path(PathBuf),
    /// The running kubelet's, found when the daemon starts.
    Auto,
}

/// Where HTTP is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// Why a value does not do.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error("must be an absolute path")]
    Relative,
    #[error("must be an absolute path or \"auto\"")]
    Root,
    #[error("must not contain `..`")]
    Parent,
    #[error("must not contain a NUL character")]
    Nul,
    #[error("must name a socket, not the root directory")]
    NoFile,
    #[error("is {0} bytes long, the path of a socket has at most {SUN_PATH_MAX}")]
    LongSocket(usize),
    #[error("must be a duration such as \"5s\", \"2m\" or \"1h30m\": {0}")]
    Duration(humantime::DurationError),
    #[error("must be a duration such as \"30m\", or \"never\": {0}")]
    Withdrawal(humantime::DurationError),
    #[error("must be at least {}", humantime::format_duration(SHORTEST))]
    Short,
    #[error("must be at most {0} hours")]
    Long(u64),
    #[error("must be an address with a port such as \"127.0.0.1:9809\", \"unix:/path\", or empty")]
    Listen,
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("must have at least one version")]
    NoVersion,
    #[error("must not have an empty entry")]
    EmptyEntry,
    #[error("must hold ids, and no id has the `/` or NUL of {0:?}")]
    Pattern(String),
}

/// A path without `.`, doubled or trailing slashes.
fn parse_path(text: &str) -> Result<PathBuf, Unfit> {
    let path = Path::new(text);
    if text.contains('\0') {
        return Err(Unfit::Nul);
    }
    if !path.is_absolute() {
        return Err(Unfit::Relative);
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(Unfit::Parent);
    }
    Ok(path.components().collect())
}

fn parse_socket(text: &str) -> Result<PathBuf, Unfit> {
    let path = parse_path(text)?;
    if path.file_name().is_none() {
        return Err(Unfit::NoFile);
    }
    fits_socket(&path)?;
    Ok(path)
}

pub(super) fn fits_socket(path: &Path) -> Result<(), Unfit> {
    match path.as_os_str().as_bytes().len() {
        0..=SUN_PATH_MAX => Ok(()),
        long => Err(Unfit::LongSocket(long)),
    }
}

fn parse_duration(text: &str) -> Result<Duration, Unfit> {
    within(
        humantime::parse_duration(text).map_err(Unfit::Duration)?,
        LONGEST_HOURS,
    )
}

fn parse_withdrawal(text: &str) -> Result<Option<Duration>, Unfit> {
    if text == "never" {
        return Ok(None);
    }
    let span = humantime::parse_duration(text).map_err(Unfit::Withdrawal)?;
    within(span, LONGEST_WITHDRAWAL_HOURS).map(Some)
}

fn within(span: Duration, hours: u64) -> Result<Duration, Unfit> {
    if span < SHORTEST {
        return Err(Unfit::Short);
    }
    if span > Duration::from_secs(hours * 3600) {
        return Err(Unfit::Long(hours));
    }
    Ok(span)
}

fn parse_root(text: &str) -> Result<RootDir, Unfit> {
    match text {
        "auto" => Ok(RootDir::Auto),
        _ => match parse_path(text) {
            Err(Unfit::Relative) => Err(Unfit::Root),
            path => path.map(RootDir::Path),
        },
    }
}

fn parse_listen(text: &str) -> Result<Option<Listen>, Unfit> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.strip_prefix("unix:") {
        Some(path) => parse_socket(path).map(|path| Some(Listen::Unix(path))),
        None => match text.parse() {
            Ok(address) => Ok(Some(Listen::Tcp(address))),
            Err(_) => Err(Unfit::Listen),
        },
    }
}

fn parse_versions(versions: Vec<String>) -> Result<Vec<String>, Unfit> {
    if versions.is_empty() {
        return Err(Unfit::NoVersion);
    }
    if versions.iter().any(|version| version.trim().is_empty()) {
        return Err(Unfit::EmptyEntry);
    }
    Ok(versions)
}

fn parse_patterns(patterns: Vec<String>) -> Result<Vec<String>, Unfit> {
    for pattern in &patterns {
        if pattern.is_empty() {
            return Err(Unfit::EmptyEntry);
        }
        if pattern.contains(['/', '\0']) {
            return Err(Unfit::Pattern(pattern.clone()));
        }
    }
    Ok(patterns)
}

fn read<'de, D, In, Out>(
    deserializer: D,
    parse: impl FnOnce(In) -> Result<Out, Unfit>,
) -> Result<Out, D::Error>
where
    D: Deserializer<'de>,
    In: Deserialize<'de>,
{
    parse(In::deserialize(deserializer)?).map_err(D::Error::custom)
}

pub(super) fn path<'de, D: Deserializer<'de>>(d: D) -> Result<PathBuf, D::Error> {
    read(d, |text: String| parse_path(&text))
}

pub(super) fn some_path<'de, D: Deserializer<'de>>(d: D) -> Result<Option<PathBuf>, D::Error> {
    path(d).map(Some)
}

pub(super) fn some_socket<'de, D: Deserializer<'de>>(d: D) -> Result<Option<PathBuf>, D::Error> {
    read(d, |text: String| parse_socket(&text)).map(Some)
}

pub(super) fn duration<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
    read(d, |text: String| parse_duration(&text))
}

pub(super) fn some_duration<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Duration>, D::Error> {
    duration(d).map(Some)
}

pub(super) fn withdrawal<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Duration>, D::Error> {
    read(d, |text: String| parse_withdrawal(&text))
}

pub(super) fn some_withdrawal<'de, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<Option<Duration>>, D::Error> {
    withdrawal(d).map(Some)
}

pub(super) fn root_dir<'de, D: Deserializer<'de>>(d: D) -> Result<RootDir, D::Error> {
    read(d, |text: String| parse_root(&text))
}

pub(super) fn listen<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Listen>, D::Error> {
    read(d, |text: String| parse_listen(&text))
}

pub(super) fn some_name<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    read(d, |name: String| {
        DriverName::parse(&name)?;
        Ok(Some(name))
    })
}

pub(super) fn some_versions<'de, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<Vec<String>>, D::Error> {
    read(d, parse_versions).map(Some)
}

pub(super) fn patterns<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    read(d, parse_patterns)
}
