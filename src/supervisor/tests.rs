//! What takes minutes, with a clock that jumps to the next thing that is due; and what takes
//! microseconds, with somebody who uses them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bed::{Behaviour, FakeDriver, KubeletVolumes};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{advance, sleep, timeout};

use super::runner::Runner;
use super::timers::Timer;
use super::volume_looks::Asking;
use super::{Order, Supervisor};
use crate::api::command::ClientCommand;
use crate::config::{self, Overrides, Settings, Sources};
use crate::disk::identity::Identity;
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::disk::runtime_dir::RuntimeDir;
use crate::driver::answer::Answer;
use crate::driver::{AdvertisedInfo, Event, Record, Registration};
use crate::grpc::proto::control::{ClusterFinding, ClusterReport};
use crate::kubelet::known::KnownKubelets;
use crate::kubelet::volumes::NodeVolumes;
use crate::os::clock::Moment;
use crate::os::process::Process;
use crate::supervisor::saved_state::{Origin, SavedDriver, SavedState};

const ID: &str = "a.test";
/// Generous: the machine may be busy with other tests.
const SOON: Duration = Duration::from_secs(20);
const DISCOVERY: &str = "[discovery]\nenabled = true\n";

fn settings(root: &Path) -> Settings {
    settings_with(root, DISCOVERY)
}

fn settings_with(root: &Path, more: &str) -> Settings {
    let file = root.join("config.toml");
    let text = format!(
        "plugins_dir = {:?}\nregistry_dir = {:?}\n[kubelet]\nroot_dir = {:?}\n{more}",
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
        registration: Some(Registration {
            answer: Answer {
                name: name.clone(),
                vendor_version: String::new(),
                node_id: "node".to_owned(),
                max_volumes: 0,
                topology: BTreeMap::new(),
            },
            advertised: AdvertisedInfo {
                endpoint: "/csi.sock".into(),
                versions: vec!["1.0.0".to_owned()],
            },
            kubelet: Process::of(std::process::id()),
        }),
        link: Some(Identity::of(link).unwrap()),
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
        let config = &root.join("reread.toml");
        fs::write(config, DISCOVERY).unwrap();
        let settings = settings(root);
        let layout = settings.layout();
        let name = DriverName::parse(ID).unwrap();
        fs::create_dir_all(root.join("plugins")).unwrap();
        fs::create_dir_all(layout.plugins_registry()).unwrap();
        let link = layout.link(&name);
        symlink(layout.target(&name), &link).unwrap();
        let runtime = RuntimeDir::take(root).unwrap();
        let saved = SavedDriver {
            record: held(&name, &link),
            origin: Some(Origin::Discovery),
            csi_socket: None,
            csi_seen: None,
            shown: None,
        };
        let records = BTreeMap::from([(ID.to_owned(), saved)]);
        // No kubelet has been seen.
        let nowhere = Path::new("/nowhere");
        let kubelets = KnownKubelets::new(nowhere, nowhere);
        SavedState::new(&kubelets, &layout, None, records)
            .save(&runtime.state())
            .unwrap();
        let config = config.to_owned();
        let reread = move || {
            Ok(settings_with(
                config.parent().unwrap(),
                &fs::read_to_string(&config).unwrap(),
            ))
        };
        Departed {
            supervisor: Supervisor::start(settings, Box::new(reread), Some(runtime)).await,
            link,
            socket: layout.socket(&name),
        }
    }
}

/// Ends the turn, and the looks at the volumes that it gave rise to.
async fn looked_at_volumes(supervisor: &mut Supervisor) {
    supervisor.finish_turn();
    while supervisor.volume_looks.is_looking() {
        let input = supervisor.inputs.recv().await.unwrap();
        supervisor.take_batch(input);
        supervisor.finish_turn();
    }
}

fn runner<'a>(supervisor: &'a Supervisor, id: &str) -> Option<&'a Runner> {
    supervisor.runners.get(&supervisor.key_of(id)?)
}

/// When the driver goes, because its directory is gone.
fn departure(supervisor: &Supervisor) -> Option<Moment> {
    let key = supervisor.key_of(ID)?;
    supervisor.timers.get(Timer::Departure(key))
}

