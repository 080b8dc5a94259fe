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
use std::sync::mpsc::{
    Receiver, Sender, SyncSender, TryRecvError, TrySendError, channel, sync_channel,
};
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
    items: SyncSender<Item>,
    dropped: Arc<AtomicU64>,
}

/// Waits, when it is dropped, until the last lines are written. Without it, they would be lost when
/// the process ends.
pub(super) struct Flush(SyncSender<Item>);

enum Item {
    Line(Line),
    /// The thread drops it when it has written all lines before it.
    Flush(Sender<()>),
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
    let (items, received) = sync_channel(CAPACITY);
    let dropped = Arc::new(AtomicU64::new(0));
    let queue = Queue {
        items: items.clone(),
        dropped: Arc::clone(&dropped),
    };
    thread::Builder::new()
        .name("log".to_owned())
        .stack_size(STACK)
        .spawn(move || write(&received, &dropped, open))?;
    Ok((queue, Flush(items)))
}

fn write<S: Subscriber>(
    items: &Receiver<Item>,
    dropped: &AtomicU64,
    open: impl Fn() -> io::Result<S>,
) {
    let mut writer = None;
    loop {
        let item = match items.try_recv() {
            Err(TryRecvError::Empty) => {
                if writer.is_some() {
                    report_dropped(dropped);
                }
                items.recv().ok()
            }
            item => item.ok(),
        };
        match item {
            Some(Item::Line(line)) => {
                if writer.is_none() {
                    writer = open().ok();
                }
                match &writer {
                    Some(writer) => line.write_to(writer),
                    None => drop(dropped.fetch_add(1, Ordering::Relaxed)),
                }
            }
            Some(Item::Flush(done)) => drop(done),
            None => return,
        }
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
        // The queue is full, or the thread has ended.
        if self.items.try_send(Item::Line(Line::of(event))).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        let (done, waiting) = channel();
        let deadline = Instant::now() + FLUSH_TIMEOUT;
        let mut flush = Item::Flush(done);
        // While the queue is full, journald may still take lines.
        while let Err(TrySendError::Full(item)) = self.0.try_send(flush) {
            if Instant::now() >= deadline {
                return;
            }
            flush = item;
            thread::sleep(Duration::from_millis(1));
        }
        // The thread answers by dropping `done`. When journald blocks, these lines are lost.
        let rest = deadline.saturating_duration_since(Instant::now());
        waiting.recv_timeout(rest).unwrap_or_default();
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
        let dropped = Arc::clone(&queue.dropped);
        with_default(&Dispatch::new(registry().with(queue)), || {
            for number in 0..2 * CAPACITY {
                tracing::info!(number, name = "so", missing = None::<u64>, "said {number}");
            }
        });
        // The thread may hold a further line.
        let counted = dropped.load(Ordering::Relaxed);
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
