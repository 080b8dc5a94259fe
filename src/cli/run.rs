//! `run`: the daemon.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::args::Args;
use super::exit::Exit;
use super::sources;
use crate::config::{self, Settings, Sources};
use crate::runtime::{RuntimeDir, locate};
use crate::supervisor::{Order, Supervisor};
use crate::systemd::sandbox;
use crate::{control, log, systemd};

pub(crate) fn run(args: &Args) -> Result<(), Exit> {
    let sources = sources(args);
    let settings = settle(&sources).map_err(Exit::Config)?;
    let log = log::init(&settings.log).map_err(failed)?;
    let runtime = RuntimeDir::take(&locate(args.runtime_dir.as_deref())).map_err(failed)?;
    let runner = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    runner.block_on(serve(settings, runtime, move || {
        let settings = settle(&sources)?;
        log.set_level(settings.log.level);
        Ok(settings)
    }))
}

/// The settings as they are now, refused when the sandbox would make them useless.
fn settle(sources: &Sources) -> Result<Settings, String> {
    let settings = config::load(sources)
        .map_err(|error| error.to_string())?
        .settings;
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

async fn serve(
    settings: Settings,
    runtime: RuntimeDir,
    reread: impl Fn() -> Result<Settings, String> + Send + 'static,
) -> Result<(), Exit> {
    let (orders, taken) = mpsc::channel(4);
    let _signals = crate::task::Task::spawn(Signals::new().map_err(failed)?.pass_on(orders));
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        drivers = settings.drivers.len(),
        systemd = systemd::runs_us(),
        runtime_dir = %runtime.path().display(),
        "starting"
    );
    let supervisor = Supervisor::start(settings, Box::new(reread), Some(runtime.state()));
    let _control = control::serve(
        &runtime.control_socket(),
        supervisor.reporter(),
        supervisor.changes(),
    )
    .map_err(failed)?;
    supervisor.run(taken).await;
    runtime.leave();
    Ok(())
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
