//! What takes minutes, with a clock that jumps to the next thing that is due; and what takes
//! microseconds, with somebody who uses them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use super::Supervisor;
use crate::config::{self, Overrides, Settings, Sources};
use crate::csi::answer::Answer;
use crate::driver::{Record, Registered, Terms};
use crate::identity::Identity;
use crate::kubelet::Process;
use crate::link::layout::{Layout, Slot};
use crate::name::DriverName;
use crate::state::State;

const ID: &str = "a.test";

fn settings(root: &Path) -> Settings {
    let file = root.join("config.toml");
    let text = format!(
        "plugins_dir = {:?}\nregistry_dir = {:?}\n[kubelet]\nroot_dir = {:?}\n[discovery]\nenabled = true\n",
        root.join("plugins"),
        root.join("registry"),
        root.join("kubelet"),
    );
    fs::write(&file, text).unwrap();
    let sources = Sources {
        config: Some(file),
        default_config: None,
        environment: Vec::new(),
        overrides: Overrides::default(),
    };
    config::load(&sources).unwrap().settings
}

/// A driver that an earlier run found, and that this process, as a kubelet that runs, holds through
/// the link.
fn held(name: &DriverName, link: &Path) -> Record {
    Record {
        name: Some(name.clone()),
        registration: Some(Registered {
            answer: Answer {
                name: name.clone(),
                vendor_version: String::new(),
                node_id: "node".to_owned(),
                max_volumes: 0,
                topology: BTreeMap::new(),
            },
            terms: Terms {
                endpoint: "/csi.sock".into(),
                versions: vec!["1.0.0".to_owned()],
            },
            kubelet: Process::of(std::process::id()),
        }),
        slot: Slot::default(),
        link: Some(Identity::of(link).unwrap()),
        called_by: None,
        withdrawn_by_hand: false,
    }
}

/// Nobody set withdraw_after, so that nothing else would take the driver away.
#[tokio::test(start_paused = true)]
async fn a_driver_that_is_registered_goes_five_minutes_after_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    let layout = Layout::of(&settings);
    let name = DriverName::parse(ID).unwrap();
    fs::create_dir_all(dir.path().join("plugins")).unwrap();
    fs::create_dir_all(layout.kubelet_dir()).unwrap();
    let link = layout.link(&name, Slot::default());
    symlink(layout.target(&name), &link).unwrap();
    let state = dir.path().join("state.json");
    let records = BTreeMap::from([(ID.to_owned(), held(&name, &link))]);
    State::new(BTreeMap::new(), records).save(&state).unwrap();

    let supervisor =
        Supervisor::start(settings, Box::new(|| Err(String::new())), Some(state)).await;
    let (_orders, taken) = mpsc::channel(1);
    let watched = async {
        sleep(Duration::from_secs(298)).await;
        assert!(link.is_symlink() && layout.socket(&name).exists(), "early");
        sleep(Duration::from_secs(4)).await;
        assert!(!link.is_symlink() && !layout.socket(&name).exists(), "late");
    };
    tokio::select! {
        () = supervisor.run(taken) => panic!("nobody told it to stop"),
        () = watched => {}
    }
}

/// There is time between the first look at plugins_dir and the second.
#[tokio::test]
async fn a_driver_that_leaves_while_we_begin_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    let plugin = dir.path().join("plugins").join(ID);
    fs::create_dir_all(&plugin).unwrap();
    fs::write(plugin.join("csi.sock"), "").unwrap();
    // It has its turn when the drivers have theirs.
    let leaving = tokio::spawn(async move { fs::remove_dir_all(plugin).unwrap() });
    let supervisor = Supervisor::start(settings, Box::new(|| Err(String::new())), None).await;
    assert!(leaving.is_finished(), "nobody had a turn");
    assert!(supervisor.entries.is_empty() && supervisor.met.is_empty());
}
