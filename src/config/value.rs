//! Values: paths, durations, addresses and lists, as a file spells them.

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use glob::Pattern;
use serde::Serializer;
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

use crate::disk::socket::SUN_PATH_MAX;
use crate::grpc::client::without_scheme;

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

/// The name of a Node in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeName(String);

/// Why a key cannot have a value.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error("must be an absolute path")]
    Relative,
    #[error("must be an absolute path or \"auto\"")]
    Root,
    #[error("must be an absolute path, or empty")]
    RelativeOrEmpty,
    #[error(
        "must be the name of a Node: lower-case letters, digits, `-` and `.`, at most 253 characters"
    )]
    NodeName,
    #[error("must not contain `..`")]
    Parent,
    #[error("must not contain a NUL character")]
    Nul,
    #[error("must name a socket, not the root directory")]
    NoFile,
    #[error("has {0} bytes, and the path of a socket has at most {SUN_PATH_MAX}")]
    LongSocket(usize),
    #[error("must be a duration such as \"5s\", \"2m\" or \"1h30m\": {0}")]
    Duration(humantime::DurationError),
    #[error("must be a duration such as \"30m\", or \"never\": {0}")]
    Withdrawal(humantime::DurationError),
    #[error("must be a duration such as \"5s\", \"2m\" or \"1h30m\"{0}")]
    DurationNumber(Seconds),
    #[error("must be a duration such as \"30m\", or \"never\"{0}")]
    WithdrawalNumber(Seconds),
    #[error("must be at least {}", humantime::format_duration(SHORTEST))]
    Short,
    #[error("must be at most {0} hours")]
    Long(u64),
    #[error("must be an address with a port such as \"127.0.0.1:9809\", \"unix:/path\", or empty")]
    Listen,
    #[error("must be a list of strings")]
    List,
    #[error("must have at least one version")]
    NoVersion,
    #[error("must not have an empty entry")]
    EmptyEntry,
    #[error("{0:?} contains `/` or NUL, which no driver id has")]
    Pattern(String),
    #[error("{0:?} is not a pattern: {1}")]
    Wildcard(String, &'static str),
}

/// The number that a file has in the place of a duration; none if it is no number of seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seconds(Option<u64>);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .map_or(Ok(()), |seconds| write!(f, ": write \"{seconds}s\""))
    }
}

/// A value that a file spells as a string.
pub(super) trait Text: Sized {
    fn parse(text: &str) -> Result<Self, Unfit>;
    fn spell(&self) -> String;

    /// Why the value cannot be a number, if there is more to say than that it must be a string.
    fn refuse_number(_seconds: Seconds) -> Option<Unfit> {
        None
    }
}

/// Reads a value that a file spells as a string.
struct Spelled<T>(PhantomData<T>);

impl<T: Text> Spelled<T> {
    fn refuse<E: Error>(&self, number: Unexpected<'_>, seconds: Option<u64>) -> E {
        let seconds = Seconds(seconds.filter(|seconds| *seconds > 0));
        match T::refuse_number(seconds) {
            Some(unfit) => E::custom(unfit),
            None => E::invalid_type(number, self),
        }
    }
}

impl<T: Text> Visitor<'_> for Spelled<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::parse(text).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        Err(self.refuse(Unexpected::Unsigned(number), Some(number)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        let seconds = u64::try_from(number).ok();
        Err(self.refuse(Unexpected::Signed(number), seconds))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        Err(self.refuse(Unexpected::Float(number), None))
    }
}

/// A path is kept without `.`, doubled or trailing slashes.
impl Text for PathBuf {
    fn parse(text: &str) -> Result<Self, Unfit> {
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

    fn spell(&self) -> String {
        self.display().to_string()
    }
}

impl Text for RootDir {
    fn parse(text: &str) -> Result<Self, Unfit> {
        match PathBuf::parse(text) {
            _ if text == "auto" => Ok(Self::Auto),
            Err(Unfit::Relative) => Err(Unfit::Root),
            path => path.map(Self::Path),
        }
    }

    fn spell(&self) -> String {
        match self {
            Self::Path(root) => root.spell(),
            Self::Auto => "auto".to_owned(),
        }
    }
}

impl Text for Option<PathBuf> {
    fn parse(text: &str) -> Result<Self, Unfit> {
        match PathBuf::parse(text) {
            _ if text.is_empty() => Ok(None),
            Err(Unfit::Relative) => Err(Unfit::RelativeOrEmpty),
            path => path.map(Some),
        }
    }

