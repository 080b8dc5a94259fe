//! A registry_dir below the kubelet's plugins_registry: the kubelet searches it too, and would find
//! each driver twice.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use bed::scene::{NAME, nothing_since};
use bed::{Mounts, Scene, stderr};

use crate::setup;

/// The configuration of the scene with another registry_dir.
fn with_registry(scene: &Scene, registry_dir: &Path) -> String {
    let config = scene.node.default_config(&[NAME]);
    let usual = format!("registry_dir = {:?}", scene.node.registry_dir());
    let moved = config.replace(&usual, &format!("registry_dir = {registry_dir:?}"));
    assert_ne!(moved, config);
    moved
}

/// The commands that read the configuration refuse this registry_dir, and say why.
#[track_caller]
fn assert_refused(scene: &Scene, registry_dir: &Path) {
    scene.node.write_config(&with_registry(scene, registry_dir));
    let words = [
        format!("{}: ", scene.node.config_file().display()),
        format!("registry_dir = {registry_dir:?}: "),
        format!("below {}", scene.node.plugins_registry().display()),
    ];
    for command in ["check", "run"] {
        let output = scene.registrar.run_cli([command]);
        assert_eq!(output.status.code(), Some(78), "{command}: {output:?}");
        for word in &words {
            let said = stderr(&output);
            assert!(said.contains(word), "{word} not in {said}");
        }
    }
}

/// A directory below the kubelet's.
fn below(scene: &Scene) -> PathBuf {
    scene.node.plugins_registry().join("ours/deep")
}

#[test]
fn a_registry_below_the_kubelets_is_refused_whether_it_exists_or_not() {
    let scene = setup().set();
    let registry_dir = below(&scene);
    assert_refused(&scene, &registry_dir);
    assert!(!registry_dir.exists(), "it was made");
    fs::create_dir_all(&registry_dir).unwrap();
    assert_refused(&scene, &registry_dir);
    // The kubelet walks hidden directories when it starts.
    let hidden = scene.node.plugins_registry().join(".hidden");
    assert_refused(&scene, &hidden);
}

#[test]
fn a_registry_that_leads_below_the_kubelets_is_refused() {
    let scene = setup().set();
    let link = scene.node.root().join("link");
    symlink(scene.node.plugins_registry(), &link).unwrap();
    assert_refused(&scene, &link.join("not/there/yet"));
    let deep = scene.node.root().join("deep");
    symlink(below(&scene), &deep).unwrap();
    fs::create_dir_all(below(&scene)).unwrap();
    assert_refused(&scene, &deep);
}

#[test]
fn a_registry_that_is_mounted_below_the_kubelets_is_refused() {
    let Some(mut mounts) = Mounts::private() else {
        return;
    };
    let scene = setup().set();
    let kubelets = scene.node.plugins_registry();
    let [whole, part, inside] = ["whole", "part", "inside"].map(|name| {
        let directory = scene.node.root().join(name);
        fs::create_dir_all(&directory).unwrap();
        directory
    });
    mounts.bind(&kubelets, &whole);
    assert_refused(&scene, &whole.join("sub"));
    fs::create_dir_all(below(&scene)).unwrap();
    mounts.bind(&below(&scene), &part);
    assert_refused(&scene, &part);
    assert_refused(&scene, &part.join("sub"));
    // The other way round: registry_dir is mounted below the kubelet's directory.
    fs::create_dir_all(kubelets.join("mounted")).unwrap();
    mounts.bind(&inside, &kubelets.join("mounted"));
    assert_refused(&scene, &inside);
}

#[test]
fn a_reload_with_a_registry_below_the_kubelets_changes_nothing() {
    let (scene, _driver, kubelet) = setup().registered();
    let mark = kubelet.mark();
    let before = scene.registrar.status().unwrap();
    scene
        .node
        .write_config(&with_registry(&scene, &below(&scene)));
    let output = scene.registrar.run_cli(["reload"]);
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    assert!(stderr(&output).contains("registry_dir = "), "{output:?}");
    assert_eq!(scene.registrar.status().unwrap().drivers, before.drivers);
    nothing_since(&kubelet, mark);
}

#[test]
fn a_registry_beside_or_above_the_kubelets_is_taken() {
    let scene = setup().set();
    let kubelets = scene.node.plugins_registry();
    let beside = kubelets.with_file_name("plugins_registry_of_ours");
    for taken in [kubelets.clone(), beside, scene.node.kubelet_root()] {
        scene.node.write_config(&with_registry(&scene, &taken));
        scene.registrar.succeed(&["check"]);
    }
}
