//! Where log lines go: the journal when systemd runs us, stderr otherwise.

mod queue;

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;

use thiserror::Error;
use tracing::Level;
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry, reload};

use self::queue::{Flush, Queue};
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

/// The log. To be held until the last line is said.
pub(crate) struct Log {
    pub(crate) filter: Filter,
    _last_words: Option<Flush>,
}

/// How much the log says.
#[derive(Clone)]
pub(crate) struct Filter(reload::Handle<Targets, Registry>);

impl Filter {
    /// Says this much from now on.
    pub(crate) fn set_level(&self, level: LogLevel) {
        if let Err(error) = self.0.reload(only_ours(level)) {
            tracing::warn!(%error, "cannot change the log level");
        }
    }
}

/// Sets the log up, once for the process.
pub(crate) fn init(settings: &LogSettings) -> Result<Log, LogError> {
    let queued = match settings.target {
        LogTarget::Journald => Some(journal().map_err(LogError::Journal)?),
        LogTarget::Auto if stderr_is_the_journal() => journal().ok(),
        LogTarget::Auto | LogTarget::Stderr | LogTarget::Json => None,
    };
    let (queue, flush) = queued.unzip();
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match (queue, settings.target) {
        (Some(queue), _) => queue.boxed(),
        (None, LogTarget::Json) => tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_writer(io::stderr)
            .boxed(),
        (None, LogTarget::Auto | LogTarget::Journald | LogTarget::Stderr) => plain(),
    };
    let (filter, handle) = reload::Layer::new(only_ours(settings.level));
    tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .try_init()?;
    Ok(Log {
        filter: Filter(handle),
        _last_words: flush,
    })
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

/// The journal behind a queue, if there is one.
fn journal() -> io::Result<(Queue, Flush)> {
    let knock = UnixDatagram::unbound()?;
    knock.set_nonblocking(true)?;
    match knock.send_to(&[], JOURNAL) {
        // It is there, and has no room for the moment.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        knocked => drop(knocked?),
    }
    queue::start(|| Ok(tracing_subscriber::registry().with(journal_layer()?)))
}

fn journal_layer() -> io::Result<tracing_journald::Layer> {
    Ok(tracing_journald::layer()?
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
