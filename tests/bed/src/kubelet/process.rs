//! The test kubelet in its own process, with its own pid, which a test can kill.
//!
//! # Where the process comes from
//!
//! `cargo test` builds no binary of a dev-dependency, and cargo run from inside a test would build for
//! minutes (other features, hence other dependencies) and could find a stale binary. So the running
//! executable starts itself again, with [`ASKED`] in the environment and arguments that make libtest
//! run a single test, the one that `kubelet_process!` declares. It always exists, it is the build under
//! test, and parallel test processes share nothing on disk.

use std::io::{BufRead, BufReader, Write};
use std::ops::Deref;
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::child::{ASKED, Command, Report, Start};
use super::ledger::{Counts, Ledger, Mark};
use super::record::Event;
use super::settings::{Faults, Settings};
use crate::container::Container;
use crate::process::Process;

/// Declares the entry through which this test executable can become a kubelet.
///
/// One line in the root of each test binary that uses
/// [`KubeletProcess`](crate::kubelet::KubeletProcess).
#[macro_export]
macro_rules! kubelet_process {
    () => {
        #[test]
        #[ignore = "no test: KubeletProcess starts it"]
        fn kubelet_process() {
            $crate::kubelet::become_kubelet_if_asked();
        }
    };
}

const PATIENCE: Duration = Duration::from_secs(20);

/// A kubelet with its own pid; its [`Ledger`] has everything it did.
pub struct KubeletProcess {
    settings: Settings,
    faults: Faults,
    ledger: Arc<Ledger>,
    running: Option<Running>,
    /// The container that it runs in.
    view: Option<Container>,
}

struct Running {
    process: Process,
    talk: Mutex<Talk>,
    reader: thread::JoinHandle<()>,
}

/// One command at a time, and then its answer.
struct Talk {
    commands: ChildStdin,
    done: Receiver<Faults>,
}

impl KubeletProcess {
    /// Starts it. When this returns, its sockets listen and, unless the watcher has a delay, it has
    /// watched and walked plugins_registry.
    pub fn start(settings: Settings) -> Self {
        Self::start_in(None, settings)
    }

    /// The same in a container; the settings have the container's paths.
    pub fn start_in(view: impl Into<Option<Container>>, settings: Settings) -> Self {
        let mut kubelet = Self {
            view: view.into(),
            settings,
            faults: Faults::default(),
            ledger: Ledger::new(),
            running: None,
        };
        kubelet.begin();
        kubelet
    }

    /// The process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.process.pid())
    }

    /// The present position, for later queries. What the kubelet has done before is before it: a record comes through a
    /// pipe, and the registrar may know of a registration first.
    pub fn mark(&self) -> Mark {
        self.catch_up();
        self.ledger.mark()
    }

    /// Counts of the events after the mark, with all that the kubelet has done by now.
    pub fn counts_since(&self, mark: Mark) -> Counts {
        self.catch_up();
        self.ledger.counts_since(mark)
    }

    /// Waits until the ledger has all that the kubelet has done by now: an answer comes after the records before it.
    fn catch_up(&self) {
        if let Some(running) = &self.running {
            running.tell(&Command::AskFaults);
        }
    }

    /// Ends it with SIGKILL and waits for its end. API objects stay.
    pub fn kill9(&mut self) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        // Its end closes the pipe that the reader reads.
        let status = running.process.end();
        running.reader.join().unwrap();
        self.faults.lose_notify = 0;
        self.ledger.write(Event::Stopped);
        // After the ledger is complete, and not during another panic.
        if status.signal() != Some(9) && !thread::panicking() {
            panic!("the test kubelet had ended by itself: {status}");
        }
    }

    /// Kills it if it runs, and starts it again.
    pub fn restart(&mut self) {
        self.kill9();
        self.begin();
    }

    /// The same with other settings, such as another release.
    pub fn restart_as(&mut self, settings: Settings) {
        self.settings = settings;
        self.restart();
    }

    /// How it was started.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The directory that it watches.
    pub fn plugins_registry(&self) -> std::path::PathBuf {
        self.settings.plugins_registry()
    }

    /// Switches faults on or off; they persist across restarts, except an unused `lose_notify`, which
    /// ends with its process.
    pub fn fault(&mut self, change: impl FnOnce(&mut Faults)) {
        if let Some(running) = &self.running {
            self.faults = running.tell(&Command::AskFaults);
        }
        change(&mut self.faults);
        if let Some(running) = &self.running {
            running.tell(&Command::Faults(self.faults.clone()));
        }
    }

    /// Removes a label from the node, as kubectl would.
    pub fn remove_label(&mut self, key: &str) {
        match &self.running {
            Some(running) => {
                running.tell(&Command::RemoveLabel(key.to_owned()));
            }
            None => self.ledger.change_cluster(|cluster| {
                cluster.labels.remove(key);
            }),
        }
    }

    fn begin(&mut self) {
        let start = Command::Start(Box::new(Start {
            settings: self.settings.clone(),
            faults: self.faults.clone(),
            cluster: self.ledger.cluster(),
            generation: self.ledger.generation(),
            origin: self.ledger.origin(),
        }));
        self.ledger.begin_generation();
        let running = Running::spawn(&self.ledger, self.view.as_ref());
        running.tell(&start);
        self.running = Some(running);
    }
}

impl Running {
    fn spawn(ledger: &Arc<Ledger>, view: Option<&Container>) -> Self {
        // The link in /proc, unlike a path, is correct even if cargo has replaced the file.
        let program = format!("/proc/{}/exe", std::process::id());
        let mut command = match view {
            Some(view) => view.command(program),
            None => std::process::Command::new(program),
        };
        command
            .args(["--exact", "kubelet_process", "--ignored", "--nocapture"])
            .args(["--test-threads", "1"])
            .env(ASKED, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = Process::start(&mut command);
        let lines = BufReader::new(process.stdout()).lines();
        let ledger = Arc::clone(ledger);
        let (sender, done) = channel();
        let reader = thread::spawn(move || {
            for line in lines {
                read(&line.unwrap(), &ledger, &sender);
            }
        });
        let commands = process.stdin();
        Self {
            process,
            talk: Mutex::new(Talk { commands, done }),
            reader,
        }
    }

    /// Sends a command and waits until it has taken effect.
    fn tell(&self, command: &Command) -> Faults {
        let mut talk = self.talk.lock().unwrap();
        let mut line = serde_json::to_string(command).unwrap();
        line.push('\n');
        let sent = talk.commands.write_all(line.as_bytes()).is_ok();
        let answer = talk.done.recv_timeout(PATIENCE);
        match answer {
            Ok(faults) if sent => faults,
            _ => panic!(
                "the test kubelet does not answer; is `bed::kubelet_process!();` at the top of this test file?"
            ),
        }
    }
}

/// Ignores the other lines, which are libtest's.
fn read(line: &str, ledger: &Ledger, done: &Sender<Faults>) {
    match serde_json::from_str(line) {
        Ok(Report::Entry(entry)) => ledger.copy(entry),
        // The test may no longer wait for the answer.
        Ok(Report::Done(faults)) => drop(done.send(faults)),
        Err(_) => {}
    }
}

impl Deref for KubeletProcess {
    type Target = Ledger;
    fn deref(&self) -> &Ledger {
        &self.ledger
    }
}

impl Drop for KubeletProcess {
    fn drop(&mut self) {
        self.kill9();
    }
}
