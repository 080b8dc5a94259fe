//! systemd's end of `NOTIFY_SOCKET`: a datagram socket that keeps every message.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A listener that ends when it is dropped.
pub struct NotifySocket {
    path: PathBuf,
    socket: UnixDatagram,
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    messages: Mutex<Vec<Message>>,
    came: Condvar,
    ended: AtomicBool,
}

/// One datagram.
#[derive(Debug, Clone)]
pub struct Message {
    /// When it came.
    pub at: Instant,
    /// The assignments in it; the later of two with the same key.
    pub fields: BTreeMap<String, String>,
}

impl Message {
    /// Whether it says `KEY=value`.
    pub fn says(&self, assignment: &str) -> bool {
        let (key, value) = split(assignment);
        self.fields.get(key).is_some_and(|found| found == value)
    }
}

impl NotifySocket {
    /// Binds the socket; the directory must exist.
    pub fn bind(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let socket = UnixDatagram::bind(&path).unwrap();
        Self::listen(path, socket)
    }

    /// Binds an abstract socket, which has no file; `NOTIFY_SOCKET` has an `@` before its name.
    pub fn bind_abstract(name: &str) -> Self {
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        Self::listen(PathBuf::from(format!("@{name}")), socket)
    }

    fn listen(path: PathBuf, socket: UnixDatagram) -> Self {
        let shared = Arc::<Shared>::default();
        let thread = thread::spawn({
            let socket = socket.try_clone().unwrap();
            let shared = Arc::clone(&shared);
            move || collect(&socket, &shared)
        });
        Self {
            path,
            socket,
            shared,
            thread: Some(thread),
        }
    }

    /// The value for `NOTIFY_SOCKET`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All messages so far.
    pub fn messages(&self) -> Vec<Message> {
        self.shared.messages.lock().unwrap().clone()
    }

    /// How many messages say `KEY=value`.
    pub fn count(&self, assignment: &str) -> usize {
        let messages = self.shared.messages.lock().unwrap();
        let said = messages.iter().filter(|message| message.says(assignment));
        said.count()
    }

    /// The latest value of a key.
    pub fn latest(&self, key: &str) -> Option<String> {
        let messages = self.shared.messages.lock().unwrap();
        let mut values = messages.iter().rev();
        values.find_map(|message| message.fields.get(key).cloned())
    }

    /// The latest `STATUS=`.
    pub fn status(&self) -> Option<String> {
        self.latest("STATUS")
    }

    /// Waits for a message, earlier ones included, that says `KEY=value`, such as `READY=1`.
    #[track_caller]
    pub fn wait_for(&self, assignment: &str, deadline: Duration) -> Message {
        self.wait_until(assignment, deadline, |message| message.says(assignment))
    }

    /// Waits for a status, earlier ones included, that has `text` in it.
    #[track_caller]
    pub fn wait_for_status(&self, text: &str, deadline: Duration) -> Message {
        let what = format!("STATUS=…{text}…");
        self.wait_until(&what, deadline, |message| {
            let status = message.fields.get("STATUS");
            status.is_some_and(|status| status.contains(text))
        })
    }

    #[track_caller]
    fn wait_until(
        &self,
        what: &str,
        deadline: Duration,
        wanted: impl Fn(&Message) -> bool,
    ) -> Message {
        let end = Instant::now() + deadline;
        let mut messages = self.shared.messages.lock().unwrap();
        loop {
            if let Some(found) = messages.iter().find(|message| wanted(message)) {
                return found.clone();
            }
            let Some(left) = end.checked_duration_since(Instant::now()) else {
                let said: Vec<_> = messages.iter().map(|message| &message.fields).collect();
                panic!("no {what} within {deadline:?}; told: {said:#?}");
            };
            messages = self.shared.came.wait_timeout(messages, left).unwrap().0;
        }
    }
}

fn collect(socket: &UnixDatagram, shared: &Shared) {
    let mut buffer = [0; 8192];
    loop {
        let received = socket.recv(&mut buffer);
        if shared.ended.load(Ordering::SeqCst) {
            return;
        }
        let text = String::from_utf8_lossy(&buffer[..received.unwrap()]).into_owned();
        let fields = text
            .lines()
            .map(split)
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        shared.messages.lock().unwrap().push(Message {
            at: Instant::now(),
            fields,
        });
        shared.came.notify_all();
    }
}

fn split(assignment: &str) -> (&str, &str) {
    assignment.split_once('=').unwrap_or((assignment, ""))
}

impl Drop for NotifySocket {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        // Wakes the thread out of recv.
        self.socket.shutdown(Shutdown::Both).unwrap();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_every_message() {
        let dir = tempfile::tempdir().unwrap();
        let notify = NotifySocket::bind(dir.path().join("notify"));
        let daemon = UnixDatagram::unbound().unwrap();
        daemon
            .send_to(b"READY=1\nSTATUS=1 of 2\n", notify.path())
            .unwrap();
        daemon.send_to(b"STATUS=2 of 2", notify.path()).unwrap();
        notify.wait_for_status("2 of 2", Duration::from_secs(5));
        notify.wait_for("READY=1", Duration::from_secs(5));
        assert_eq!(notify.status().as_deref(), Some("2 of 2"));
        assert_eq!(notify.count("READY=1"), 1);
    }
}
