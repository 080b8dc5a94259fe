//! kill -9 at random moments, again and again: the next start repairs everything, and touches no
//! foreign file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use bed::dice::{given, new_seed};
use bed::scene::{KEEP, NAME, SOON};
use bed::{Behaviour, Dice, KubeletScene, Layout, Node, Release, Sentinels, eventually};

use crate::setup;

/// `SEED=…` repeats a run, as far as the machine's own timing allows.
fn seed() -> u64 {
    given("SEED").unwrap_or_else(new_seed)
}

fn kills() -> u32 {
    if std::env::var_os("LONG").is_some() {
        5000
    } else {
        501
    }
}

#[test]
fn killed_at_any_moment_the_next_start_heals() {
    let seed = seed();
    println!("SEED={seed}");
    let scenes = [
        (Layout::TwoDirectories, Release::V1_24),
        (Layout::TwoDirectories, Release::V1_36),
        (Layout::OneDirectory, Release::V1_35),
    ];
    thread::scope(|scope| {
        for (number, (layout, release)) in (1..).zip(scenes) {
            let share = kills().div_ceil(3);
            scope.spawn(move || loop_of_kills(layout, release, share, Dice::new(seed ^ number)));
        }
    });
}

fn loop_of_kills(layout: Layout, release: Release, kills: u32, mut dice: Dice) {
    let node = Node::with_layout(layout);
    let settings = node.eager_kubelet_settings(release);
    let mut scene = setup()
        .on(node)
        .more(KEEP)
        .kubelet(release)
        .with(|_| settings)
        .registered();
    let mut foreign = Sentinels::default();
    foreign.plant(&scene.node.registry_dir());
    if layout == Layout::TwoDirectories {
        foreign.plant(&scene.node.plugins_registry());
    }
    scene.registrar.kill9();
    for _ in 0..kills {
        scene.registrar.start();
        thread::sleep(Duration::from_millis(dice.below(5)));
        act(&mut scene, &mut dice);
        thread::sleep(Duration::from_micros(dice.below(30_000)));
        scene.registrar.kill9();
    }
    if scene.kubelet.pid().is_none() {
        scene.kubelet.restart();
    }
    scene.driver.restart(Behaviour::named(NAME));
    let start = Instant::now();
    scene.registrar.start();
    scene.wait_registered();
    println!(
        "{layout:?} {release:?}: {kills} kills, healed in {:.1?}",
        start.elapsed()
    );
    assert_eq!(foreign.touched(), Vec::<String>::new());
    no_temporary_file_stays(&scene.node);
    // The kubelet's ledger is a copy, and may lag behind the registrar's status.
    scene.settled(scene.kubelet.mark());
    fs::write(scene.node.runtime_dir().join("state.json.new"), "{").unwrap();
    let mark = scene.kubelet.mark();
    scene.registrar.kill9();
    scene.registrar.start();
    scene.ends_registered(mark, 0, 0);
    no_temporary_file_stays(&scene.node);
}

fn no_temporary_file_stays(node: &Node) {
    eventually("no temporary file stays", SOON, || {
        let left = temporary_files(node);
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    });
}

fn act(scene: &mut KubeletScene, dice: &mut Dice) {
    match dice.below(12) {
        0 => scene.driver.kill(),
        1 => scene.driver.stop(),
        2..=4 => {
            let node = format!("node-{}", dice.below(3));
            scene.driver.restart(Behaviour::named(NAME).on_node(node));
        }
        5..=6 => remove(&scene.link()),
        7 => remove(&scene.node.reg_socket(NAME)),
        8 => replace_link(scene),
        9 => scene.kubelet.restart(),
        // A later restart undoes it.
        10 => scene.kubelet.kill9(),
        _ => {}
    }
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => panic!("remove {}: {error}", path.display()),
    }
}

/// While the registrar is down: the same link that it would create, or a dangling link.
fn replace_link(scene: &KubeletScene) {
    let target = fs::read_link(scene.link()).unwrap_or_else(|_| PathBuf::from("/nowhere"));
    let made = scene.node.root().join("made");
    remove(&made);
    symlink(target, &made).unwrap();
    fs::rename(made, scene.link()).unwrap();
}

/// Temporary names, which exist only during a change.
fn temporary_files(node: &Node) -> Vec<PathBuf> {
    let directories = [
        node.registry_dir(),
        node.plugins_registry(),
        node.kubelet_root(),
        node.runtime_dir(),
    ];
    let entries = directories
        .iter()
        .flat_map(|directory| fs::read_dir(directory).unwrap())
        .map(|entry| entry.unwrap().path());
    let temporary = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(".nr") || name.ends_with(".new")
    };
    entries.filter(temporary).collect()
}
