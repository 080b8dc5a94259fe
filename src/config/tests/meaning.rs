//! What valid values come to mean.

use std::os::unix::fs::symlink;
use std::time::Duration;

use super::*;
use crate::config::{Listen, OnLiveOwner, RootDir, Settings};

fn settings(text: &str) -> Settings {
    Bench::with(text).load().settings
}

#[test]
fn a_socket_may_have_the_scheme_of_grpc_and_loses_it() {
    for address in ["/a/csi.sock", "unix:/a/csi.sock", "unix:///a/csi.sock"] {
        let bench = Bench::with(&format!(
            "[drivers.x]\ncsi_socket = '{address}'\n[drivers.y]\nendpoint = '{address}'"
        ));
        let loaded = bench.load();
        let drivers = &loaded.settings.drivers;
        let socket = std::path::Path::new("/a/csi.sock");
        assert_eq!(drivers["x"].csi_socket, socket, "{address}");
        assert_eq!(drivers["x"].endpoint, socket, "{address}");
        assert_eq!(drivers["y"].endpoint, socket, "{address}");
        assert!(!loaded.explain().contains("unix:"), "{address}");
    }
    let relative = Bench::with("[drivers.x]\ncsi_socket = 'unix:a.sock'").fault();
    assert!(relative.ends_with("must be an absolute path"), "{relative}");
}

#[test]
fn a_driver_takes_what_its_table_leaves_out_from_the_defaults() {
    let settings = settings(
        "plugins_dir = '/p'
        [defaults]\nrequest_timeout = '150ms'\nwithdraw_after = '1h'
        [drivers.'a.b']\nwithdraw_after = 'never'\non_live_owner = 'take-over'\nname = 'n'",
    );
    let driver = &settings.drivers["a.b"];
    assert_eq!(driver.csi_socket, PathBuf::from("/p/a.b/csi.sock"));
    assert_eq!(driver.endpoint, driver.csi_socket);
    assert_eq!(driver.request_timeout, Duration::from_millis(150));
    assert_eq!(
        driver.withdraw_after, None,
        "its own never wins over the hour"
    );
    assert_eq!(driver.on_live_owner, OnLiveOwner::TakeOver);
    assert_eq!(settings.driver("a.b"), *driver);
    let discovered = settings.driver("other");
    assert_eq!(discovered.csi_socket, PathBuf::from("/p/other/csi.sock"));
    assert_eq!(discovered.withdraw_after, Some(Duration::from_secs(3600)));
    assert_eq!(discovered.on_live_owner, OnLiveOwner::Wait);
    assert_eq!(discovered.supported_versions, ["1.0.0"]);
}

#[test]
fn the_endpoint_follows_a_csi_socket_that_is_given() {
    let driver = settings("[drivers.x]\ncsi_socket = '/run/x.sock'").driver("x");
    assert_eq!(driver.endpoint, PathBuf::from("/run/x.sock"));
}

#[test]
fn the_kubelets_registry_follows_its_root() {
    let kubelet = settings("registry_dir = '/r'\nkubelet.root_dir = '/k'").kubelet;
    assert_eq!(
        kubelet.plugins_registry,
        PathBuf::from("/k/plugins_registry")
    );
    assert_eq!(kubelet.sees_registry_as, PathBuf::from("/r"));
    let kubelet = settings("[kubelet]\nroot_dir = '/k'\nplugins_registry = '/x'").kubelet;
    assert_eq!(kubelet.plugins_registry, PathBuf::from("/x"));
}

#[test]
fn the_root_that_was_found_moves_only_a_derived_registry() {
    let root = || PathBuf::from("/var/lib/k0s/kubelet");
    let mut loaded = Bench::with("kubelet.root_dir = 'auto'").load();
    assert_eq!(loaded.settings.kubelet.root_dir, RootDir::Auto);
    loaded.resolve_kubelet_root(root(), String::new()).unwrap();
    assert_eq!(loaded.settings.kubelet.root_dir, RootDir::Path(root()));
    assert_eq!(
        loaded.settings.kubelet.plugins_registry,
        root().join("plugins_registry")
    );

    let mut loaded = Bench::with("[kubelet]\nroot_dir = 'auto'\nplugins_registry = '/x'").load();
    loaded.resolve_kubelet_root(root(), String::new()).unwrap();
    assert_eq!(
        loaded.settings.kubelet.plugins_registry,
        PathBuf::from("/x")
    );
}

#[test]
fn a_root_too_deep_for_a_pinned_name_is_refused_when_it_is_found() {
    let name = "n".repeat(63);
    let bench = Bench::with(&format!(
        "[kubelet]\nroot_dir = 'auto'\n[drivers.x]\nname = '{name}'"
    ));
    let mut loaded = bench.load();
    let root = "/var/snap/microk8s/common/var/lib/kubelet";
    let error = loaded
        .resolve_kubelet_root(PathBuf::from(root), String::new())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&format!("drivers.\"x\".name = \"{name}\"")),
        "{error}"
    );
    assert!(
        error.contains(&format!(
            "{root}/plugins_registry/{name}-reg.sock has 131 bytes"
        )),
        "{error}"
    );
}

