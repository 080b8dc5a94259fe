//! `run`: the daemon.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::args::Args;
use super::configuration::Configuration;
use super::exit::Exit;
use super::ndr::flags::NdrFlags;
use crate::api::{control, http};
use crate::config::{Loaded, Settings, Sources};
use crate::disk::runtime_dir::{self, RuntimeDir, RuntimeError};
use crate::kubelet::root::KubeletRoot;
use crate::os::task::Task;
use crate::supervisor::{Order, Supervisor};
use crate::systemd::sandbox;
use crate::systemd::{self, log};

pub(crate) async fn run(args: &Args, flags: &NdrFlags, ignored: &[String]) -> Result<(), Exit> {
    if flags.probes() {
        return Ok(());
    }
    let mut sources = Sources::of_process(args.config.clone());
    flags
        .put_into(&mut sources)
        .map_err(|error| Exit::Usage(error.to_string()))?;
    let configuration = Configuration::new(args, sources);
    let Loaded {
        settings: at_start,
        warnings,
        ..
    } = loaded(&configuration).map_err(Exit::Config)?;
    let log = log::init(&at_start.log).map_err(Exit::failed)?;
    let (version, systemd) = (env!("CARGO_PKG_VERSION"), systemd::runs_us());
    tracing::info!(
        version,
        systemd,
        "node-storage-driver-registrar {version} starts"
    );
    log_root(configuration.root.borrow().as_ref());
    let without_effect = flags.without_effect().into_iter();
    for words in without_effect.chain(warnings.iter().map(String::as_str)) {
        tracing::warn!("{words}");
    }
    if !ignored.is_empty() {
        let flags = ignored.join(" ");
        tracing::debug!(%flags, "flags of klog that have no effect");
    }
    let target = at_start.log.target;
    let runtime = take_runtime(args, flags).map_err(Exit::failed)?;
    let filter = log.filter.clone();
    let reread = move || {
        let before = configuration.root.borrow().clone();
        let settings = loaded(&configuration)?.settings;
        if *configuration.root.borrow() != before {
            log_root(configuration.root.borrow().as_ref());
        }
        filter.set_level(settings.log.level);
        if settings.log.target != target {
            tracing::warn!("log.target has changed, which takes effect at the next start");
        }
        Ok(settings)
    };
    serve(at_start, runtime, reread).await
}

/// Locks the runtime directory. With node-driver-registrar's flags alone, this driver has a directory of
/// its own, and the daemon can do without: a container may be read-only.
fn take_runtime(args: &Args, flags: &NdrFlags) -> Result<Option<RuntimeDir>, RuntimeError> {
    let flag = args.runtime_dir.as_deref();
    let is_named = runtime_dir::named(flag).is_some();
    if is_named || args.config.is_some() || !flags.name_a_driver() {
        return RuntimeDir::take_in_turn(&runtime_dir::locate(flag)).map(Some);
    }
    match RuntimeDir::take_in_turn(&flags.runtime_dir()) {
        Err(error) if !error.is_held() => {
            tracing::warn!(
                "{error}; running without state and control socket: after a restart the kubelet registers the driver again, and status does not work"
            );
            Ok(None)
        }
        taken => taken.map(Some),
    }
}

/// The configuration as it is now. Refused if the sandbox would make it useless.
fn loaded(configuration: &Configuration) -> Result<Loaded, String> {
    let loaded = configuration.load().map_err(|error| error.to_string())?;
    if systemd::runs_us() {
        sandbox::of_this_process(&loaded.settings).map_err(|kept| kept.to_string())?;
    }
    Ok(loaded)
}

fn log_root(root: Option<&KubeletRoot>) {
    let Some(KubeletRoot { path, why }) = root else {
        return;
    };
    let root_dir = path.display();
    let words = format!("kubelet.root_dir is \"auto\", the registrar uses {root_dir}: {why}");
    tracing::info!(%root_dir, "{words}");
}

async fn serve(
    settings: Settings,
    runtime: Option<RuntimeDir>,
    reread: impl Fn() -> Result<Settings, String> + Send + 'static,
) -> Result<(), Exit> {
    let (orders, taken) = mpsc::channel(4);
    let _signals = Task::spawn(pass_on(orders).map_err(Exit::failed)?);
    let runtime_dir = runtime.as_ref().map(|runtime| runtime.path());
    let runtime_dir = runtime_dir.map(|path| path.display().to_string());
    let drivers = settings.drivers.len();
    tracing::info!(
        drivers,
        runtime_dir,
        "drivers in the configuration: {drivers}"
    );
    let place = runtime.as_ref().map(|runtime| runtime.place().clone());
    let supervisor = Supervisor::start(settings, Box::new(reread), runtime).await;
    let serve = |place| {
        control::serve(
            place,
            supervisor.commands(),
            supervisor.snapshots(),
            supervisor.volumes(),
            supervisor.looks(),
        )
    };
    let _control = place.map(serve).transpose().map_err(Exit::failed)?;
    let _http = http::serve(
        supervisor.listen(),
        supervisor.looks(),
        supervisor.commands(),
        supervisor.snapshots(),
        supervisor.volumes(),
        supervisor.metrics(),
    );
    supervisor.run(taken).await.map_err(Exit::failed)
}

/// Turns signals into orders, for as long as the future runs. Signals wait from this call on.
fn pass_on(orders: mpsc::Sender<Order>) -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        loop {
            let order = tokio::select! {
                _ = terminate.recv() => Order::Stop,
                _ = interrupt.recv() => Order::Stop,
                _ = hangup.recv() => Order::Reload,
            };
            if orders.send(order).await.is_err() {
                return;
            }
        }
    })
}
