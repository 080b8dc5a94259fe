//! The queue of log lines between the daemon and journald. If journald blocks, messages are dropped.
//!
//! A journald that is stopped or busy no longer empties its socket, and tracing-journald waits for
//! room there; its socket is private to it, so that we cannot make it non-blocking. Therefore a thread
//! writes the lines. While that thread is blocked, the queue keeps a limited number of lines and
//! counts the rest.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tracing::field::{Field, Value, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// A thousand drivers that start at the same time write about as many lines.
const CAPACITY: usize = 1024;

/// How long the end of the process waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// Formatting a line takes little.
const STACK: usize = 256 * 1024;

/// The layer that puts lines into the queue.
pub(super) struct Queue {
    lines: SyncSender<Line>,
    counts: Arc<Counts>,
}

/// Waits, when it is dropped, until the last lines are written. Without it, they would be lost when
/// the process ends.
pub(super) struct Flush(Arc<Counts>);

#[derive(Default)]
struct Counts {
    /// Lines that are in the queue, or that the thread writes.
    waiting: AtomicU64,
    /// Lines that were dropped since the last report.
    dropped: AtomicU64,
}

/// An event that outlives the call that made it.
struct Line {
    metadata: &'static Metadata<'static>,
    /// In the order of the metadata's fields.
    values: Vec<Option<String>>,
}

/// Starts the thread. It calls `open` for the subscriber that writes the lines, because `open` may
/// block as well, and calls it again for the next line when it fails.
pub(super) fn start<S: Subscriber>(
    open: impl Fn() -> io::Result<S> + Send + 'static,
) -> io::Result<(Queue, Flush)> {
    let (lines, received) = sync_channel(CAPACITY);
    let counts = Arc::<Counts>::default();
    let (written, flush) = (Arc::clone(&counts), Flush(Arc::clone(&counts)));
    thread::Builder::new()
        .name("log".to_owned())
        .stack_size(STACK)
        .spawn(move || write(&received, &written, open))?;
    Ok((Queue { lines, counts }, flush))
}

fn write<S: Subscriber>(lines: &Receiver<Line>, counts: &Counts, open: impl Fn() -> io::Result<S>) {
    let mut writer = None;
    loop {
        let line = match lines.try_recv() {
            Err(TryRecvError::Empty) => {
                if writer.is_some() {
                    report_dropped(&counts.dropped);
                }
                lines.recv().ok()
            }
            line => line.ok(),
        };
        let Some(line) = line else { return };
        writer = writer.or_else(|| open().ok());
        match &writer {
            Some(writer) => line.write_to(writer),
            None => drop(counts.dropped.fetch_add(1, Ordering::Relaxed)),
        }
        counts.waiting.fetch_sub(1, Ordering::Release);
    }
}

/// journald has taken all lines of the queue. This line goes through the queue like any other.
fn report_dropped(dropped: &AtomicU64) {
    let lines = dropped.swap(0, Ordering::Relaxed);
    if lines > 0 {
        tracing::warn!(
            lines,
            "{lines} log lines were dropped while journald blocked"
        );
    }
}

impl<S: Subscriber> Layer<S> for Queue {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        // The queue is full, or the thread has ended.
        if self.lines.try_send(Line::of(event)).is_err() {
            self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        // When journald blocks, the lines that still wait after the deadline are lost.
        let deadline = Instant::now() + FLUSH_TIMEOUT;
        while self.0.waiting.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Line {
    fn of(event: &Event<'_>) -> Line {
        let metadata = event.metadata();
        let mut line = Line {
            metadata,
            values: vec![None; metadata.fields().len()],
        };
        event.record(&mut line);
        line
    }

    /// Repeats the event with each value as text, which is all that a log line has.
    fn write_to(&self, writer: &impl Subscriber) {
        let values = self.values.iter().map(|value| Some(value as &dyn Value));
        let values: Vec<Option<&dyn Value>> = values.collect();
        let values = self.metadata.fields().value_set_all(&values);
        writer.event(&Event::new(self.metadata, &values));
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.values[field.index()] = Some(value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.values[field.index()] = Some(format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use tracing::dispatcher::{Dispatch, with_default};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::registry;

    use super::*;

    /// A log that takes lines only while it is open, and passes them on as text.
    struct Gate {
        open: Mutex<Receiver<()>>,
        written: Sender<String>,
    }

    impl<S: Subscriber> Layer<S> for Gate {
        fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
            // Open after the other end is dropped.
            self.open.lock().unwrap().recv().unwrap_or_default();
            let words: Vec<String> = Line::of(event).values.into_iter().flatten().collect();
            self.written.send(words.join(" ")).unwrap();
        }
    }

    #[test]
    fn a_log_that_hangs_holds_nobody_up_and_has_the_first_lines_when_it_goes_on() {
        let (key, open) = channel();
        let (written, lines) = channel();
        let gate = Mutex::new(Some(Gate {
            open: Mutex::new(open),
            written,
        }));
        let (queue, flush) = start(move || {
            let gate = gate.lock().unwrap().take();
            Ok(registry().with(gate.unwrap()))
        })
        .unwrap();
        let counts = Arc::clone(&queue.counts);
        with_default(&Dispatch::new(registry().with(queue)), || {
            for number in 0..2 * CAPACITY {
                tracing::info!(number, name = "so", missing = None::<u64>, "said {number}");
            }
        });
        // The thread may hold a further line.
        let counted = counts.dropped.load(Ordering::Relaxed);
        assert!(
            [CAPACITY - 1, CAPACITY]
                .map(|lines| lines as u64)
                .contains(&counted)
        );
        drop(key);
        drop(flush);
        // `Flush` waits for half a second at most; a busy machine may take longer.
        let kept = 2 * CAPACITY - usize::try_from(counted).unwrap();
        let next = || lines.recv_timeout(Duration::from_secs(60)).unwrap();
        let said: Vec<String> = (0..kept).map(|_| next()).collect();
        assert!(lines.try_recv().is_err(), "no more than were kept");
        assert_eq!(said[..2], ["said 0 0 so", "said 1 1 so"]);
    }
}
