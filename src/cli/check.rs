//! `check`: whether the configuration is valid, and what the daemon would do with it.

use super::args::Args;
use super::configuration::load;
use super::exit::{Exit, print_error};
use super::render::print;
use crate::config::Settings;
use crate::disk::layout::LinkAlias;
use crate::disk::name::DriverName;
use crate::systemd::sandbox;

/// Stands for the name of a driver that the configuration does not name.
const UNKNOWN: &str = "NAME";

pub(crate) fn check(args: &Args) -> Result<(), Exit> {
    let loaded = load(args)?;
    let settings = &loaded.settings;
    let mut report = plan(settings);
    if let Some(why) = &loaded.root_found {
        let registry_dir = settings.kubelet.registry_dir.display();
        report += &format!("kubelet.root_dir is \"auto\": links go to {registry_dir}; {why}\n");
    }
    print(&report)?;
    for warning in sandbox::kept_by_the_unit(settings) {
        print_error(&format!("warning: {warning}"));
    }
    Ok(())
}

/// What the daemon would do with these settings, in words.
fn plan(settings: &Settings) -> String {
    let layout = settings.layout();
    let unknown = DriverName::parse(UNKNOWN).expect("capitals follow the rules for names");
    let mut plan = String::from("the configuration is valid\n");
    for (id, driver) in &settings.drivers {
        let name = driver.name.as_ref().unwrap_or(&unknown);
        plan += &format!("driver {id}\n");
        plan += &format!("  waits for      {}\n", driver.csi_socket.display());
        plan += &format!("  serves         {}\n", layout.socket(name).display());
        let link = layout.link(name, LinkAlias::default());
        let target = layout.target(name);
        let (link, target) = (link.display(), target.display());
        plan += &format!("  links          {link} -> {target}\n");
        plan += &format!("  tells kubelet  endpoint {}\n", driver.endpoint.display());
    }
    plan + &discovery(settings)
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
        "discovery is off: the daemon registers only these drivers\n".to_owned()
    }
}
