//! The state file in the runtime directory: when it is written, and whether the directory is still ours.

use tokio::sync::oneshot;

use super::Supervisor;
use super::saved_state::SavedState;
use crate::disk::runtime_dir::{RuntimeDir, RuntimeError};

/// state.json, the directory that it is in, and the kubelets that wait for the next write.
#[derive(Default)]
pub(super) struct StateFile {
    /// None where no runtime directory can be had.
    runtime: Option<RuntimeDir>,
    /// Why the runtime directory that was deleted is not made again.
    trouble: Option<String>,
    /// Another instance has the runtime directory.
    taken: Option<RuntimeError>,
    dirty: bool,
    /// The last write failed.
    failing: bool,
    /// Kubelets that get their answer when the state is written.
    unanswered: Vec<oneshot::Sender<()>>,
}

impl StateFile {
    pub(super) fn new(runtime: Option<RuntimeDir>) -> StateFile {
        StateFile {
            runtime,
            ..StateFile::default()
        }
    }

    pub(super) fn runtime(&self) -> Option<&RuntimeDir> {
        self.runtime.as_ref()
    }

    /// What an earlier run wrote.
    pub(super) fn load(&self) -> Option<SavedState> {
        SavedState::load(&self.runtime.as_ref()?.state())
    }

    /// The state has to be written at the end of the turn.
    pub(super) fn changed(&mut self) {
        self.dirty = true;
    }

    pub(super) fn answer_after_save(&mut self, kubelet: oneshot::Sender<()>) {
        self.unanswered.push(kubelet);
    }

    /// The write has to be tried again soon. A directory that cannot be made is no more urgent than
    /// the slow look.
    pub(super) fn is_failing(&self) -> bool {
        self.failing && self.trouble.is_none()
    }

    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.clone()
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken.is_some()
    }

    /// Why the runtime directory is another instance's.
    pub(super) fn taken(&mut self) -> Option<RuntimeError> {
        self.taken.take()
    }

    /// Makes sure that the runtime directory exists and the lock in it is ours. Where the directory
    /// cannot be made, the next slow look tries again. Tells whether it had been deleted and is ours again.
    fn hold(&mut self) -> bool {
        let Some(runtime) = &mut self.runtime else {
            return false;
        };
        let path = runtime.path().display().to_string();
        if runtime.is_held() {
            if self.trouble.take().is_some() {
                tracing::info!(%path, "the runtime directory exists again");
            }
            return false;
        }
        match runtime.take_again() {
            Ok(()) => {
                tracing::warn!(%path, "the runtime directory or its lock was deleted, and is taken again");
                self.trouble = None;
                self.dirty = true;
                return true;
            }
            Err(error @ RuntimeError::Held { .. }) => self.taken = Some(error),
            Err(error) => {
                let trouble = format!(
                    "{error}; commands do not reach the daemon, and a restart may cost a registration"
                );
                if self.trouble.as_ref() != Some(&trouble) {
                    tracing::error!("{trouble}");
                    self.trouble = Some(trouble);
                }
            }
        }
        false
    }

    fn write(&mut self, state: &SavedState) {
        let Some(path) = self.runtime.as_ref().map(RuntimeDir::state) else {
            return;
        };
        let written = state.save(&path);
        // There may be no other occasion to write for months.
        self.dirty = written.is_err();
        let was_failing = std::mem::replace(&mut self.failing, self.dirty);
        let path = path.display();
        match written {
            Ok(()) if was_failing => tracing::info!(%path, "the state can be written again"),
            Err(error) if !was_failing => {
                tracing::warn!(%error, %path, "cannot write the state; a restart may cost a registration");
            }
            Ok(()) | Err(_) => {}
        }
    }

    pub(super) fn answer_kubelets(&mut self) {
        for kubelet in self.unanswered.drain(..) {
            if kubelet.send(()).is_err() {
                tracing::debug!("a kubelet left before it had its answer");
            }
        }
    }
}

impl Supervisor {
    pub(super) fn hold_runtime(&mut self) {
        if self.state_file.hold() {
            // The control socket has a place again.
            self.looks.send_replace(());
        }
    }

    /// Writes the state if it has changed.
    pub(super) fn save(&mut self) {
        if !self.state_file.dirty || self.state_file.runtime.is_none() {
            return;
        }
        // Another instance's state is not overwritten.
        self.hold_runtime();
        if self.state_file.trouble.is_some() || self.state_file.is_taken() {
            return;
        }
        let runners = self.runners.values();
        let drivers = runners.map(|runner| (runner.id.to_string(), runner.saved()));
        let checked = self.cluster_checked;
        let state = SavedState::new(&self.kubelets, &self.layout, checked, drivers.collect());
        self.state_file.write(&state);
    }
}