    fn spell(&self) -> String {
        self.as_ref().map_or_else(String::new, PathBuf::spell)
    }
}

impl NodeName {
    /// The name, if the API server can have a Node of this name: it becomes part of a URL.
    pub(crate) fn parse(text: &str) -> Option<NodeName> {
        let is_inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let is_part = |part: &str| {
            let ends = [part.as_bytes().first(), part.as_bytes().last()];
            part.bytes().all(is_inner) && ends.iter().all(|end| !matches!(end, None | Some(b'-')))
        };
        let is_name = text.len() <= 253 && text.split('.').all(is_part);
        is_name.then(|| NodeName(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Text for Option<NodeName> {
    fn parse(text: &str) -> Result<Self, Unfit> {
        match text {
            "" => Ok(None),
            _ => NodeName::parse(text).map(Some).ok_or(Unfit::NodeName),
        }
    }

    fn spell(&self) -> String {
        let name = self.as_ref().map(NodeName::as_str);
        name.unwrap_or_default().to_owned()
    }
}

impl Text for Duration {
    fn parse(text: &str) -> Result<Self, Unfit> {
        parse_span(text, LONGEST_HOURS, Unfit::Duration)
    }

    fn refuse_number(seconds: Seconds) -> Option<Unfit> {
        Some(Unfit::DurationNumber(seconds))
    }

    fn spell(&self) -> String {
        humantime::format_duration(*self).to_string()
    }
}

/// How long a driver may be gone; `None` is for ever.
impl Text for Option<Duration> {
    fn parse(text: &str) -> Result<Self, Unfit> {
        match text {
            "never" => Ok(None),
            _ => parse_span(text, LONGEST_WITHDRAWAL_HOURS, Unfit::Withdrawal).map(Some),
        }
    }

    fn spell(&self) -> String {
        self.map_or_else(|| "never".to_owned(), |span| span.spell())
    }

    fn refuse_number(seconds: Seconds) -> Option<Unfit> {
        Some(Unfit::WithdrawalNumber(seconds))
    }
}

fn parse_span(
    text: &str,
    hours: u64,
    unfit: fn(humantime::DurationError) -> Unfit,
) -> Result<Duration, Unfit> {
    match humantime::parse_duration(text).map_err(unfit)? {
        span if span < SHORTEST => Err(Unfit::Short),
        span if span > Duration::from_secs(hours * 3600) => Err(Unfit::Long(hours)),
        span => Ok(span),
    }
}

impl Text for Option<Listen> {
    fn parse(text: &str) -> Result<Self, Unfit> {
        if text.is_empty() {
            return Ok(None);
        }
        Ok(Some(match text.strip_prefix("unix:") {
            Some(path) => Listen::Unix(parse_socket(path)?),
            None => Listen::Tcp(text.parse().map_err(|_| Unfit::Listen)?),
        }))
    }

    fn spell(&self) -> String {
        self.as_ref().map_or_else(String::new, Listen::to_string)
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => write!(f, "{address}"),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

fn parse_socket(text: &str) -> Result<PathBuf, Unfit> {
    let path = PathBuf::parse(text)?;
    if path.file_name().is_none() {
        return Err(Unfit::NoFile);
    }
    fits_socket(&path)?;
    Ok(path)
}

pub(super) fn fits_socket(path: &Path) -> Result<(), Unfit> {
    match path.as_os_str().len() {
        0..=SUN_PATH_MAX => Ok(()),
        long => Err(Unfit::LongSocket(long)),
    }
}

/// For `#[serde(with = "value")]`.
pub(super) fn serialize<T: Text, S: Serializer>(value: &T, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&value.spell())
}

/// For `#[serde(with = "value")]`.
pub(super) fn deserialize<'de, T: Text, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
    d.deserialize_str(Spelled(PhantomData))
}

/// A socket may be spelled as an address of gRPC, as drivers spell their `--endpoint`.
pub(super) fn socket<'de, D: Deserializer<'de>>(d: D) -> Result<PathBuf, D::Error> {
    let address = String::deserialize(d)?;
    parse_socket(without_scheme(&address)).map_err(D::Error::custom)
}

pub(super) fn versions<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    let versions = list(d, |version| match version.trim() {
        "" => Err(Unfit::EmptyEntry),
        _ => Ok(()),
    })?;
    match versions.is_empty() {
        true => Err(D::Error::custom(Unfit::NoVersion)),
        false => Ok(versions),
    }
}

pub(super) fn patterns<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    list(d, |pattern| match pattern {
        "" => Err(Unfit::EmptyEntry),
        _ if pattern.contains(['/', '\0']) => Err(Unfit::Pattern(pattern.to_owned())),
        _ => match Pattern::new(pattern) {
            Ok(_) => Ok(()),
            Err(error) => Err(Unfit::Wildcard(pattern.to_owned(), error.msg)),
        },
    })
}

/// The message shows the whole list, so a wrong entry is a fault of the list.
fn list<'de, D: Deserializer<'de>>(
    d: D,
    check: fn(&str) -> Result<(), Unfit>,
) -> Result<Vec<String>, D::Error> {
    let list: Vec<String> = Vec::deserialize(d).map_err(|_| D::Error::custom(Unfit::List))?;
    let mut entries = list.iter();
    entries
        .try_for_each(|entry| check(entry))
        .map_err(D::Error::custom)?;
    Ok(list)
}
