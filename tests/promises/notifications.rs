//! What the daemon tells systemd.

use std::collections::BTreeSet;

use bed::NotifySocket;
use bed::scene::{NAME, SOON};

use crate::list::keeps;
use crate::setup;

/// A start, a sign of life, a reload and a stop.
#[test]
fn systemd_gets_the_promised_notifications() {
    let scene = setup().set();
    let notify = NotifySocket::bind(scene.node.root().join("notify"));
    let mut scene = scene
        .with_env("NOTIFY_SOCKET", notify.path())
        .with_env("WATCHDOG_USEC", "2000000");
    scene.registrar.start();
    notify.wait_for("READY=1", SOON);
    notify.wait_for_status(NAME, SOON);
    notify.wait_for("WATCHDOG=1", SOON);
    scene.registrar.succeed(&["reload"]);
    notify.wait_for("RELOADING=1", SOON);
    scene.registrar.stop();
    notify.wait_for("STOPPING=1", SOON);
    let messages = notify.messages();
    let fields = messages.iter().flat_map(|message| &message.fields);
    // Times are systemd's affair.
    let fields = fields.filter(|(key, _)| !key.ends_with("_USEC"));
    let lines = fields.map(|(key, value)| match &**key {
        "STATUS" => format!("{key}="),
        _ => format!("{key}={value}"),
    });
    keeps("notify", lines.collect::<BTreeSet<_>>());
}