#[test]
fn a_registry_below_the_kubelets_is_refused_when_its_root_is_found() {
    let below = "/var/lib/k0s/kubelet/plugins_registry/ours";
    let bench = Bench::with(&format!(
        "registry_dir = '{below}'\n[kubelet]\nroot_dir = 'auto'"
    ));
    let mut loaded = bench.load();
    let error = loaded
        .resolve_kubelet_root(PathBuf::from("/var/lib/k0s/kubelet"), String::new())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&format!("registry_dir = \"{below}\"")),
        "{error}"
    );
}

#[test]
fn http_listens_on_an_address_or_a_socket_or_not_at_all() {
    let listen = |text: &str| settings(&format!("http.listen = '{text}'")).http.listen;
    assert_eq!(listen(""), None);
    assert_eq!(
        listen("127.0.0.1:9809"),
        Some(Listen::Tcp("127.0.0.1:9809".parse().unwrap()))
    );
    assert_eq!(
        listen("[::1]:80"),
        Some(Listen::Tcp("[::1]:80".parse().unwrap()))
    );
    assert_eq!(
        listen("unix:/run/h"),
        Some(Listen::Unix(PathBuf::from("/run/h")))
    );
}

#[test]
fn one_path_written_in_two_ways_is_one_directory() {
    let same = settings("registry_dir = '/k//r/./'\nkubelet.plugins_registry = '/k/r'");
    assert!(same.layout().one_directory());
    assert_eq!(same.registry_dir.as_os_str(), "/k/r");
    assert!(
        !settings("registry_dir = '/a'\nkubelet.plugins_registry = '/b'")
            .layout()
            .one_directory()
    );
}

#[test]
fn two_paths_to_one_directory_are_one_directory() {
    let bench = Bench::new();
    fs::create_dir(bench.path("real")).unwrap();
    fs::create_dir(bench.path("other")).unwrap();
    symlink(bench.path("real"), bench.path("link")).unwrap();
    let of = |a: &str, b: &str| {
        settings(&format!(
            "registry_dir = {:?}\nkubelet.plugins_registry = {:?}",
            bench.path(a),
            bench.path(b)
        ))
    };
    assert!(of("real", "link").layout().one_directory());
    assert!(!of("real", "other").layout().one_directory());
    assert!(!of("real", "missing").layout().one_directory());
    // The daemon creates it later, and both are the same directory then, too.
    assert!(of("real/later", "link/later").layout().one_directory());
    assert!(!of("real/later", "other/later").layout().one_directory());
}

#[test]
fn the_longest_socket_that_fits_is_taken() {
    let path = format!("/{}", "x".repeat(106));
    settings(&format!(
        "[drivers.x]\ncsi_socket = '{path}'\nendpoint = '{path}'"
    ));
    settings(&format!("http.listen = 'unix:{path}'"));
    settings(&format!("registry_dir = '/{}'", "x".repeat(95)));
}

#[test]
fn a_reload_can_tell_which_driver_changed() {
    let old = settings("[drivers.a]\n[drivers.b]");
    let new = settings("[drivers.a]\n[drivers.b]\nretry_max = '1s'");
    assert_eq!(old.drivers["a"], new.drivers["a"]);
    assert_ne!(old.drivers["b"], new.drivers["b"]);
}

#[test]
fn exclude_matches_whole_ids_by_the_rules_of_the_page() {
    for (pattern, yes, no) in [
        ("nfs", &["nfs"][..], &["nfs2", "xnfs"][..]),
        ("scratch.*", &["scratch.", "scratch.a.b"], &["scratch", "a"]),
        ("*", &["a", "a.b"], &[]),
        ("a*b*c", &["abc", "a.b.b.c"], &["ab", "abcd", "cba"]),
        ("v?.io", &["v1.io", "vä.io"], &["v.io", "v12.io"]),
        ("[ab]x", &["ax", "bx"], &["cx", "x", "[ab]x"]),
        ("[a-c1]", &["a", "b", "c", "1"], &["d", "-"]),
        ("[!a-c]*", &["d", "dx"], &["a", "bx"]),
        ("[[]x", &["[x"], &["x"]),
        ("NFS", &["NFS"], &["nfs"]),
    ] {
        let discovery = Bench::with(&format!("discovery.exclude = ['{pattern}']")).load();
        let discovery = discovery.settings.discovery;
        for id in yes {
            assert!(discovery.excludes(id), "{pattern} {id}");
        }
        for id in no {
            assert!(!discovery.excludes(id), "{pattern} {id}");
        }
    }
}
