//! The steps, in the order in which they happen.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bed::driver::{Behaviour, FakeDriver};
use bed::kubelet::{KubeletProcess, Release, Settings};
use bed::node::Node;

use crate::cast::{DRIVER, Daemon, leads, listens, nothing_happened, seen, wait_kubelet};
use crate::patience::{Failure, Looks, until};
use crate::screen::Screen;

/// The kubelet looks once a second. An action that it has not done in this time, it does not do.
const TWO_LOOKS: Duration = Duration::from_millis(2200);

/// The three parties while the demo runs.
struct Scene<'a> {
    node: &'a Node,
    screen: &'a Screen,
    daemon: Daemon,
    kubelet: KubeletProcess,
}

/// Runs all steps, and ends at the first step that fails.
pub(crate) fn tell(node: &Node, screen: &Screen) -> Result<(), Failure> {
    let start = Instant::now();
    introduce(node, screen);
    node.write_default_config(&[DRIVER], "");
    let mut scene = Scene {
        node,
        screen,
        daemon: Daemon::new(node)?,
        kubelet: KubeletProcess::start(Settings::new(node.kubelet_root(), Release::V1_36)),
    };
    let mut driver = None;
    let told = scene.play(&mut driver);
    told.map_err(|failure| scene.daemon.with_log(failure))?;
    println!(
        "\nAll steps succeeded in {:.1} s. {} is removed now.",
        start.elapsed().as_secs_f64(),
        node.root().display()
    );
    Ok(())
}

fn introduce(node: &Node, screen: &Screen) {
    screen.paragraph(
        "A Kubernetes node can use a storage driver only after the kubelet, the agent of the \
         cluster on the node, has registered it. The registrar tells the kubelet about the \
         driver. This demo runs the real registrar between a small driver and a test kubelet \
         that behaves as the kubelet of Kubernetes 1.36.",
    );
    let root = node.root().display();
    screen.paragraph(&format!("All files are in {root}:"));
    screen.place("driver socket", &node.csi_socket(DRIVER));
    screen.place("registration socket", &node.reg_socket(DRIVER));
    screen.place("link to it", &node.link(DRIVER));
    println!();
    screen.paragraph(
        "The kubelet acts once a second, so each of its actions takes up to a second. All other \
         times are the registrar's own.",
    );
}

