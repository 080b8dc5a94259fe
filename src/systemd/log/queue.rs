//! Lines on their way to a log that may hang. A thread of its own writes them, so that nothing else
//! waits for the log; while it takes no lines, a bounded number is kept and the rest is counted.
//!
//! journald that is stopped or busy no longer empties its socket, and tracing-journald waits for room
//! there. Its socket is its own, so that it cannot be told not to.

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

/// Lines that are kept while the log takes none: a thousand drivers that start at once have about
/// as many.
const MOST: usize = 1024;

/// How long the end of the process waits for the last lines.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Formatting a line takes little.
const STACK: usize = 256 * 1024;

/// The layer that takes lines in.
pub(super) struct Queue {
    entries: SyncSender<QueuedLine>,
    lost: Arc<AtomicU64>,
}

/// Waits for the last lines when it is dropped, which the end of the process would cut off.
pub(super) struct Flush {
    entries: SyncSender<QueuedLine>,
}

enum QueuedLine {
    Line(Line),
    /// All before it are written when this is dropped.
    Flush(Sender<()>),
}

/// What an event said, kept for longer than the event.
struct Line {
    metadata: &'static Metadata<'static>,
    /// In the order of the metadata's fields.
    values: Vec<Option<String>>,
}

/// Starts the thread. `open` makes what writes a line, there, because that may take as long as a line
/// may; it is asked again with the next line if it fails.
pub(super) fn start<S, F>(open: F) -> io::Result<(Queue, Flush)>
where
    S: Subscriber,
    F: Fn() -> io::Result<S> + Send + 'static,
{
    let (entries, taken) = sync_channel(MOST);
    let lost = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&lost);
    thread::Builder::new()
        .name("log".to_owned())
        .stack_size(STACK)
        .spawn(move || write(&taken, &counted, open))?;
    let flush = Flush {
        entries: entries.clone(),
    };
    Ok((Queue { entries, lost }, flush))
}

fn write<S: Subscriber>(
    entries: &Receiver<QueuedLine>,
    lost: &AtomicU64,
    open: impl Fn() -> io::Result<S>,
) {
    let mut writer = None;
    loop {
        let entry = match entries.try_recv() {
            Err(TryRecvError::Empty) => {
                if writer.is_some() {
                    tell_of_the_lost(lost);
                }
                entries.recv().ok()
            }
            entry => entry.ok(),
        };
        match entry {
            Some(QueuedLine::Line(line)) => {
                if writer.is_none() {
                    writer = open().ok();
                }
                match &writer {
                    Some(writer) => line.write_to(writer),
                    None => count(lost),
                }
            }
            Some(QueuedLine::Flush(done)) => drop(done),
            None => return,
        }
    }
}

/// The log takes lines, and has taken all that were kept. This one comes to the queue as any other.
fn tell_of_the_lost(lost: &AtomicU64) {
    let lines = lost.swap(0, Ordering::Relaxed);
    if lines > 0 {
        tracing::warn!(
            lines,
            "{lines} log lines were lost: there were more of them than the journal took"
        );
    }
}

fn count(lost: &AtomicU64) {
    lost.fetch_add(1, Ordering::Relaxed);
}

impl<S: Subscriber> Layer<S> for Queue {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let entry = QueuedLine::Line(Line::of(event));
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.entries.try_send(entry)
        {
            count(&self.lost);
        }
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        let (done, waiting) = channel();
        let deadline = Instant::now() + LAST_WORDS;
        let mut last = QueuedLine::Flush(done);
        // While the queue is full, the log may still take what is in it.
        while let Err(TrySendError::Full(entry)) = self.entries.try_send(last) {
            if Instant::now() >= deadline {
                return;
            }
            last = entry;
            thread::sleep(Duration::from_millis(1));
        }
        // The answer is that the other end is dropped. A log that hangs has lost these lines.
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

    fn put(&mut self, field: &Field, value: String) {
        if let Some(place) = self.values.get_mut(field.index()) {
            *place = Some(value);
        }
    }

    /// The event once more, with each value as its text, which is all that a log writes.
    fn write_to(&self, writer: &impl Subscriber) {
        let values: Vec<Option<&dyn Value>> = self
            .values
            .iter()
            .map(|value| value.as_ref().map(|text| text as &dyn Value))
            .collect();
        let values = self.metadata.fields().value_set_all(&values);
        writer.event(&Event::new(self.metadata, &values));
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tracing::dispatcher::{Dispatch, with_default};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::registry;

    use super::*;

    /// A log that takes lines only when it is let, and passes them on as text.
    struct Gate {
        open: Mutex<Receiver<()>>,
        written: Sender<String>,
    }

    impl<S: Subscriber> Layer<S> for Gate {
        fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
            // Open when the other end is dropped.
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
        let lost = Arc::clone(&queue.lost);
        with_default(&Dispatch::new(registry().with(queue)), || {
            for number in 0..2 * MOST {
                tracing::info!(number, name = "so", missing = None::<u64>, "said {number}");
            }
        });
        // The thread may hold one line more.
        let counted = lost.load(Ordering::Relaxed);
        assert!([MOST - 1, MOST].map(|lost| lost as u64).contains(&counted));
        drop(key);
        drop(flush);
        // The end of the process does not wait for long, and a busy machine may take longer.
        let kept = 2 * MOST - usize::try_from(counted).unwrap();
        let next = || lines.recv_timeout(Duration::from_secs(60)).unwrap();
        let said: Vec<String> = (0..kept).map(|_| next()).collect();
        assert!(lines.try_recv().is_err(), "no more than were kept");
        assert_eq!(said[..2], ["said 0 0 so", "said 1 1 so"]);
    }
}
