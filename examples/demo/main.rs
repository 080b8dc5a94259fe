//! The registrar at work between a driver and a kubelet, step by step, in a temporary directory.
//!
//! `cargo run --release --example demo`
//!
//! One executable has all roles: it starts itself again as the real registrar, and as the test bed's
//! kubelet. The driver runs on a thread.

mod cast;
mod leftovers;
mod patience;
mod screen;
mod story;

use std::process::ExitCode;

use bed::Node;

use crate::screen::Screen;

fn main() -> ExitCode {
    bed::kubelet::become_kubelet_if_asked();
    if let Some(code) = cast::become_registrar_if_asked() {
        return code;
    }
    let node = Node::new();
    let screen = Screen::new(node.root());
    match leftovers::remove_at_any_end(node.root()).and_then(|()| story::tell(&node, &screen)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            screen.failed(&failure.to_string());
            ExitCode::FAILURE
        }
    }
}