/// A driver that is registered goes five minutes after its directory, with a reload every minute before
/// that or without.
async fn goes_after_five_minutes(reloads: u64) {
    let dir = tempfile::tempdir().unwrap();
    let Departed {
        supervisor,
        link,
        socket,
    } = Departed::below(dir.path()).await;
    let (orders, taken) = mpsc::channel(1);
    let watched = async {
        for _ in 0..reloads {
            sleep(Duration::from_secs(60)).await;
            orders.send(Order::Reload).await.unwrap();
        }
        sleep(Duration::from_secs(298 - 60 * reloads)).await;
        assert!(link.is_symlink() && socket.exists(), "early");
        sleep(Duration::from_secs(4)).await;
        assert!(!link.is_symlink() && !socket.exists(), "late");
    };
    tokio::select! {
        _ = supervisor.run(taken) => panic!("nobody told it to stop"),
        () = watched => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_is_registered_goes_five_minutes_after_its_directory() {
    goes_after_five_minutes(0).await;
}

/// Such as by a configuration management.
#[tokio::test(start_paused = true)]
async fn reloads_do_not_keep_a_driver_whose_directory_is_gone() {
    goes_after_five_minutes(4).await;
}

/// An unmounted mount point is an empty directory. A driver without volumes is away for no longer than any
/// other whose directory is gone; a reload does not change that.
#[tokio::test(start_paused = true)]
async fn a_driver_whose_file_system_is_away_stays_for_five_minutes_and_while_its_volumes_are_in_use()
 {
    let dir = tempfile::tempdir().unwrap();
    let volumes = KubeletVolumes::below(dir.path().join("kubelet"));
    let volume = volumes.pod("pod-1", "pvc-1", ID, "handle-1");
    let (disk, plugins) = (dir.path().join("disk"), dir.path().join("plugins"));
    let mount_point = dir.path().join("mount-point");
    fs::create_dir_all(disk.join(ID)).unwrap();
    fs::create_dir(&mount_point).unwrap();
    symlink(&disk, &plugins).unwrap();
    let mut supervisor = Departed::below(dir.path()).await.supervisor;
    supervisor.finish_turn();
    let mut lead_to = async |target: &Path, seconds: u64| {
        fs::remove_file(&plugins).unwrap();
        symlink(target, &plugins).unwrap();
        supervisor.look_at_plugins();
        supervisor.reload(&NodeVolumes::default()).unwrap();
        advance(Duration::from_secs(seconds)).await;
        supervisor.wake();
        if supervisor.volume_looks.is_looking() {
            looked_at_volumes(&mut supervisor).await;
        }
        runner(&supervisor, ID).is_some()
    };
    assert!(lead_to(&mount_point, 600).await, "its volumes are in use");
    assert!(lead_to(&disk, 600).await);
    volume.remove();
    assert!(lead_to(&mount_point, 290).await, "early");
    assert!(lead_to(&disk, 600).await);
    assert!(!lead_to(&mount_point, 600).await, "late");
}

/// Its disk is not mounted, and the link to it leads nowhere.
#[tokio::test(start_paused = true)]
async fn a_driver_stays_when_the_link_to_its_directory_leads_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("plugins")).unwrap();
    symlink("/nowhere", dir.path().join("plugins").join(ID)).unwrap();
    let mut supervisor = Departed::below(dir.path()).await.supervisor;
    supervisor.finish_turn();
    assert_eq!(departure(&supervisor), None);
    assert!(runner(&supervisor, ID).is_some());
}

/// The link is on a file system that may hang, and the main loop must not touch it.
#[tokio::test(start_paused = true)]
async fn a_link_that_may_hang_is_not_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let plugins = dir.path().join("plugins");
    fs::create_dir_all(&plugins).unwrap();
    symlink("/nowhere", plugins.join(ID)).unwrap();
    let mut supervisor = Departed::below(dir.path()).await.supervisor;
    supervisor.reach = Reach::with_mount(&plugins);
    let key = supervisor.key_of(ID).unwrap();
    supervisor.directory_gone(key, true);
    assert!(departure(&supervisor).is_some());
}

