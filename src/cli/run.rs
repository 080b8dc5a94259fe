//! `run`: the daemon.

use std::cell::RefCell;
use std::path::Path;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::args::Args;
use super::exit::Exit;
use super::ndr::flags::NdrFlags;
use super::{find_root, root_before, set_log_level};
use crate::api::{control, http};
use crate::config::{self, Overrides, Settings, Sources};
use crate::disk::runtime_dir::{self, RuntimeDir, RuntimeError};
use crate::kubelet::root::{KubeletRoot, RootSource};
use crate::supervisor::{Order, Supervisor};
use crate::systemd::sandbox;
use crate::systemd::{self, log};

pub(crate) fn run(args: &Args, flags: &NdrFlags, ignored: &[String]) -> Result<(), Exit> {
    if flags.probes() {
        return Ok(());
    }
    let mut sources = Sources::of_process(args.config.clone(), Overrides::default());
    flags
        .put_into(&mut sources)
        .map_err(|error| Exit::Usage(error.to_string()))?;
    set_log_level(args, &mut sources);
    let known = RefCell::new(None);
    let usual = runtime_dir::locate(args.runtime_dir.as_deref());
    let settings = settle_configuration(&sources, &known, &usual).map_err(Exit::Config)?;
    let log = log::init(&settings.log).map_err(failed)?;
    say(known.borrow().as_ref());
    for words in flags.without_effect() {
        tracing::warn!("{words}");
    }
    if !ignored.is_empty() {
        let flags = ignored.join(" ");
        tracing::debug!(%flags, "flags of klog that have no effect");
    }
    let target = settings.log.target;
    let runtime = take_runtime(args, flags).map_err(failed)?;
    let runner = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let filter = log.filter.clone();
    let ended = runner.block_on(serve(settings, runtime, move || {
        let before = known.borrow().clone();
        let settings = settle_configuration(&sources, &known, &usual)?;
        if *known.borrow() != before {
            say(known.borrow().as_ref());
        }
        filter.set_level(settings.log.level);
        if settings.log.target != target {
            tracing::warn!("log.target has changed, which takes effect at the next start");
        }
        Ok(settings)
    }));
    // A thread that waits for a file system is not waited for.
    runner.shutdown_background();
    ended
}

/// The runtime directory. With flags alone it is one for this driver, and may be missing: a
/// container has what it is given.
fn take_runtime(args: &Args, flags: &NdrFlags) -> Result<Option<RuntimeDir>, RuntimeError> {
    let named = runtime_dir::named(args.runtime_dir.as_deref());
    if named.is_some() || args.config.is_some() || !flags.name_a_driver() {
        let path = named.unwrap_or_else(runtime_dir::usual);
        return RuntimeDir::take_in_turn(&path).map(Some);
    }
    match RuntimeDir::take_in_turn(&flags.runtime_dir()) {
        Err(error) if !error.is_held() => {
            tracing::warn!(
                "{error}; running without state and control socket: a restart costs a registration, and status has nobody to ask"
            );
            Ok(None)
        }
        taken => taken.map(Some),
    }
}

/// The settings as they are now, refused when the sandbox would make them useless. `known` is the
/// kubelet's root as it was found last, if not by an earlier run with this runtime directory.
fn settle_configuration(
    sources: &Sources,
    known: &RefCell<Option<KubeletRoot>>,
    runtime: &Path,
) -> Result<Settings, String> {
    let mut loaded = config::load(sources).map_err(|error| error.to_string())?;
    if loaded.needs_kubelet_root() {
        let before = known.borrow().clone();
        let root = find_root(root_before(runtime), before);
        loaded
            .resolve_kubelet_root(root.path.clone(), root.why.to_string())
            .map_err(|error| error.to_string())?;
        known.replace(Some(root));
    }
    let settings = loaded.settings;
    if systemd::runs_us() {
        let kept = sandbox::kept_from_us(&settings);
        if !kept.is_empty() {
            return Err(format!(
                "{}; use another directory, or change the unit with a drop-in",
                kept.join("\n")
            ));
        }
    }
    Ok(settings)
}

fn say(root: Option<&KubeletRoot>) {
    let Some(KubeletRoot { path, why }) = root else {
        return;
    };
    let root_dir = path.display();
    let words = format!("kubelet.root_dir is \"auto\", and {root_dir} was taken: {why}");
    if matches!(why, RootSource::Disputed(_)) {
        tracing::warn!(%root_dir, "{words}");
    } else {
        tracing::info!(%root_dir, "{words}");
    }
}

async fn serve(
    settings: Settings,
    runtime: Option<RuntimeDir>,
    reread: impl Fn() -> Result<Settings, String> + Send + 'static,
) -> Result<(), Exit> {
    let (orders, taken) = mpsc::channel(4);
    let _signals = crate::os::task::Task::spawn(Signals::new().map_err(failed)?.pass_on(orders));
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        drivers = settings.drivers.len(),
        systemd = systemd::runs_us(),
        runtime_dir = runtime
            .as_ref()
            .map(|runtime| runtime.path().display().to_string()),
        "starting"
    );
    let place = runtime.as_ref().map(|runtime| runtime.place().clone());
    let supervisor = Supervisor::start(settings, Box::new(reread), runtime).await;
    let serve = |place| {
        control::serve(
            place,
            supervisor.commands(),
            supervisor.snapshots(),
            supervisor.looks(),
        )
    };
    let _control = place.map(serve).transpose().map_err(failed)?;
    let _http = http::serve(
        supervisor.listen(),
        supervisor.looks(),
        supervisor.commands(),
        supervisor.snapshots(),
        supervisor.metrics(),
    );
    supervisor.run(taken).await.map_err(failed)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn pass_on(mut self, orders: mpsc::Sender<Order>) {
        loop {
            let order = tokio::select! {
                _ = self.terminate.recv() => Order::Stop,
                _ = self.interrupt.recv() => Order::Stop,
                _ = self.hangup.recv() => Order::Reload,
            };
            if orders.send(order).await.is_err() {
                return;
            }
        }
    }
}

fn failed(error: impl std::fmt::Display) -> Exit {
    Exit::Failed(error.to_string())
}
