//! A CSI driver on a Unix socket: Identity, Controller and Node, answering as its [`Behaviour`] says.

mod answers;
mod behaviour;
mod connection;
mod listener;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

pub use behaviour::{Answer, Behaviour, Call, Closing, Controller, Listening, Probe};
use tokio::sync::watch;

use crate::worker::Worker;

/// A running (or stopped) driver.
pub struct FakeDriver {
    path: PathBuf,
    shared: Arc<Shared>,
    state: State,
}

/// The present state of the socket.
enum State {
    /// No listener: the socket file is missing or stale.
    Down,
    /// Bound and not listening: only the descriptor exists.
    Bound(OwnedFd),
    /// A thread serves it, and ends with this value.
    Up { _worker: Worker },
}

/// Shared by the handle and the serving thread.
struct Shared {
    behaviour: Mutex<Behaving>,
    calls: Mutex<BTreeMap<Call, usize>>,
    connections: Arc<AtomicUsize>,
    met: AtomicUsize,
    closing: watch::Sender<Closing>,
}

struct Behaving {
    behaviour: Behaviour,
    since: Instant,
}

impl FakeDriver {
    /// Binds `path` and behaves so from then on; the directory must exist.
    pub fn start(path: impl Into<PathBuf>, behaviour: Behaviour) -> Self {
        let mut driver = Self {
            path: path.into(),
            shared: Arc::new(Shared {
                closing: watch::Sender::new(behaviour.closing),
                behaviour: Mutex::new(Behaving::from(behaviour)),
                calls: Mutex::default(),
                connections: Arc::default(),
                met: AtomicUsize::default(),
            }),
            state: State::Down,
        };
        driver.come_up();
        driver
    }

    /// Like [`Self::start`], but creates the directory first, as most drivers do.
    pub fn start_in_new_directory(path: impl Into<PathBuf>, behaviour: Behaviour) -> Self {
        let path = path.into();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        Self::start(path, behaviour)
    }

    /// The path of its socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes the behaviour. Connections stay open, unless `listening` changes.
    ///
    /// From [`Listening::BoundOnly`] to [`Listening::Speaks`] is the `listen` that follows the
    /// `bind`, on the same socket file.
    pub fn change(&mut self, behaviour: Behaviour) {
        let before = self.behaviour().listening;
        let after = behaviour.listening;
        self.shared.behave(behaviour);
        match std::mem::replace(&mut self.state, State::Down) {
            State::Down => {}
            state if before == after => self.state = state,
            State::Bound(socket) if after != Listening::Refuses => self.serve(socket),
            state => {
                drop(state);
                self.come_up();
            }
        }
    }

    /// A graceful end: removes the socket file, then closes the connections.
    pub fn stop(&mut self) {
        listener::remove(&self.path);
        self.state = State::Down;
    }

    /// An end as by `kill -9`: connections close, and the stale socket file stays.
    pub fn kill(&mut self) {
        self.state = State::Down;
    }

    /// Ends as by [`Self::kill`] if it still runs, then starts again.
    pub fn restart(&mut self, behaviour: Behaviour) {
        self.kill();
        self.shared.behave(behaviour);
        self.come_up();
    }

    /// The present behaviour, for a change that goes to [`Self::change`].
    pub fn behaviour(&self) -> Behaviour {
        self.shared.behaviour.lock().unwrap().behaviour.clone()
    }

    /// How often each call was made since the first start, including hanging and failed calls.
    pub fn calls(&self) -> BTreeMap<Call, usize> {
        self.shared.calls.lock().unwrap().clone()
    }

    /// How often this call was made since the first start.
    pub fn called(&self, call: Call) -> usize {
        self.calls().get(&call).copied().unwrap_or(0)
    }

    /// Connections that are open now.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Connections that were made since the first start.
    pub fn met(&self) -> usize {
        self.shared.met.load(Ordering::SeqCst)
    }

    fn come_up(&mut self) {
        // A driver removes the old socket file without checking whether a process listens on it; the
        // registrar has to cope with exactly that.
        listener::remove(&self.path);
        let socket = listener::bind(&self.path);
        self.serve(socket);
    }

    fn serve(&mut self, socket: OwnedFd) {
        let shared = Arc::clone(&self.shared);
        self.state = match self.behaviour().listening {
            Listening::BoundOnly => State::Bound(socket),
            Listening::Refuses => State::Down,
            Listening::Speaks => {
                // Here and not on the thread: when start() returns, connect() succeeds.
                listener::listen(&socket);
                let _worker = Worker::spawn("fake-driver", || listener::speak(socket, shared));
                State::Up { _worker }
            }
            Listening::Mute => {
                listener::listen(&socket);
                let _worker = Worker::spawn("fake-driver", || listener::stay_mute(socket, shared));
                State::Up { _worker }
            }
        };
    }
}

impl Shared {
    fn behave(&self, behaviour: Behaviour) {
        self.closing.send_replace(behaviour.closing);
        *self.behaviour.lock().unwrap() = Behaving::from(behaviour);
    }
}

impl From<Behaviour> for Behaving {
    fn from(behaviour: Behaviour) -> Self {
        Self {
            behaviour,
            since: Instant::now(),
        }
    }
}

impl Drop for FakeDriver {
    fn drop(&mut self) {
        if !matches!(self.state, State::Down) {
            self.stop();
        }
    }
}
