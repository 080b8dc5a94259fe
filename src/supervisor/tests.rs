//! What takes minutes, with a clock that jumps to the next thing that is due; and what takes
//! microseconds, with somebody who uses them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{advance, sleep};

use super::Supervisor;
use crate::config::{self, Overrides, Settings, Sources};
use crate::csi::answer::Answer;
use crate::driver::{Event, Record, Registered, Terms};
use crate::identity::Identity;
use crate::kubelet::Process;
use crate::link::layout::{Layout, Slot};
use crate::name::DriverName;
use crate::runtime::RuntimeDir;
use crate::state::{Origin, State, Written};

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
        environment_files: Vec::new(),
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

/// A supervisor with one driver that an earlier run found and that is registered, though its
/// directory is gone. Nobody set withdraw_after, so that nothing else would take the driver away.
struct Departed {
    supervisor: Supervisor,
    link: PathBuf,
    socket: PathBuf,
}

impl Departed {
    async fn below(root: &Path) -> Departed {
        let settings = settings(root);
        let layout = Layout::of(&settings);
        let name = DriverName::parse(ID).unwrap();
        fs::create_dir_all(root.join("plugins")).unwrap();
        fs::create_dir_all(layout.kubelet_dir()).unwrap();
        let link = layout.link(&name, Slot::default());
        symlink(layout.target(&name), &link).unwrap();
        let runtime = RuntimeDir::take(root).unwrap();
        let written = Written {
            record: held(&name, &link),
            origin: Some(Origin::Discovery),
            csi_socket: None,
            csi_seen: None,
        };
        let records = BTreeMap::from([(ID.to_owned(), written)]);
        State::new(BTreeMap::new(), None, None, layout.clone(), records)
            .save(&runtime.state())
            .unwrap();
        let reread = Box::new(|| Err(String::new()));
        Departed {
            supervisor: Supervisor::start(settings, reread, Some(runtime)).await,
            link,
            socket: layout.socket(&name),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_is_registered_goes_five_minutes_after_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let Departed {
        supervisor,
        link,
        socket,
    } = Departed::below(dir.path()).await;
    let (_orders, taken) = mpsc::channel(1);
    let watched = async {
        sleep(Duration::from_secs(298)).await;
        assert!(link.is_symlink() && socket.exists(), "early");
        sleep(Duration::from_secs(4)).await;
        assert!(!link.is_symlink() && !socket.exists(), "late");
    };
    tokio::select! {
        _ = supervisor.run(taken) => panic!("nobody told it to stop"),
        () = watched => {}
    }
}

/// What is due and never done would wake us for ever.
#[tokio::test(start_paused = true)]
async fn a_driver_that_is_withdrawn_by_hand_meanwhile_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut supervisor = Departed::below(dir.path()).await.supervisor;
    supervisor.finish_turn();
    assert!(supervisor.discovery.departures.next().is_some());
    supervisor.apply(&ID.into(), Event::Withdraw);
    supervisor.finish_turn();
    assert_eq!(supervisor.discovery.departures.next(), None);
    advance(Duration::from_secs(600)).await;
    supervisor.wake();
    supervisor.finish_turn();
    assert!(supervisor.next_wake() > supervisor.now());
    assert!(supervisor.entries.contains_key(ID), "it is undone by hand");
    supervisor.apply(&ID.into(), Event::Publish);
    advance(Duration::from_secs(60)).await;
    supervisor.wake();
    supervisor.finish_turn();
    assert!(supervisor.entries.is_empty(), "nobody holds it any more");
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
