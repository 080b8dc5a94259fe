//! The bed's own tests: the fakes behave as kubelet.md says.

mod api_server;
mod callers;
mod fake_driver;
mod kubelet_process;
mod kubelet_volumes;
mod plugin_watcher;
mod registration_call;
mod scene;
mod stand_in;

bed::kubelet_process!();
