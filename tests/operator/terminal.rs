//! `status --watch` in a real terminal, which tmux is.

use std::process::{Command, Output};

use bed::eventually;

use crate::scene::{NAME, SOON, Scene, has, stdout};

/// A tmux server of its own, ended when it is dropped.
struct Tmux {
    socket: String,
}

impl Tmux {
    fn start(scene: &Scene, command: &str) -> Tmux {
        let tmux = Tmux {
            socket: scene.node.root().join("tmux").display().to_string(),
        };
        let started = tmux.run(&["new-session", "-d", "-x", "80", "-y", "24", command]);
        assert!(started.status.success(), "{started:?}");
        tmux
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new("tmux")
            .args(["-f", "/dev/null", "-S", &self.socket])
            .args(arguments)
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX")
            .output()
            .unwrap()
    }

    /// What is on the screen; with `-e`, with its colours.
    fn screen(&self, more: &[&str]) -> String {
        let mut arguments = vec!["capture-pane", "-p"];
        arguments.extend(more);
        stdout(&self.run(&arguments))
    }

    #[track_caller]
    fn wait(&self, words: &str) -> String {
        eventually(words, SOON, || {
            let screen = self.screen(&[]);
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

fn watching(scene: &Scene, environment: &str) -> Tmux {
    let line = scene.command_line("status").join(" ");
    let command = format!("env {environment} {line} --watch; echo \"ended with $?\"; sleep 600");
    Tmux::start(scene, &command)
}

#[test]
fn watching_shows_a_driver_from_waiting_to_registered_in_place() {
    if !has("tmux") {
        return;
    }
    let scene = Scene::started(&[NAME], "");
    scene.phase(NAME, "waiting-for-driver");
    let tmux = watching(&scene, "A=b");
    tmux.wait("waiting-for-driver");
    let _driver = scene.node.driver(NAME);
    tmux.wait("waiting-for-kubelet");
    let _kubelet = scene.node.kubelet();
    let screen = tmux.wait("by the kubelet, pid");
    assert_eq!(screen.matches("DRIVER").count(), 1, "{screen}");
    assert!(!screen.contains("waiting"), "{screen}");
    let coloured = tmux.screen(&["-e"]);
    assert!(coloured.contains("\u{1b}[32mregistered"), "{coloured:?}");
    tmux.run(&["send-keys", "C-c"]);
    let screen = tmux.wait("ended with 0");
    assert!(screen.contains("registered"), "{screen}");
}

#[test]
fn no_color_is_honoured_on_a_terminal() {
    if !has("tmux") {
        return;
    }
    let scene = Scene::started(&[NAME], "");
    scene.phase(NAME, "waiting-for-driver");
    let tmux = watching(&scene, "NO_COLOR=1");
    tmux.wait("waiting-for-driver");
    let screen = tmux.screen(&["-e"]);
    assert!(!screen.contains('\u{1b}'), "{screen:?}");
}
