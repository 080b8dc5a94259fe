//! Where log lines go: the journal when systemd runs us, stderr otherwise.

use std::env;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use thiserror::Error;
use tracing::Level;
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry, reload};

use crate::config::{LogLevel, LogSettings, LogTarget};

/// The name that the journal files our lines under, whatever the binary is called.
const IDENTIFIER: &str = "node-storage-driver-registrar";

/// Where the journal takes lines with fields.
const JOURNAL: &str = "/run/systemd/journal/socket";

/// Why there is no log.
#[derive(Debug, Error)]
pub(crate) enum LogError {
    #[error("cannot reach the journal (log.target = \"journald\"): {0}")]
    Journal(#[source] io::Error),
    #[error("cannot set up the log: {0}")]
    Twice(#[from] TryInitError),
}

/// The log, whose level can be changed.
pub(crate) struct Log {
    filter: reload::Handle<Targets, Registry>,
}

impl Log {
    /// Says this much from now on.
    pub(crate) fn set_level(&self, level: LogLevel) {
        if let Err(error) = self.filter.reload(only_ours(level)) {
            tracing::warn!(%error, "cannot change the log level");
        }
    }
}

/// Sets the log up, once for the process.
pub(crate) fn init(settings: &LogSettings) -> Result<Log, LogError> {
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match settings.target {
        LogTarget::Journald => journal()?.boxed(),
        LogTarget::Auto if stderr_is_the_journal() => match journal() {
            Ok(journal) => journal.boxed(),
            Err(_) => plain(),
        },
        LogTarget::Auto | LogTarget::Stderr => plain(),
        LogTarget::Json => tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_writer(io::stderr)
            .boxed(),
    };
    let (filter, handle) = reload::Layer::new(only_ours(settings.level));
    tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .try_init()?;
    Ok(Log { filter: handle })
}

/// The HTTP/2 libraries speak of every frame; only our own words help an operator.
fn only_ours(level: LogLevel) -> Targets {
    Targets::new().with_target(env!("CARGO_CRATE_NAME"), filter(level))
}

fn plain() -> Box<dyn Layer<Registry> + Send + Sync> {
    // The journal's ids mean nothing on a terminal.
    let fields = debug_fn(|writer, field, value| match field.name() {
        "message_id" => Ok(()),
        "message" => write!(writer, "{value:?}"),
        name => write!(writer, " {name}={value:?}"),
    });
    tracing_subscriber::fmt::layer()
        .fmt_fields(fields)
        .with_target(false)
        .with_ansi(false)
        .with_writer(io::stderr)
        .boxed()
}

fn journal() -> Result<tracing_journald::Layer, LogError> {
    let layer = impatient_layer().map_err(LogError::Journal)?;
    Ok(layer
        .with_field_prefix(None)
        .with_syslog_identifier(IDENTIFIER.to_owned())
        // By default tracing-journald files info as notice and debug as info.
        .with_priority_mappings(PriorityMappings {
            error: Priority::Error,
            warn: Priority::Warning,
            info: Priority::Informational,
            debug: Priority::Debug,
            trace: Priority::Debug,
        }))
}

/// A layer that loses a line rather than wait for room. A journal that hangs no longer empties its
/// socket, and a send that waits would take the kubelet's answers down with it.
///
/// To be called while this process has one thread: the layer's own socket is known by its number.
fn impatient_layer() -> io::Result<tracing_journald::Layer> {
    let knock = UnixDatagram::unbound()?;
    knock.set_nonblocking(true)?;
    // As the layer does, which would wait.
    knock.send_to(&[], JOURNAL)?;
    let next = knock.as_raw_fd();
    drop(knock);
    let layer = tracing_journald::layer()?;
    if !fs::read_link(format!("/proc/self/fd/{next}"))?
        .to_string_lossy()
        .starts_with("socket:")
    {
        return Err(io::Error::other(
            "the journal's socket is not known by its number",
        ));
    }
    #[expect(unsafe_code, reason = "a descriptor that is known by its number")]
    // SAFETY: it is open, as the look has shown, and the layer that owns it outlives this function.
    let socket = unsafe { BorrowedFd::borrow_raw(next) };
    let flags = fcntl_getfl(socket)?;
    fcntl_setfl(socket, flags | OFlags::NONBLOCK)?;
    Ok(layer)
}

/// systemd names the device and inode of the stream that it has connected to the journal.
fn stderr_is_the_journal() -> bool {
    let (Ok(stream), Ok(stderr)) = (env::var("JOURNAL_STREAM"), fs::metadata("/proc/self/fd/2"))
    else {
        return false;
    };
    stream == format!("{}:{}", stderr.dev(), stderr.ino())
}

fn filter(level: LogLevel) -> LevelFilter {
    LevelFilter::from_level(match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    })
}
