//! The loop that compares desired and actual paths.

use std::rc::Rc;

use tokio::time::{MissedTickBehavior, interval, sleep};

use super::operations::Operations;
use super::pod_resources;
use super::record::Event;
use super::registration::{deregister, register};
use super::watcher::Watcher;
use super::world::World;

/// Runs a kubelet from its start to its end.
pub(super) async fn live(world: World) {
    let world = Rc::new(world);
    let socket = world.settings.pod_resources_socket();
    let listener = world
        .settings
        .pod_resources
        .then(|| pod_resources::listen(&socket));
    world.ledger.write(Event::Started);
    tokio::select! {
        () = pod_resources::accept_all(listener) => {}
        () = look_after_plugins(&world) => {}
    }
}

async fn look_after_plugins(world: &Rc<World>) {
    sleep(world.settings.watcher_delay).await;
    let mut watcher = Watcher::start(Rc::clone(world));
    world.ledger.write(Event::Watching);

    let mut operations = Operations::new(world.settings.timing);
    let mut tick = interval(world.settings.timing.loop_interval);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = watcher.step() => {}
            _ = tick.tick() => {
                if !world.faults().pause {
                    reconcile(world, &mut operations);
                }
            }
        }
    }
}

/// De-registrations come first. Their paths are busy, so a new registration waits for the next round:
/// for that second a recreated link has no driver.
fn reconcile(world: &Rc<World>, operations: &mut Operations) {
    for (path, plugin) in world.to_deregister() {
        let world = Rc::clone(world);
        operations.start(&path.clone(), async move {
            deregister(&world, &path, &plugin);
            Ok(())
        });
    }
    for (path, stamp) in world.to_register() {
        let world = Rc::clone(world);
        operations.start(&path.clone(), async move {
            register(&world, &path, stamp).await
        });
    }
}
