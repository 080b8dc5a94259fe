//! The registrar's process: it starts, is stopped, is killed, and may end by itself.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use bed::eventually;
use nix::sys::signal::Signal;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::disk::Disk;
use crate::fault::{Directory, Scarce};
use crate::scene::{PATIENCE, STATE_FILE, Scene};

impl Scene {
    /// Starts the registrar, with or without enough inotify.
    pub(crate) fn start(&mut self, scarce: Option<Scarce>) {
        let lacks = match scarce {
            Some(Scarce::Instances) => "instances",
            Some(Scarce::Watches) => "watches",
            None => "nothing",
        };
        fs::write(self.node.root().join("lacks"), lacks).unwrap();
        self.born = self.log_length();
        self.is_short_of_inotify = scarce.is_some();
        self.oblivious_starts += usize::from(!self.in_runtime_dir(STATE_FILE).exists());
        self.registrar.start();
        self.registrar_is_down = false;
        // At its start it removes the leftovers that it can see.
        let hidden = |(_, directory): &(PathBuf, Directory)| *directory == Directory::Registry;
        self.registry_was_hidden = self.covered.iter().any(hidden);
    }

    /// `kill -9`, whatever it was doing.
    pub(crate) fn kill(&mut self) {
        if !self.registrar_is_down {
            self.registrar.signal(Signal::SIGKILL);
            self.reap();
        }
        self.registrar_is_down = true;
        self.registrar_is_frozen = false;
        self.limit = None;
    }

    /// Its end, which the test must have caused or a fault must explain.
    pub(crate) fn reap(&mut self) {
        let end = self.registrar.wait_exit(PATIENCE);
        let explained = end.signal() == Some(9) || self.run_was_full && end.code() == Some(1);
        assert!(explained, "the registrar ended by itself: {end}");
    }

    /// Restarts it, as systemd does with Restart=always.
    pub(crate) fn start_if_ended(&mut self) {
        if !self.registrar_is_down && !self.registrar.is_running() {
            self.reap();
            self.start(None);
        }
    }

    /// A graceful stop that leaves the drivers registered.
    pub(crate) fn stop(&mut self) {
        self.thaw();
        if !self.registrar_is_down {
            self.registrar.stop();
        }
        self.registrar_is_down = true;
        self.limit = None;
    }

    pub(crate) fn freeze(&mut self) {
        if self.registrar_is_down || self.registrar_is_frozen {
            return;
        }
        self.registrar.signal(Signal::SIGSTOP);
        let stat = format!("/proc/{}/stat", self.registrar.pid());
        let is = |state: &str| fs::read_to_string(&stat).unwrap().contains(state);
        // With a full runtime directory it may end first.
        eventually("the registrar is stopped", PATIENCE, || {
            is(") T ") || is(") Z ")
        });
        self.registrar_is_frozen = is(") T ");
    }

    pub(crate) fn thaw(&mut self) {
        if std::mem::take(&mut self.registrar_is_frozen) {
            self.registrar.signal(Signal::SIGCONT);
        }
    }

    /// Makes a change that the registrar sees only when it is complete.
    pub(crate) fn unseen<T>(&mut self, act: impl FnOnce(&mut Scene) -> T) -> T {
        let frozen = self.registrar_is_frozen;
        self.freeze();
        let done = act(self);
        if !frozen {
            self.thaw();
        }
        done
    }

    /// Makes sure that it runs: a fault needs a running registrar.
    pub(crate) fn rouse(&mut self) {
        self.thaw();
        if !self.registrar_is_down && self.is_up() {
            return;
        }
        // With a full runtime directory it does not start.
        self.free(Disk::Run);
        if self.registrar_is_down {
            self.start(None);
        }
        eventually("the registrar is up", PATIENCE, || {
            self.start_if_ended();
            self.is_up()
        });
    }

    /// Waits until it handles signals and listens. Before that, a reload or a lack of descriptors would
    /// end it.
    pub(crate) fn is_up(&self) -> bool {
        self.has_said(self.born, " http is ")
    }

    /// Reloads its configuration. Returns the line of the log that says so.
    pub(crate) fn reload(&mut self) -> String {
        self.rouse();
        let before = self.log_length();
        self.registrar.signal(Signal::SIGHUP);
        eventually("the configuration was read again", PATIENCE, || {
            let log = self.registrar.logs();
            let mut lines = log[before..].split_inclusive('\n');
            // Without a free descriptor the registrar refuses the reload.
            lines
                .find(|line| line.contains(" configuration was ") && line.ends_with('\n'))
                .map(str::to_owned)
        })
    }

    pub(crate) fn log_length(&self) -> usize {
        self.registrar.logs().len()
    }

    /// Whether its log has these words after so many bytes.
    pub(crate) fn has_said(&self, after: usize, words: &str) -> bool {
        self.registrar.logs()[after..].contains(words)
    }

    /// Lowers the limit to so many more open files.
    pub(crate) fn limit_descriptors(&mut self, more: u64) {
        let open = u64::try_from(self.registrar.fd_count()).unwrap();
        let before = self.set_limit(Rlimit {
            current: Some(open + more),
            maximum: None,
        });
        self.limit.get_or_insert(before);
    }

    /// The maximum stays as it is: without root it could not be raised again.
    pub(crate) fn set_limit(&self, mut limit: Rlimit) -> Rlimit {
        let pid = Pid::from_raw(self.registrar.pid().cast_signed());
        let now = rustix::process::getrlimit(Resource::Nofile);
        limit.maximum = now.maximum;
        prlimit(pid, Resource::Nofile, limit).unwrap()
    }
}
