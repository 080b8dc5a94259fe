//! node-driver-registrar's flags, and the keys of our configuration that they set.

use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use crate::config::{self, Overrides, Sources};
use crate::grpc::client::without_scheme;
use crate::os::go_flags;

/// The defaults of node-driver-registrar.
const CSI_ADDRESS: &str = "/run/csi/socket";
const PLUGIN_REGISTRATION_PATH: &str = "/registration";
/// The mode in which node-driver-registrar only checks whether it has registered the driver once.
const PROBE: &str = "kubelet-registration-probe";
/// The beginning of the runtime directory of a driver.
const RUNTIME: &str = "/run/node-storage-driver-registrar-";
/// The longest part of a name in that directory's name: the path of `control.sock` has a limit.
const SLUG: usize = 40;

/// Flags in an existing unit or container command of node-driver-registrar.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Flags of node-driver-registrar")]
pub(crate) struct NdrFlags {
    /// The driver's socket. Default: /run/csi/socket.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) csi_address: Option<String>,
    /// The same socket as the kubelet sees it. Required without --config.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) kubelet_registration_path: Option<String>,
    /// The kubelet's plugins_registry. Default: /registration.
    #[arg(long, value_name = "DIR")]
    pub(crate) plugin_registration_path: Option<String>,
    /// Serve in --plugin-registration-path and put a link into this directory.
    /// node-driver-registrar does not have this flag.
    #[arg(long, value_name = "DIR")]
    pub(crate) kubelet_plugins_registry: Option<String>,
    /// Address for /healthz, such as :9809.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http_endpoint: Option<String>,
    /// Port for /healthz. Deprecated: use --http-endpoint.
    #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
    pub(crate) health_port: Option<i32>,
    /// Deadline of a call to the driver.
    #[arg(long, value_name = "DURATION", value_parser = go_flags::duration)]
    pub(crate) timeout: Option<Duration>,
    /// Deprecated, no effect.
    #[arg(long, value_name = "DURATION")]
    pub(crate) connection_timeout: Option<String>,
    /// Deprecated: registration, or kubelet-registration-probe, which exits at once with 0.
    #[arg(long, value_name = "MODE", value_parser = ["registration", PROBE], hide_possible_values = true)]
    pub(crate) mode: Option<String>,
    /// No effect.
    #[arg(long)]
    pub(crate) enable_pprof: bool,
    /// Verbosity as in klog: debug from 4 on, trace from 6 on.
    #[arg(long, value_name = "N")]
    pub(crate) v: Option<u8>,
    /// Log format: text or json.
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"], hide_possible_values = true)]
    pub(crate) logging_format: Option<String>,
}

/// Flags that do not go together.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum NdrError {
    #[error("--kubelet-registration-path is required: the driver's socket as the kubelet sees it")]
    NoRegistrationPath,
    #[error("only one of --health-port and --http-endpoint can be given")]
    TwoAddresses,
}

impl NdrFlags {
    /// The flags name a driver, so that no configuration file is needed.
    pub(crate) fn name_a_driver(&self) -> bool {
        self.csi_address.is_some()
            || self.kubelet_registration_path.is_some()
            || self.plugin_registration_path.is_some()
            || self.kubelet_plugins_registry.is_some()
    }

    /// The mode in which the program exits at once.
    pub(crate) fn probes(&self) -> bool {
        self.mode.as_deref() == Some(PROBE)
    }

    /// Adds the flags to the sources of a configuration, where they win.
    pub(crate) fn put_into(&self, sources: &mut Sources) -> Result<(), NdrError> {
        let alone = sources.config.is_none() && self.name_a_driver();
        if alone {
            sources.default_config = None;
            if self.kubelet_registration_path.is_none() {
                return Err(NdrError::NoRegistrationPath);
            }
        }
        self.put_log(&mut sources.overrides);
        self.put_http(&mut sources.overrides)?;
        self.put_directories(&mut sources.overrides, alone);
        self.put_driver(sources, alone);
        Ok(())
    }

    fn put_log(&self, overrides: &mut Overrides) {
        let level = self.v.map(|v| match v {
            0..=3 => "info",
            4 | 5 => "debug",
            6.. => "trace",
        });
        overrides.set("--v", &["log", "level"], level);
        let format = self.logging_format.as_deref();
        let json = format.filter(|format| *format == "json");
        overrides.set("--logging-format", &["log", "target"], json);
    }

    fn put_http(&self, overrides: &mut Overrides) -> Result<(), NdrError> {
        let endpoint = self.http_endpoint.as_deref();
        let port = self.health_port.filter(|port| *port > 0);
        if port.is_some() && endpoint.is_some_and(|endpoint| !endpoint.is_empty()) {
            return Err(NdrError::TwoAddresses);
        }
        let key = ["http", "listen"];
        overrides.set("--http-endpoint", &key, endpoint.map(address));
        // The last value counts: a port wins over an empty endpoint.
        let port = port.map(|port| address(&format!(":{port}")));
        overrides.set("--health-port", &key, port);
        Ok(())
    }

