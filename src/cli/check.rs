//! `check`: whether the configuration is right, and what it would do.

use super::exit::complain;
use crate::config::{Loaded, Settings};
use crate::disk::layout::LinkAlias;
use crate::disk::name::DriverName;
use crate::systemd::sandbox;

/// What would be done.
pub(crate) fn report(loaded: &Loaded) -> String {
    let mut report = plan(&loaded.settings);
    if let Some(why) = loaded.root_found() {
        let registry_dir = loaded.settings.kubelet.registry_dir.display();
        report += &format!("kubelet.root_dir is \"auto\": links go to {registry_dir}; {why}\n");
    }
    report
}

/// Says what would not work under systemd.
pub(crate) fn warn(loaded: &Loaded) {
    for warning in sandbox::kept_by_the_unit(&loaded.settings) {
        complain(&format!("warning: {warning}"));
    }
}

/// What the daemon would do with these settings, in words.
fn plan(settings: &Settings) -> String {
    let layout = settings.layout();
    let mut plan = String::from("the configuration is valid\n");
    for (id, driver) in &settings.drivers {
        plan += &format!(
            "driver {id}\n  waits for      {}\n",
            driver.csi_socket.display()
        );
        let pinned = driver
            .name
            .as_deref()
            .and_then(|name| DriverName::parse(name).ok());
        let (socket, link, target) = match &pinned {
            Some(name) => (
                layout.socket(name),
                layout.link(name, LinkAlias::default()),
                layout.target(name),
            ),
            None => {
                let dir = if layout.one_directory() { "." } else { "" };
                let shown = format!("{dir}NAME-reg.sock");
                let target = if layout.one_directory() {
                    shown.clone().into()
                } else {
                    settings.kubelet.sees_registry_as.join(&shown)
                };
                (
                    layout.registry_dir().join(&shown),
                    layout.kubelet_dir().join("NAME-reg.sock"),
                    target,
                )
            }
        };
        plan += &format!("  serves         {}\n", socket.display());
        plan += &format!(
            "  links          {} -> {}\n",
            link.display(),
            target.display()
        );
        plan += &format!("  tells kubelet  endpoint {}\n", driver.endpoint.display());
    }
    plan += &discovery(settings);
    plan
}

fn discovery(settings: &Settings) -> String {
    let discovery = &settings.discovery;
    if discovery.enabled {
        let sockets = settings.plugins_dir.join("*/csi.sock");
        let mut line = format!("discovery is on: {} is a driver", sockets.display());
        if !discovery.exclude.is_empty() {
            line += &format!(", except {}", discovery.exclude.join(", "));
        }
        line + "\n"
    } else if settings.drivers.is_empty() {
        "no drivers are configured, and discovery is off\n".to_owned()
    } else {
        "discovery is off: these are all\n".to_owned()
    }
}
