//! The steps of docs/moving.md, with a stand-in for node-driver-registrar.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use bed::kubelet::{Event, Mark};
use bed::scene::{NAME, QUIET, SOON};
use bed::{Behaviour, FakeDriver, Release, Scene, Sidecar, TestKubelet, eventually};

use crate::setup;

/// A node on which the driver runs twice: in a pod with its sidecar, and on the host.
struct Move {
    scene: Scene,
    kubelet: TestKubelet,
    pod: FakeDriver,
    host: FakeDriver,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Registered(String),
    Deregistered,
}

impl Move {
    fn begin(release: Release, more: &str) -> Move {
        let scene = setup().discovery().more(more).set();
        let kubelet = TestKubelet::start(scene.node.kubelet_settings(release));
        let pods = scene.node.kubelet_root().join("plugins/x/csi.sock");
        let behaviour = Behaviour::named(NAME);
        Move {
            pod: FakeDriver::start_in_new_directory(pods, behaviour),
            host: scene.node.driver(NAME),
            scene,
            kubelet,
        }
    }

    fn sidecar(&self) -> Sidecar {
        Sidecar::start(self.scene.node.link(NAME), NAME, self.pod.path())
    }

    #[track_caller]
    fn wait_endpoint(&self, endpoint: PathBuf) {
        let endpoint = endpoint.display().to_string();
        eventually("the endpoint is registered", SOON, || {
            self.kubelet.registered().get(NAME) == Some(&endpoint)
        });
    }

    /// The kubelet's steps since the mark, after it has been quiet for long enough.
    fn steps(&self, mark: Mark) -> Vec<Step> {
        let wanted = |event: &Event| {
            matches!(
                event,
                Event::Register { .. }
                    | Event::Deregister {
                        registered: true,
                        ..
                    }
            )
        };
        let mut events = self.kubelet.events_since(mark, wanted);
        let mut since = Instant::now();
        while since.elapsed() < QUIET {
            thread::sleep(Duration::from_millis(50));
            let now = self.kubelet.events_since(mark, wanted);
            if now != events {
                (events, since) = (now, Instant::now());
            }
        }
        let step = |event| match event {
            Event::Register { endpoint, .. } => Step::Registered(endpoint),
            _ => Step::Deregistered,
        };
        events.into_iter().map(step).collect()
    }

    fn pods(&self) -> Step {
        Step::Registered(self.pod.path().display().to_string())
    }

    fn hosts(&self) -> Step {
        let socket = self.scene.node.csi_socket(NAME);
        Step::Registered(socket.display().to_string())
    }
}

fn for_each_release(test: impl Fn(Release) + Sync) {
    thread::scope(|scope| {
        for release in Release::ALL {
            let test = &test;
            scope.spawn(move || test(release));
        }
    });
}

#[test]
fn from_a_sidecar_to_the_host_and_back_costs_one_change_each_way() {
    for_each_release(|release| {
        let mut it = Move::begin(release, "");
        let sidecar = it.sidecar();
        it.wait_endpoint(it.pod.path().to_owned());
        // The registrar starts, and waits while the sidecar serves the driver.
        let mark = it.kubelet.mark();
        it.scene.registrar.start();
        let status = it.scene.phase(NAME, "conflict");
        assert!(status.reason.unwrap().contains("pid"));
        assert_eq!(it.steps(mark), []);
        // The pod is removed.
        let mark = it.kubelet.mark();
        sidecar.stop();
        it.wait_endpoint(it.scene.node.csi_socket(NAME));
        it.scene.phase(NAME, "registered");
        assert_eq!(it.steps(mark), [Step::Deregistered, it.hosts()]);
        // Back: the operator withdraws the driver, and the pod starts.
        let mark = it.kubelet.mark();
        it.scene.registrar.succeed(&["withdraw", NAME]);
        it.kubelet.wait_deregistered(NAME, SOON);
        let _sidecar = it.sidecar();
        it.wait_endpoint(it.pod.path().to_owned());
        assert_eq!(it.steps(mark), [Step::Deregistered, it.pods()]);
        it.scene.phase(NAME, "withdrawn");
        assert!(it.scene.registrar.stop().success());
        assert_eq!(it.steps(mark).len(), 2, "our end is not seen");
    });
}

#[test]
fn a_sidecar_that_dies_leaves_its_place_to_us() {
    let mut it = Move::begin(Release::V1_36, "");
    let sidecar = it.sidecar();
    it.wait_endpoint(it.pod.path().to_owned());
    it.scene.registrar.start();
    it.scene.phase(NAME, "conflict");
    let mark = it.kubelet.mark();
    sidecar.kill();
    it.wait_endpoint(it.scene.node.csi_socket(NAME));
    assert_eq!(it.steps(mark), [Step::Deregistered, it.hosts()]);
}

#[test]
fn a_take_over_costs_one_change_and_the_sidecars_end_another() {
    let mut it = Move::begin(
        Release::V1_36,
        "[defaults]\non_live_owner = \"take-over\"\n",
    );
    let sidecar = it.sidecar();
    it.wait_endpoint(it.pod.path().to_owned());
    let mark = it.kubelet.mark();
    it.scene.registrar.start();
    it.wait_endpoint(it.scene.node.csi_socket(NAME));
    it.scene.phase(NAME, "registered");
    assert_eq!(it.steps(mark), [Step::Deregistered, it.hosts()]);
    // On its end the sidecar removes the file at its path, which is the registrar's link; the registrar
    // puts it back.
    let mark = it.kubelet.mark();
    sidecar.stop();
    it.scene
        .registrar
        .wait_driver("put back", NAME, SOON, |driver| driver.link_repairs == 1);
    it.scene.phase(NAME, "registered");
    assert_eq!(it.steps(mark), [Step::Deregistered, it.hosts()]);
}

/// node-driver-registrar on the host: its socket has the path of the registrar's socket, and its link
/// is the one that the registrar would create.
#[test]
fn from_a_hand_run_unit_to_the_registrar_and_back_costs_one_change_each_way() {
    for_each_release(|release| {
        let mut it = Move::begin(release, "");
        let (socket, link) = (it.scene.node.reg_socket(NAME), it.scene.node.link(NAME));
        let endpoint = it.scene.node.csi_socket(NAME);
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let unit = Sidecar::start(&socket, NAME, &endpoint);
        symlink(&socket, &link).unwrap();
        it.wait_endpoint(endpoint.clone());
        let mark = it.kubelet.mark();
        it.scene.registrar.start();
        it.scene.phase(NAME, "conflict");
        // Neither a restart of the driver nor of the registrar takes the link from the unit.
        it.host.stop();
        it.scene.phase(NAME, "waiting-for-driver");
        it.host.restart(Behaviour::named(NAME));
        it.scene.phase(NAME, "conflict");
        assert!(it.scene.registrar.stop().success());
        it.scene.registrar.start();
        it.scene.phase(NAME, "conflict");
        assert_eq!(it.steps(mark), []);
        let mark = it.kubelet.mark();
        unit.stop();
        it.scene.phase(NAME, "registered");
        assert_eq!(it.steps(mark), [Step::Deregistered, it.hosts()]);
        // Back: the registrar's stop removes the link, and the unit creates it again.
        let mark = it.kubelet.mark();
        assert!(it.scene.registrar.stop().success());
        it.kubelet.wait_deregistered(NAME, SOON);
        let _unit = Sidecar::start(&socket, NAME, &endpoint);
        symlink(&socket, &link).unwrap();
        it.wait_endpoint(endpoint);
        assert_eq!(it.steps(mark), [Step::Deregistered, it.hosts()]);
    });
}
