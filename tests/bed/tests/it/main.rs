//! The bed's own tests: the fakes do what kubelet.md says, before anything is tested against them.

mod crowd;
mod fake_driver;
mod kubelet_process;
mod plugin_watcher;
mod registration_call;
mod scene;
mod stand_in;

bed::kubelet_process!();