    fn put_directories(&self, overrides: &mut Overrides, alone: bool) {
        let given = self.plugin_registration_path.as_deref();
        let ours = given.or(alone.then_some(PLUGIN_REGISTRATION_PATH));
        let kubelets = self.kubelet_plugins_registry.as_deref();
        let key = ["kubelet", "plugins_registry"];
        overrides.set("--plugin-registration-path", &["registry_dir"], ours);
        overrides.set("--plugin-registration-path", &key, ours);
        overrides.set("--kubelet-plugins-registry", &key, kubelets);
        if alone && let Some((flag, root)) = self.kubelet_root() {
            overrides.set(flag, &["kubelet", "root_dir"], Some(root));
        }
    }

    /// The kubelet's root directory, if a path of the kubelet's shows it, and the flag with that path.
    fn kubelet_root(&self) -> Option<(&'static str, String)> {
        let socket = "--kubelet-registration-path";
        let paths = [
            ("--kubelet-plugins-registry", &self.kubelet_plugins_registry),
            ("--plugin-registration-path", &self.plugin_registration_path),
            (socket, &self.kubelet_registration_path),
        ];
        let root = paths.into_iter().find_map(|(flag, path)| {
            let path = Path::new(without_scheme(path.as_deref()?));
            let of_sockets = flag == socket;
            let name = if of_sockets {
                "plugins"
            } else {
                "plugins_registry"
            };
            let directory = path.ancestors().find(|step| step.ends_with(name))?;
            Some((flag, directory.parent()?.to_str()?.to_owned()))
        });
        root.filter(|(_, root)| root != "/")
    }

    fn put_driver(&self, sources: &mut Sources, alone: bool) {
        let timeout = self.timeout.map(humantime::format_duration);
        let timeout = timeout.map(|timeout| timeout.to_string());
        let endpoint = self.kubelet_registration_path.as_deref();
        if !alone && self.csi_address.is_none() && endpoint.is_none() {
            let key = ["defaults", "request_timeout"];
            sources.overrides.set("--timeout", &key, timeout);
            return;
        }
        let id = self.known_id(sources).unwrap_or_else(|| self.id());
        let overrides = &mut sources.overrides;
        let driver = |key| ["drivers", id.as_str(), key];
        let (socket, endpoint) = (self.csi_socket(), endpoint.map(without_scheme));
        overrides.set("--csi-address", &driver("csi_socket"), Some(socket));
        overrides.set("--kubelet-registration-path", &driver("endpoint"), endpoint);
        overrides.set("--timeout", &driver("request_timeout"), timeout);
    }

    fn csi_socket(&self) -> &str {
        without_scheme(self.csi_address.as_deref().unwrap_or(CSI_ADDRESS))
    }

    /// The id of the driver in the configuration file that has this socket: the flags are about it.
    fn known_id(&self, sources: &Sources) -> Option<String> {
        sources.config.as_ref()?;
        // The faults of the file are reported when the whole configuration is loaded.
        let settings = config::load(sources).ok()?.settings;
        let socket = Path::new(self.csi_socket());
        let mut drivers = settings.drivers.into_iter();
        let (id, _) = drivers.find(|(_, driver)| driver.csi_socket == socket)?;
        Some(id)
    }

    /// The name of the directory of the driver's socket. In a container that is often /csi; the
    /// kubelet's path to the socket has the driver's name.
    pub(crate) fn id(&self) -> String {
        let kubelets = self.kubelet_registration_path.as_deref();
        let name = kubelets.and_then(directory_name);
        let name = name.or_else(|| directory_name(self.csi_socket()));
        name.unwrap_or("csi").to_owned()
    }

    /// The runtime directory of this driver alone, so that two units work side by side.
    pub(crate) fn runtime_dir(&self) -> PathBuf {
        let socket = self.csi_socket();
        let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let name = directory_name(socket).unwrap_or("csi").chars();
        let name: String = name.filter(|c| fit(*c)).take(SLUG).collect();
        PathBuf::from(format!("{RUNTIME}{name}-{:08x}", fnv(socket.as_bytes())))
    }

    /// Warnings about flags that have no effect, or another name now.
    pub(crate) fn without_effect(&self) -> Vec<&'static str> {
        let port = "--health-port is deprecated, use --http-endpoint";
        let timeout = "--connection-timeout is deprecated and has no effect";
        let mode = "--mode is deprecated and has no effect";
        let profiles = "--enable-pprof has no effect: this program has no Go profiles";
        let warnings = [
            self.health_port.is_some().then_some(port),
            self.connection_timeout.is_some().then_some(timeout),
            self.mode.is_some().then_some(mode),
            self.enable_pprof.then_some(profiles),
        ];
        warnings.into_iter().flatten().collect()
    }
}

/// FNV-1a folded to 32 bits: the same in every build, which the standard library's hasher does not
/// promise.
fn fnv(bytes: &[u8]) -> u32 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 32)) as u32
}

fn directory_name(socket: &str) -> Option<&str> {
    Path::new(without_scheme(socket))
        .parent()?
        .file_name()?
        .to_str()
}

/// The address as we write it. Without a host, Go listens on all IPv6 and IPv4 addresses.
fn address(endpoint: &str) -> String {
    match endpoint.split_once(':') {
        Some(("", port)) => format!("[::]:{port}"),
        Some(("localhost", port)) => format!("127.0.0.1:{port}"),
        _ => endpoint.to_owned(),
    }
}

#[cfg(test)]
mod tests;