impl Scene<'_> {
    fn play(&mut self, driver: &mut Option<FakeDriver>) -> Result<(), Failure> {
        self.registrar_waits()?;
        let driver = driver.insert(self.driver_appears()?);
        self.driver_restarts(driver)?;
        self.link_is_deleted()?;
        self.registrar_is_killed()?;
        self.registrar_stops()
    }

    fn registrar_waits(&mut self) -> Result<(), Failure> {
        self.screen
            .step("The registrar starts; the driver does not run yet");
        let start = Instant::now();
        let pid = self.daemon.start();
        let control = self.node.runtime_dir().join("control.sock");
        let ((), taken) = until(
            "the registrar answers on its control socket",
            Looks::Closely,
            start,
            || listens(&control),
        )?;
        self.screen
            .came_true(&format!("the registrar runs (pid {pid})"), taken);
        let reason = self.daemon.wait_phase("waiting-for-driver")?;
        self.screen.is_so("it waits for the driver indefinitely");
        self.screen.aside(&format!("status: {reason}"));
        Ok(())
    }

    fn driver_appears(&mut self) -> Result<FakeDriver, Failure> {
        self.screen.step("The driver starts");
        let mark = self.kubelet.mark();
        let start = Instant::now();
        let driver = FakeDriver::start_in_new_directory(
            self.node.csi_socket(DRIVER),
            Behaviour::named(DRIVER),
        );
        let socket = self.node.reg_socket(DRIVER);
        let ((), served) = until(
            "the registration socket listens",
            Looks::Closely,
            start,
            || listens(&socket),
        )?;
        let link = self.node.link(DRIVER);
        let (target, linked) = until("the link exists", Looks::Closely, start, || leads(&link))?;
        self.screen.came_true(
            "the registrar knows its name and serves the registration socket",
            served,
        );
        self.screen
            .came_true("the link exists where the kubelet looks", linked);
        self.screen.aside(&format!("link -> {target}"));
        let registered = wait_kubelet(&self.kubelet, true, start)?;
        self.daemon.wait_phase("registered")?;
        self.screen
            .came_true("the kubelet has registered the driver", registered);
        self.screen
            .aside(&format!("The kubelet: {}.", seen(&self.kubelet, mark)));
        Ok(driver)
    }

    fn driver_restarts(&mut self, driver: &mut FakeDriver) -> Result<(), Failure> {
        self.screen.step("The driver crashes and restarts");
        let mark = self.kubelet.mark();
        driver.kill();
        until(
            "the registrar has seen the driver go",
            Looks::AtEase,
            Instant::now(),
            || match self.daemon.wait_phase("registered") {
                Ok(reason) if reason.contains("not responding") => Ok(()),
                Ok(reason) => Err(reason),
                Err(failure) => Err(failure.to_string()),
            },
        )?;
        self.screen
            .is_so("crashed: the registrar keeps the link and the registration");
        let start = Instant::now();
        driver.restart(Behaviour::named(DRIVER));
        let ((), taken) = until(
            "the registrar has reached the driver again",
            Looks::Closely,
            start,
            || match driver.connections() {
                0 => Err("no connection".to_owned()),
                _ => Ok(()),
            },
        )?;
        self.screen.came_true(
            "restarted: the registrar has reconnected to the driver",
            taken,
        );
        self.cluster_saw_nothing(mark)
    }

    fn link_is_deleted(&mut self) -> Result<(), Failure> {
        self.screen.step("Another process deletes the link");
        let mark = self.kubelet.mark();
        let link = self.node.link(DRIVER);
        let start = Instant::now();
        fs::remove_file(&link).map_err(Failure::other)?;
        let (_, taken) = until("the link is back", Looks::Closely, start, || leads(&link))?;
        self.screen
            .came_true("the registrar has restored the link", taken);
        let look = || match self.kubelet.counts_since(mark).registrations {
            0 => Err("no new registration".to_owned()),
            _ => Ok(()),
        };
        let ((), again) = until(
            "the kubelet registers the driver again",
            Looks::AtEase,
            start,
            look,
        )?;
        self.daemon.wait_phase("registered")?;
        self.screen
            .came_true("the kubelet has registered the driver again", again);
        self.screen.aside(&format!(
            "The kubelet: {}. It de-registers a driver whose link disappears; without the repair \
             the driver would stay unregistered.",
            seen(&self.kubelet, mark)
        ));
        Ok(())
    }

    fn registrar_is_killed(&mut self) -> Result<(), Failure> {
        self.screen
            .step("The registrar is killed (kill -9) and restarted");
        // The kubelet's Notify of the last step has ended when its last record says so.
        let notified = |event: &_| matches!(event, bed::kubelet::Event::Notified { .. });
        until(
            "the kubelet is at rest",
            Looks::AtEase,
            Instant::now(),
            || {
                let records = self.kubelet.records();
                let last = records.last().filter(|record| notified(&record.event));
                last.map(drop).ok_or_else(|| "it is at work".to_owned())
            },
        )?;
        let mark = self.kubelet.mark();
        self.daemon.kill9();
        leads(&self.node.link(DRIVER))
            .map_err(|error| Failure::Wrong(format!("the link does not exist: {error}")))?;
        self.screen
            .is_so("killed: the link stays, and the driver stays registered");
        let start = Instant::now();
        let pid = self.daemon.start();
        let socket = self.node.reg_socket(DRIVER);
        let ((), taken) = until(
            "the registration socket listens again",
            Looks::Closely,
            start,
            || listens(&socket),
        )?;
        self.screen.came_true(
            &format!("restarted (pid {pid}): it serves the registration socket again"),
            taken,
        );
        let reason = self.daemon.wait_phase("registered")?;
        self.screen.aside(&format!("status: {reason}"));
        self.cluster_saw_nothing(mark)
    }

    fn registrar_stops(&mut self) -> Result<(), Failure> {
        self.screen.step("The registrar stops (SIGTERM)");
        let start = Instant::now();
        let taken = self.daemon.stop()?;
        for path in [self.node.link(DRIVER), self.node.reg_socket(DRIVER)] {
            if fs::symlink_metadata(&path).is_ok() {
                let path = path.display();
                return Err(Failure::Wrong(format!("{path} still exists")));
            }
        }
        self.screen.came_true(
            "the registrar has removed its link and its socket, and exited",
            taken,
        );
        let gone = wait_kubelet(&self.kubelet, false, start)?;
        self.screen
            .came_true("the kubelet has de-registered the driver", gone);
        let look = || match self.kubelet.cluster().csi_node.len() {
            0 => Ok(()),
            _ => Err("the driver is still listed".to_owned()),
        };
        until("the cluster forgets the driver", Looks::AtEase, start, look)?;
        self.screen
            .aside("The cluster no longer lists the driver on this node.");
        Ok(())
    }

    fn cluster_saw_nothing(&self, mark: bed::kubelet::Mark) -> Result<(), Failure> {
        sleep(TWO_LOOKS);
        let seen = nothing_happened(&self.kubelet, mark)?;
        self.screen.is_so("nothing has changed in the cluster");
        self.screen.aside(&format!("The kubelet: {seen}."));
        Ok(())
    }
}
