//! A listener on a Unix socket that does not speak gRPC.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{Shutdown, shutdown};

/// Listens until it is dropped; its socket file stays, as after a kill.
pub struct RawListener {
    listener: UnixListener,
    ended: Arc<AtomicBool>,
    met: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl RawListener {
    /// Accepts every connection, keeps it open and sends nothing.
    pub fn silent(path: &Path) -> RawListener {
        RawListener::listen(path, Some)
    }

    /// The same, renamed over the socket at `path`.
    pub fn instead(path: &Path) -> RawListener {
        let beside = path.with_extension("stranger");
        let stranger = RawListener::silent(&beside);
        fs::rename(beside, path).unwrap();
        stranger
    }

    /// Closes every connection at once.
    pub fn curt(path: &Path) -> RawListener {
        RawListener::listen(path, |_| None)
    }

    /// Sends these bytes on every connection, and keeps it open.
    pub fn saying(path: &Path, words: &'static [u8]) -> RawListener {
        RawListener::listen(path, move |mut stream| {
            stream.write_all(words).ok().map(|()| stream)
        })
    }

    /// Sends `start`, and then `again` without end.
    pub fn flooding(path: &Path, start: &'static [u8], again: &'static [u8]) -> RawListener {
        RawListener::listen(path, move |mut stream| {
            thread::spawn(move || {
                let mut said = stream.write_all(start);
                while said.is_ok() {
                    said = stream.write_all(again);
                }
            });
            None
        })
    }

    /// Sends these bytes on every connection, one at a time, and then closes it.
    pub fn dripping(path: &Path, words: &'static [u8], pause: Duration) -> RawListener {
        RawListener::listen(path, move |mut stream| {
            thread::spawn(move || {
                let mut bytes = words.chunks(1);
                while bytes
                    .next()
                    .is_some_and(|byte| stream.write_all(byte).is_ok())
                {
                    thread::sleep(pause);
                }
            });
            None
        })
    }

    /// Forwards everything to `behind`, and closes the connection soon after the first bytes came back.
    pub fn fickle(path: &Path, behind: PathBuf) -> RawListener {
        RawListener::listen(path, move |stream| {
            let behind = UnixStream::connect(&behind).unwrap();
            thread::spawn(move || {
                let there = (stream.try_clone().unwrap(), behind.try_clone().unwrap());
                let pump = thread::spawn(move || copy(there.0, there.1));
                behind
                    .set_read_timeout(Some(Duration::from_millis(5)))
                    .unwrap();
                copy(behind.try_clone().unwrap(), stream.try_clone().unwrap());
                // The other side may have closed it first.
                drop(stream.shutdown(std::net::Shutdown::Both));
                drop(behind.shutdown(std::net::Shutdown::Both));
                pump.join().unwrap();
            });
            None
        })
    }

    /// How many connections it has accepted.
    pub fn met(&self) -> usize {
        self.met.load(Ordering::SeqCst)
    }

    /// `manner` returns a connection that stays open.
    fn listen(
        path: &Path,
        manner: impl Fn(UnixStream) -> Option<UnixStream> + Send + 'static,
    ) -> RawListener {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(path).unwrap();
        let (ended, met) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let thread = thread::spawn({
            let (listener, ended, met) =
                (listener.try_clone().unwrap(), ended.clone(), met.clone());
            move || {
                let mut held = Vec::new();
                while let Ok((stream, _)) = listener.accept() {
                    if ended.load(Ordering::SeqCst) {
                        return;
                    }
                    met.fetch_add(1, Ordering::SeqCst);
                    held.extend(manner(stream));
                }
            }
        });
        RawListener {
            listener,
            ended,
            met,
            thread: Some(thread),
        }
    }
}

impl Drop for RawListener {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the thread out of accept.
        shutdown(self.listener.as_raw_fd(), Shutdown::Both).unwrap();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Until either side closes, or `from` is quiet after its first bytes.
fn copy(mut from: UnixStream, mut to: UnixStream) {
    let mut buffer = [0; 4096];
    let mut heard = false;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                heard = true;
                if to.write_all(&buffer[..length]).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && !heard => {}
            Err(_) => return,
        }
    }
}
