//! The log: journald when systemd connected our stderr to it, stderr otherwise.

mod queue;

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;

use thiserror::Error;
use tracing::Level;
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry, reload};

use self::queue::{Flush, Queue};
use crate::config::{LogLevel, LogSettings, LogTarget};

/// SYSLOG_IDENTIFIER of our lines, whatever the name of the binary is.
const IDENTIFIER: &str = "node-storage-driver-registrar";

/// The socket on which journald takes lines with fields.
const JOURNAL: &str = "/run/systemd/journal/socket";

/// Why the log cannot be set up.
#[derive(Debug, Error)]
pub(crate) enum LogError {
    #[error("cannot reach journald (log.target = \"journald\"): {0}")]
    Journal(#[source] io::Error),
    #[error("cannot set up the log: {0}")]
    Twice(#[from] TryInitError),
}

/// The log. The process keeps it until its last line.
pub(crate) struct Log {
    pub(crate) filter: Filter,
    _flush: Option<Flush>,
}

/// The level of the log, which a reload may change.
#[derive(Clone)]
pub(crate) struct Filter(reload::Handle<Targets, Registry>);

impl Filter {
    pub(crate) fn set_level(&self, level: LogLevel) {
        if let Err(error) = self.0.reload(only_ours(level)) {
            tracing::warn!(%error, "cannot change the log level");
        }
    }
}

/// Sets up the log, once for the process.
pub(crate) fn init(settings: &LogSettings) -> Result<Log, LogError> {
    let queued = match settings.target {
        LogTarget::Journald => Some(journal().map_err(LogError::Journal)?),
        LogTarget::Auto if stderr_is_the_journal() => journal().ok(),
        LogTarget::Auto | LogTarget::Stderr | LogTarget::Json => None,
    };
    let (layer, flush) = match queued {
        Some((queue, flush)) => (queue.boxed(), Some(flush)),
        None if settings.target == LogTarget::Json => (json(), None),
        None => (plain(), None),
    };
    let (filter, handle) = reload::Layer::new(only_ours(settings.level));
    tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .try_init()?;
    Ok(Log {
        filter: Filter(handle),
        _flush: flush,
    })
}

/// The HTTP/2 libraries log every frame; only our own lines help an operator.
fn only_ours(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    Targets::new().with_target(env!("CARGO_CRATE_NAME"), level)
}

fn json() -> Box<dyn Layer<Registry> + Send + Sync> {
    tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_writer(io::stderr)
        .boxed()
}

fn plain() -> Box<dyn Layer<Registry> + Send + Sync> {
    // journald's message ids mean nothing on a terminal.
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

/// The queue before journald, if journald listens.
fn journal() -> io::Result<(Queue, Flush)> {
    let probe = UnixDatagram::unbound()?;
    probe.set_nonblocking(true)?;
    match probe.send_to(&[], JOURNAL) {
        // journald listens, and has no room at the moment.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        sent => drop(sent?),
    }
    queue::start(|| Ok(tracing_subscriber::registry().with(journal_layer()?)))
}

fn journal_layer() -> io::Result<tracing_journald::Layer> {
    Ok(tracing_journald::layer()?
        .with_field_prefix(None)
        .with_syslog_identifier(IDENTIFIER.to_owned())
        // By default tracing-journald maps info to notice and debug to info.
        .with_priority_mappings(PriorityMappings {
            error: Priority::Error,
            warn: Priority::Warning,
            info: Priority::Informational,
            debug: Priority::Debug,
            trace: Priority::Debug,
        }))
}

/// systemd names the device and inode of the stream that it has connected to journald.
pub(crate) fn stderr_is_the_journal() -> bool {
    let (Ok(stream), Ok(stderr)) = (env::var("JOURNAL_STREAM"), fs::metadata("/proc/self/fd/2"))
    else {
        return false;
    };
    stream == format!("{}:{}", stderr.dev(), stderr.ino())
}