/// Volumes are looked at again every five minutes, and at no other time.
#[tokio::test(start_paused = true)]
async fn a_departed_driver_stays_while_its_volumes_are_in_use_and_goes_then() {
    let dir = tempfile::tempdir().unwrap();
    let volumes = KubeletVolumes::below(dir.path().join("kubelet"));
    let volume = volumes.pod("pod-1", "pvc-1", ID, "handle-1");
    let Departed {
        mut supervisor,
        link,
        socket,
    } = Departed::below(dir.path()).await;
    supervisor.finish_turn();
    for _ in 0..3 {
        advance(Duration::from_secs(300)).await;
        supervisor.wake();
        assert!(supervisor.volume_looks.is_looking());
        looked_at_volumes(&mut supervisor).await;
        assert!(link.is_symlink() && socket.exists());
        let reason = &runner(&supervisor, ID).unwrap().published.reason;
        assert!(
            reason.contains("1 volume is in use by pod pod-1"),
            "{reason}"
        );
        // The slow look at plugins_dir asks for nothing.
        advance(Duration::from_secs(100)).await;
        supervisor.look_at_plugins();
        supervisor.wake();
        supervisor.finish_turn();
        assert!(!supervisor.volume_looks.is_looking());
        assert!(supervisor.timers.next().unwrap() > supervisor.now());
    }
    volume.remove();
    advance(Duration::from_secs(300)).await;
    supervisor.wake();
    looked_at_volumes(&mut supervisor).await;
    assert!(runner(&supervisor, ID).is_none());
    assert!(!link.is_symlink() && !socket.exists());
}

/// A request that comes while a look goes on waits for the next look: a volume may have been mounted since.
#[tokio::test(start_paused = true)]
async fn a_command_waits_for_a_look_that_begins_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut supervisor = Departed::below(dir.path()).await.supervisor;
    supervisor.finish_turn();
    let withdraw = |supervisor: &mut Supervisor| {
        let (reply, outcome) = oneshot::channel();
        let asking = Asking::Withdrawal {
            driver: ID.to_owned(),
            force: false,
            reply,
        };
        supervisor.look_at_volumes(asking);
        outcome
    };
    let first = withdraw(&mut supervisor);
    let second = withdraw(&mut supervisor);
    let used = KubeletVolumes::below(dir.path().join("kubelet"));
    used.pod("pod-1", "pvc-1", ID, "handle-1");
    let seen_before = Arc::new(NodeVolumes::default());
    supervisor.volumes_seen(&seen_before);
    supervisor.finish_turn();
    assert_eq!(first.await.unwrap(), Ok(()));
    let key = supervisor.key_of(ID).unwrap();
    supervisor.step(key, Event::Publish);
    looked_at_volumes(&mut supervisor).await;
    let refusal = second.await.unwrap().unwrap_err();
    assert!(refusal.contains("1 volume is in use"), "{refusal}");
}

/// What verify says of the driver over control.sock.
fn report(supervisor: &mut Supervisor, registrations: u64, in_cluster: bool) {
    let finding = ClusterFinding {
        driver: ID.to_owned(),
        registrations,
        in_cluster,
        difference: "CSINode n does not list it".to_owned(),
    };
    let (reply, mut done) = oneshot::channel();
    let report = ClusterReport {
        drivers: vec![finding],
        age_ms: 0,
    };
    supervisor.carry_out(ClientCommand::ReportCluster(report), reply);
    supervisor.finish_turn();
    assert_eq!(done.try_recv().unwrap(), Ok(()));
}

fn in_cluster(supervisor: &Supervisor) -> Option<bool> {
    let published = &runner(supervisor, ID).unwrap().published;
    assert_eq!(
        published.in_cluster.is_some(),
        published.cluster_checked.is_some()
    );
    published.in_cluster
}

