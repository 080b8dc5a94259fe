//! A terminal, which tmux provides.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use bed::scene::SOON;
use bed::{Scene, eventually, stdout};

/// A separate tmux server, which ends when this is dropped.
pub(crate) struct Tmux {
    socket: String,
}

impl Tmux {
    /// On a new socket: a server that is still ending would end the next one on the same socket too.
    pub(crate) fn start(scene: &Scene, command: &str) -> Tmux {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let name = format!("tmux-{}", STARTED.fetch_add(1, Ordering::Relaxed));
        let tmux = Tmux {
            socket: scene.node.root().join(name).display().to_string(),
        };
        let started = tmux.run(&["new-session", "-d", "-x", "80", "-y", "24", command]);
        assert!(started.status.success(), "{started:?}");
        tmux
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        Command::new("tmux")
            .args(["-f", "/dev/null", "-S", &self.socket])
            .args(arguments)
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX")
            .output()
            .unwrap()
    }

    /// The text on the screen; with `-e`, with its colours.
    pub(crate) fn screen(&self, more: &[&str]) -> String {
        let mut arguments = vec!["capture-pane", "-p"];
        arguments.extend(more);
        stdout(&self.run(&arguments))
    }

    #[track_caller]
    pub(crate) fn wait(&self, words: &str) -> String {
        self.wait_on(&[], words)
    }

    /// The same, with lines joined that the terminal wrapped at its edge, as its clipboard does.
    #[track_caller]
    pub(crate) fn wait_joined(&self, words: &str) -> String {
        self.wait_on(&["-J"], words)
    }

    #[track_caller]
    fn wait_on(&self, more: &[&str], words: &str) -> String {
        eventually(words, SOON, || {
            let screen = self.screen(more);
            if screen.contains(words) {
                Ok(screen)
            } else {
                Err(screen)
            }
        })
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}
