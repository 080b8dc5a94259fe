//! The completions of real shells in a terminal, loaded as the packages install them.

use std::fs;
use std::path::Path;

use bed::scene::SOON;
use bed::{Scene, eventually, has_program};

use crate::tmux::Tmux;
use crate::{PROGRAM, setup};

const COMMAND: &str = "node-storage-driver-registrar";

/// How a shell is started so that it knows only our completions, which are the file in `directory`.
type Start = fn(directory: &Path) -> String;

const SHELLS: [(&str, &str, Start); 3] = [
    ("bash", "node-storage-driver-registrar.bash", |directory| {
        let rc = directory.join("rc");
        let script = directory.join("node-storage-driver-registrar.bash");
        let (rc, script) = (rc.display(), script.display());
        format!("echo \"PS1='ready> '; source {script}\" >{rc}; exec bash --rcfile {rc} -i")
    }),
    ("zsh", "_node-storage-driver-registrar", |directory| {
        let (rc, directory) = (directory.join(".zshrc"), directory.display());
        let lines = format!(
            "PS1='ready> '; fpath=({directory} $fpath); autoload -U compinit; compinit -u -D"
        );
        format!(
            "echo \"{}\" >{}; ZDOTDIR={directory} exec zsh -d -i",
            lines.replace('$', "\\$"),
            rc.display()
        )
    }),
    ("fish", "node-storage-driver-registrar.fish", |directory| {
        let directory = directory.display();
        format!(
            "HOME={directory} exec fish --no-config -C 'function fish_prompt; echo \"ready> \"; end; \
             set -g fish_greeting; set -g fish_complete_path {directory} $fish_complete_path'"
        )
    }),
];

/// The shell, in a terminal.
fn shell(scene: &Scene, shell: &str, file: &str, start: Start) -> Tmux {
    let directory = scene.node.root().join(shell);
    fs::create_dir(&directory).unwrap();
    let script = scene.registrar.succeed(&["completions", shell]).stdout;
    fs::write(directory.join(file), script).unwrap();
    let program = bed::registrar::chosen(PROGRAM);
    let path = program.parent().unwrap().display();
    let line = format!(
        "export PATH={path}:$PATH; cd {}; {}",
        directory.display(),
        start(&directory)
    );
    let tmux = Tmux::start(scene, &line);
    tmux.wait("ready>");
    tmux
}

/// Types a line and Tab, until the terminal shows these words.
#[track_caller]
fn completes(tmux: &Tmux, typed: &str, words: &str) {
    tmux.run(&["send-keys", "-l", &format!("{COMMAND} {typed}")]);
    tmux.run(&["send-keys", "Tab"]);
    tmux.wait_joined(words);
    discard(tmux);
}

/// Discards the line: not by Ctrl-C, at which a terminal also discards the next keys.
fn discard(tmux: &Tmux) {
    tmux.run(&["send-keys", "C-u", "C-l"]);
    eventually("the line is discarded", SOON, || {
        !tmux.screen(&[]).contains(COMMAND)
    });
}

#[test]
fn commands_options_and_values_complete_in_every_shell() {
    let scene = setup().set();
    for (name, file, start) in SHELLS {
        if !has_program(name) || !has_program("tmux") {
            continue;
        }
        let tmux = shell(&scene, name, file, start);
        completes(&tmux, "stat", "status");
        completes(&tmux, "status --wat", "--watch");
        completes(&tmux, "wait --for regis", "registered");
        fs::write(scene.node.root().join(name).join("a-file"), "").unwrap();
        completes(&tmux, "inspect ./a-f", "./a-file");
    }
}