/// The state machine and all that is due stay as they are, whatever the report says.
#[tokio::test(start_paused = true)]
async fn a_report_of_verify_changes_no_driver_and_sets_no_timer() {
    let dir = tempfile::tempdir().unwrap();
    let Departed {
        mut supervisor,
        link,
        ..
    } = Departed::below(dir.path()).await;
    supervisor.finish_turn();
    let state = |supervisor: &Supervisor| {
        let runner = runner(supervisor, ID).unwrap();
        (
            runner.driver.clone(),
            runner.counts,
            supervisor.timers.next(),
        )
    };
    let (before, made) = (state(&supervisor), Identity::of(&link).unwrap());
    for (registrations, says, shown) in [
        (1, false, None),
        (0, false, Some(false)),
        (0, true, Some(true)),
        (7, false, Some(true)),
    ] {
        report(&mut supervisor, registrations, says);
        assert_eq!(in_cluster(&supervisor), shown);
        assert_eq!(state(&supervisor), before);
    }
    assert_eq!(Identity::of(&link).unwrap(), made);
    let checked = supervisor.cluster_checked;
    advance(Duration::from_secs(60)).await;
    assert_eq!(in_cluster(&supervisor), Some(true), "a word has no term");
    assert_eq!(supervisor.cluster_checked, checked);
}

#[tokio::test(start_paused = true)]
async fn the_word_of_the_cluster_goes_with_the_turn_that_ends_the_registration() {
    let dir = tempfile::tempdir().unwrap();
    let mut supervisor = Departed::below(dir.path()).await.supervisor;
    let key = supervisor.key_of(ID).unwrap();
    report(&mut supervisor, 0, false);
    assert_eq!(in_cluster(&supervisor), Some(false));
    supervisor.step(key, Event::WithdrawInUse);
    assert_eq!(in_cluster(&supervisor), Some(false), "the turn goes on");
    supervisor.finish_turn();
    assert_eq!(in_cluster(&supervisor), None);
    report(&mut supervisor, 0, false);
    assert_eq!(in_cluster(&supervisor), None, "it is not registered");
}

/// A kubelet may say yes twice to the same link, and the second yes may have written to the cluster.
#[tokio::test(start_paused = true)]
async fn the_word_of_the_cluster_goes_when_the_driver_is_registered_anew() {
    let dir = tempfile::tempdir().unwrap();
    let mut supervisor = Departed::below(dir.path()).await.supervisor;
    let key = supervisor.key_of(ID).unwrap();
    report(&mut supervisor, 0, true);
    assert_eq!(in_cluster(&supervisor), Some(true));
    supervisor
        .runners
        .get_mut(&key)
        .unwrap()
        .counts
        .registrations += 1;
    supervisor.queue.mark(key);
    supervisor.finish_turn();
    assert_eq!(in_cluster(&supervisor), None);
}

/// A reload that says how long a driver is waited for counts from the moment when it went.
#[tokio::test(start_paused = true)]
async fn what_a_reload_says_of_a_departed_driver_counts_from_its_departure() {
    let dir = tempfile::tempdir().unwrap();
    let mut supervisor = Departed::below(dir.path()).await.supervisor;
    let mut reload_after = async |more: &str, seconds| {
        fs::write(dir.path().join("reread.toml"), format!("{DISCOVERY}{more}")).unwrap();
        advance(Duration::from_secs(seconds)).await;
        supervisor.reload(&NodeVolumes::default()).unwrap();
        supervisor.finish_turn();
        let is_known = runner(&supervisor, ID).is_some();
        (is_known, departure(&supervisor))
    };
    let table = format!("[drivers.{ID:?}]\n");
    let (_, at) = reload_after("", 0).await;
    let gone = at.unwrap();
    assert_eq!(reload_after("", 100).await, (true, at));
    let (_, at) = reload_after("[defaults]\nwithdraw_after = \"200s\"\n", 0).await;
    assert_eq!(at.map(|at| gone - at), Some(Duration::from_secs(100)));
    assert_eq!(reload_after(&table, 400).await, (true, None));
    // Without its table it would have to be found, and is not.
    assert_eq!(reload_after("", 0).await, (false, None));
}

