//! The output in a real terminal, which tmux provides.

use std::path::PathBuf;

use bed::scene::{NAME, SOON};
use bed::{Behaviour, FakeDriver, Scene, eventually, has_program};

use crate::setup;
use crate::tmux::Tmux;

fn watching(scene: &Scene, environment: &str) -> Tmux {
    let line = scene.registrar.command_line("status").join(" ");
    let command = format!("env {environment} {line} --watch; echo \"ended with $?\"; sleep 600");
    Tmux::start(scene, &command)
}

#[test]
fn watching_shows_a_driver_from_waiting_to_registered_in_place() {
    if !has_program("tmux") {
        return;
    }
    let scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    let tmux = watching(&scene, "A=b");
    tmux.wait("waiting-for-driver");
    let _driver = scene.node.driver(NAME);
    tmux.wait("waiting-for-kubelet");
    let _kubelet = scene.node.kubelet();
    let screen = tmux.wait("registered by kubelet (pid");
    assert_eq!(screen.matches("DRIVER").count(), 1, "{screen}");
    assert!(!screen.contains("waiting"), "{screen}");
    let coloured = tmux.screen(&["-e"]);
    assert!(coloured.contains("\u{1b}[32mregistered"), "{coloured:?}");
    tmux.run(&["send-keys", "C-c"]);
    let screen = tmux.wait("ended with 0");
    assert!(screen.contains("registered"), "{screen}");
}

#[test]
fn watching_keeps_the_table_while_the_daemon_is_away_and_goes_on_when_it_is_back() {
    if !has_program("tmux") {
        return;
    }
    let mut scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    let tmux = watching(&scene, "A=b");
    tmux.wait("waiting-for-driver");
    scene.registrar.stop();
    let screen = tmux.wait("the daemon has not answered since 20");
    assert!(screen.contains("waiting-for-driver"), "{screen}");
    assert_eq!(screen.matches("DRIVER").count(), 1, "{screen}");
    eventually("the age goes on", SOON, || tmux.screen(&[]) != screen);
    scene.registrar.start();
    let _driver = scene.node.driver(NAME);
    let screen = tmux.wait("waiting-for-kubelet");
    assert!(!screen.contains("has not answered"), "{screen}");
    assert_eq!(screen.matches("DRIVER").count(), 1, "{screen}");
    scene.registrar.stop();
    tmux.wait("has not answered");
    tmux.run(&["send-keys", "C-c"]);
    tmux.wait("ended with 0");
}

#[test]
fn no_color_is_honoured_on_a_terminal() {
    if !has_program("tmux") {
        return;
    }
    let scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    let tmux = watching(&scene, "NO_COLOR=1");
    tmux.wait("waiting-for-driver");
    let screen = tmux.screen(&["-e"]);
    assert!(!screen.contains('\u{1b}'), "{screen:?}");
}

/// A node with a driver whose socket has a path that is wider than the terminal.
fn scene_with_a_long_path() -> (Scene, PathBuf) {
    let mut scene = setup().drivers(&[]).set();
    let mut socket = scene.node.root().join("plugins-of-a-vendor");
    let room = 107 - socket.as_os_str().len() - "//csi.sock".len();
    socket.push("d".repeat(room));
    socket.push("csi.sock");
    let table = format!("[drivers.{NAME:?}]\ncsi_socket = {socket:?}\n");
    scene.node.write_default_config(&[], &table);
    scene.registrar.start();
    (scene, socket)
}

#[test]
fn a_path_that_is_wider_than_the_terminal_stays_whole() {
    if !has_program("tmux") {
        return;
    }
    let (scene, socket) = scene_with_a_long_path();
    let path = socket.to_str().unwrap();
    scene.phase(NAME, "waiting-for-driver");
    for subcommand in ["doctor", "status"] {
        let line = scene.registrar.command_line(subcommand).join(" ");
        let tmux = Tmux::start(&scene, &format!("{line}; echo ended; sleep 600"));
        let screen = tmux.wait_joined("ended");
        assert!(screen.contains(path), "{subcommand}: {screen}");
    }
}

#[test]
fn watching_shows_a_path_that_is_wider_than_the_terminal_and_redraws_in_place() {
    if !has_program("tmux") {
        return;
    }
    let (scene, socket) = scene_with_a_long_path();
    scene.phase(NAME, "waiting-for-driver");
    let tmux = watching(&scene, "A=b");
    tmux.wait_joined(socket.to_str().unwrap());
    let mut driver = FakeDriver::start_in_new_directory(socket.clone(), Behaviour::named(NAME));
    tmux.wait("waiting-for-kubelet");
    driver.kill();
    let screen = tmux.wait_joined("waiting-for-driver");
    assert_eq!(screen.matches("DRIVER").count(), 1, "{screen}");
}

#[test]
fn words_in_wide_characters_are_shown_whole() {
    if !has_program("tmux") {
        return;
    }
    let scene = setup().started();
    let name = "存储".repeat(15);
    let words = vec![name; 3].join(" ");
    let _driver = scene.node.behaving(NAME, Behaviour::named(&words));
    scene
        .registrar
        .wait_driver("the name is refused", NAME, SOON, |driver| {
            driver
                .reason
                .as_deref()
                .is_some_and(|reason| reason.contains(&words))
        });
    let tmux = watching(&scene, "A=b");
    let screen = tmux.wait(words.split(' ').next().unwrap());
    assert_eq!(screen.matches('储').count(), 3 * 15, "{screen}");
}