/// What is due and never done would wake us for ever.
#[tokio::test(start_paused = true)]
async fn a_driver_that_is_withdrawn_by_hand_meanwhile_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut supervisor = Departed::below(dir.path()).await.supervisor;
    supervisor.finish_turn();
    assert!(departure(&supervisor).is_some());
    let key = supervisor.key_of(ID).unwrap();
    supervisor.step(key, Event::WithdrawInUse);
    supervisor.finish_turn();
    assert_eq!(departure(&supervisor), None);
    advance(Duration::from_secs(600)).await;
    supervisor.wake();
    supervisor.finish_turn();
    assert!(supervisor.timers.next().unwrap() > supervisor.now());
    assert!(runner(&supervisor, ID).is_some(), "it is undone by hand");
    supervisor.step(key, Event::Publish);
    advance(Duration::from_secs(60)).await;
    supervisor.wake();
    supervisor.finish_turn();
    assert!(
        runner(&supervisor, ID).is_none(),
        "nobody holds it any more"
    );
}

/// The answer is in the queue when the operator sends us to another socket and demands another name.
#[tokio::test]
async fn an_answer_from_the_socket_of_before_a_reload_says_nothing_of_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let table = |socket: &str, name: &str| {
        let socket = root.join(socket);
        format!("[drivers.{ID:?}]\ncsi_socket = {socket:?}\nname = {name:?}\n")
    };
    let before = settings_with(root, &table("old.sock", "old.test"));
    let after = settings_with(root, &table("new.sock", "new.test"));
    let layout = before.layout();
    fs::create_dir_all(layout.plugins_registry()).unwrap();
    let _old = FakeDriver::start(root.join("old.sock"), Behaviour::named("old.test"));
    let reread = Box::new(move || Ok(after.clone()));
    let mut supervisor = Supervisor::start(before, reread, None).await;
    timeout(SOON, async {
        while supervisor.inputs.is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .unwrap();
    supervisor.reload(&NodeVolumes::default()).unwrap();
    let stale = supervisor.inputs.try_recv().unwrap();
    supervisor.take_batch(stale);
    supervisor.finish_turn();
    let name = runner(&supervisor, ID).unwrap().driver.name();
    assert_eq!(name, None, "published with the endpoint of the new socket");
    let is_empty =
        |directory: &Path| fs::read_dir(directory).is_ok_and(|mut all| all.next().is_none());
    assert!(
        is_empty(layout.plugins_registry()),
        "a link of the old name"
    );
}

/// A kubelet's word and a reload cross.
#[tokio::test]
async fn a_call_counts_for_the_driver_that_it_was_about_and_for_no_other_with_its_id() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let table = |id: &str| {
        format!(
            "[drivers.{id:?}]\ncsi_socket = {:?}\n",
            root.join("csi.sock")
        )
    };
    let (before, after) = (table(ID), table("b.test"));
    let [before, after] = [before, after].map(|table| settings_with(root, &table));
    let mut supervisor = Supervisor::start(before, Box::new(move || Ok(after.clone())), None).await;
    let rejections =
        |supervisor: &Supervisor, id| runner(supervisor, id).unwrap().counts.rejections;
    let refuse = |supervisor: &Supervisor, id| {
        let (heard, answered) = oneshot::channel();
        runner(supervisor, id).unwrap().endpoint.refuse(heard);
        answered
    };

    let mut answered = refuse(&supervisor, ID);
    supervisor.reload(&NodeVolumes::default()).unwrap();
    let told = supervisor.inputs.recv().await.unwrap();
    supervisor.take_batch(told);
    assert_eq!(rejections(&supervisor, "b.test"), 1, "lost with the old id");
    supervisor.finish_turn();
    answered.try_recv().unwrap();

    let mut answered = refuse(&supervisor, "b.test");
    let key = supervisor.key_of("b.test").unwrap();
    supervisor.remove_driver(key);
    supervisor.add("b.test", None);
    let told = supervisor.inputs.recv().await.unwrap();
    supervisor.take_batch(told);
    assert_eq!(rejections(&supervisor, "b.test"), 0, "of another driver");
    supervisor.finish_turn();
    answered.try_recv().expect("the kubelet has its answer");
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
    assert!(supervisor.runners.is_empty() && supervisor.early_monitors.is_empty());
}
