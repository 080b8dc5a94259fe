//! node-driver-registrar's flags: what each of them says in our own keys.

use std::fmt;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use crate::config::{self, Overrides, Sources};

/// Where node-driver-registrar looks for the driver, and where it serves, unless told otherwise.
const CSI_ADDRESS: &str = "/run/csi/socket";
const PLUGIN_REGISTRATION_PATH: &str = "/registration";
/// What a node-driver-registrar calls the mode in which it only looks whether it once worked.
const PROBE: &str = "kubelet-registration-probe";
/// The name that a unit's runtime directory begins with, below /run.
const RUNTIME: &str = "/run/node-storage-driver-registrar-";
/// `control.sock` in the runtime directory has to fit into a socket's path.
const SLUG: usize = 40;

/// Flags that an existing unit or container command of node-driver-registrar has.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Flags of node-driver-registrar")]
pub(crate) struct NdrFlags {
    /// The driver's socket; /run/csi/socket unless given.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) csi_address: Option<String>,
    /// The same socket as the kubelet sees it; required without --config.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) kubelet_registration_path: Option<String>,
    /// The kubelet's plugins_registry; /registration unless given.
    #[arg(long, value_name = "DIR")]
    pub(crate) plugin_registration_path: Option<String>,
    /// Serve in --plugin-registration-path, and put a link into this directory (not in
    /// node-driver-registrar).
    #[arg(long, value_name = "DIR")]
    pub(crate) kubelet_registry_dir: Option<String>,
    /// Address for /healthz, such as :9809.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http_endpoint: Option<String>,
    /// Port for /healthz (deprecated).
    #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
    pub(crate) health_port: Option<i32>,
    /// Deadline of one call to the driver.
    #[arg(long, value_name = "DURATION", value_parser = go_duration)]
    pub(crate) timeout: Option<Duration>,
    /// No effect (deprecated).
    #[arg(long, value_name = "DURATION")]
    pub(crate) connection_timeout: Option<String>,
    /// registration, or kubelet-registration-probe, which ends at once (deprecated).
    #[arg(long, value_name = "MODE", value_parser = ["registration", PROBE], hide_possible_values = true)]
    pub(crate) mode: Option<String>,
    /// No effect.
    #[arg(long)]
    pub(crate) enable_pprof: bool,
    /// klog's verbosity: 4 and more is debug, 6 and more is trace.
    #[arg(long, value_name = "N")]
    pub(crate) v: Option<u8>,
    /// klog's format: text or json.
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"], hide_possible_values = true)]
    pub(crate) logging_format: Option<String>,
}

/// Flags that cannot be obeyed.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum NdrError {
    #[error("--kubelet-registration-path is required: the driver's socket as the kubelet sees it")]
    NoRegistrationPath,
    #[error("only one of --health-port and --http-endpoint can be given")]
    TwoAddresses,
}

impl NdrFlags {
    /// Flags say what to register, so no file has to.
    pub(crate) fn name_a_driver(&self) -> bool {
        self.csi_address.is_some()
            || self.kubelet_registration_path.is_some()
            || self.plugin_registration_path.is_some()
            || self.kubelet_registry_dir.is_some()
    }

    /// The mode in which it ends at once.
    pub(crate) fn probes(&self) -> bool {
        self.mode.as_deref() == Some(PROBE)
    }

    /// Puts the flags into the sources of a configuration, where they win.
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
        if let Some(v) = self.v {
            let level = match v {
                0..=3 => "info",
                4 | 5 => "debug",
                6.. => "trace",
            };
            overrides.set("--v", &["log", "level"], level);
        }
        if self.logging_format.as_deref() == Some("json") {
            overrides.set("--logging-format", &["log", "target"], "json");
        }
    }

    fn put_http(&self, overrides: &mut Overrides) -> Result<(), NdrError> {
        let port = self.health_port.filter(|port| *port > 0);
        match (&self.http_endpoint, port) {
            (Some(endpoint), Some(_)) if !endpoint.is_empty() => {
                return Err(NdrError::TwoAddresses);
            }
            (Some(endpoint), None) => {
                overrides.set("--http-endpoint", &["http", "listen"], address(endpoint));
            }
            (_, Some(port)) => {
                overrides.set("--health-port", &["http", "listen"], everywhere(&port));
            }
            (None, None) => {}
        }
        Ok(())
    }

    fn put_directories(&self, overrides: &mut Overrides, alone: bool) {
        let given = self.plugin_registration_path.as_deref();
        let ours = given.or(alone.then_some(PLUGIN_REGISTRATION_PATH));
        if let Some(ours) = ours {
            let flag = "--plugin-registration-path";
            overrides.set(flag, &["registry_dir"], ours);
            overrides.set(flag, &["kubelet", "registry_dir"], ours);
        }
        if let Some(kubelets) = &self.kubelet_registry_dir {
            let flag = "--kubelet-registry-dir";
            overrides.set(flag, &["kubelet", "registry_dir"], kubelets.clone());
        }
        if alone && let Some((flag, root)) = self.kubelet_root() {
            overrides.set(flag, &["kubelet", "root_dir"], root);
        }
    }

    /// The kubelet's root, where a path that the kubelet knows shows it.
    fn kubelet_root(&self) -> Option<(&'static str, String)> {
        let registry = [
            ("--kubelet-registry-dir", &self.kubelet_registry_dir),
            ("--plugin-registration-path", &self.plugin_registration_path),
        ];
        let below = |path: &str, name: &str| {
            let at = Path::new(path)
                .ancestors()
                .find(|step| step.ends_with(name))?;
            Some(at.parent()?.to_str()?.to_owned())
        };
        registry
            .into_iter()
            .find_map(|(flag, path)| Some((flag, below(path.as_deref()?, "plugins_registry")?)))
            .or_else(|| {
                let socket = without_scheme(self.kubelet_registration_path.as_deref()?);
                Some(("--kubelet-registration-path", below(socket, "plugins")?))
            })
            .filter(|(_, root)| root != "/")
    }

    fn put_driver(&self, sources: &mut Sources, alone: bool) {
        let names_one = self.csi_address.is_some() || self.kubelet_registration_path.is_some();
        let timeout = self
            .timeout
            .map(|timeout| humantime::format_duration(timeout).to_string());
        if !alone && !names_one {
            if let Some(timeout) = timeout {
                let key = ["defaults", "request_timeout"];
                sources.overrides.set("--timeout", &key, timeout);
            }
            return;
        }
        let id = self.known_id(sources).unwrap_or_else(|| self.id());
        let overrides = &mut sources.overrides;
        let driver = |key| ["drivers", id.as_str(), key];
        overrides.set("--csi-address", &driver("csi_socket"), self.csi_socket());
        if let Some(endpoint) = &self.kubelet_registration_path {
            let endpoint = without_scheme(endpoint);
            overrides.set("--kubelet-registration-path", &driver("endpoint"), endpoint);
        }
        if let Some(timeout) = timeout {
            overrides.set("--timeout", &driver("request_timeout"), timeout);
        }
    }

    fn csi_socket(&self) -> &str {
        without_scheme(self.csi_address.as_deref().unwrap_or(CSI_ADDRESS))
    }

    /// A driver of the file that has this socket: the flags speak of that one.
    fn known_id(&self, sources: &Sources) -> Option<String> {
        sources.config.as_ref()?;
        // What is wrong with the file is told when all of it is read.
        let settings = config::load(sources).ok()?.settings;
        let socket = Path::new(self.csi_socket());
        let has = |driver: &config::DriverSettings| driver.csi_socket == socket;
        let known = settings.drivers.into_iter().find(|(_, driver)| has(driver));
        known.map(|(id, _)| id)
    }

    /// The directory that the driver's socket is in. A container has it as /csi or so; the
    /// kubelet's path to it has the driver's name.
    pub(crate) fn id(&self) -> String {
        let kubelets = self
            .kubelet_registration_path
            .as_deref()
            .map(without_scheme);
        directory_name(kubelets.unwrap_or_default())
            .or_else(|| directory_name(self.csi_socket()))
            .unwrap_or("csi")
            .to_owned()
    }

    /// A runtime directory for this driver alone, so that two units work side by side.
    pub(crate) fn runtime_dir(&self) -> PathBuf {
        let socket = self.csi_socket();
        let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let name: String = directory_name(socket)
            .unwrap_or("csi")
            .chars()
            .filter(|c| fit(*c))
            .take(SLUG)
            .collect();
        let mut hasher = Fnv::default();
        hasher.write(socket.as_bytes());
        PathBuf::from(format!("{RUNTIME}{name}-{:08x}", hasher.finish() as u32))
    }

    /// What has no effect, in words for the log.
    pub(crate) fn without_effect(&self) -> Vec<&'static str> {
        let deprecated = [
            (
                self.health_port.is_some(),
                "--health-port is deprecated, use --http-endpoint",
            ),
            (
                self.connection_timeout.is_some(),
                "--connection-timeout is deprecated and has no effect",
            ),
            (
                self.mode.is_some(),
                "--mode is deprecated and has no effect",
            ),
            (
                self.enable_pprof,
                "--enable-pprof has no effect: there are no Go profiles here",
            ),
        ];
        let given = deprecated.into_iter().filter(|(given, _)| *given);
        given.map(|(_, words)| words).collect()
    }
}

/// FNV-1a: the same in every build, which the standard library's hasher does not promise.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

fn directory_name(socket: &str) -> Option<&str> {
    Path::new(socket).parent()?.file_name()?.to_str()
}

/// gRPC's way to write a path is taken, too.
fn without_scheme(address: &str) -> &str {
    match address.strip_prefix("unix:") {
        Some(path) => path.strip_prefix("//").unwrap_or(path),
        None => address,
    }
}

/// Go listens on all addresses when none is given.
fn address(endpoint: &str) -> String {
    match endpoint.split_once(':') {
        Some(("", port)) => everywhere(&port),
        Some(("localhost", port)) => format!("127.0.0.1:{port}"),
        _ => endpoint.to_owned(),
    }
}

/// All addresses, of IPv6 and of IPv4.
fn everywhere(port: &impl fmt::Display) -> String {
    format!("[::]:{port}")
}

/// A duration as Go writes it: `1m30s`, `1.5s`, `100ms`.
fn go_duration(text: &str) -> Result<Duration, String> {
    let unfit = || format!("\"{text}\" is no duration such as 1s, 1m30s or 500ms");
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(unfit)?;
        let number: f64 = rest[..digits].parse().map_err(|_| unfit())?;
        let after = &rest[digits..];
        let unit = &after[..after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len())];
        total += number
            * match unit {
                "ns" => 1e-9,
                "us" | "µs" | "μs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return Err(unfit()),
            };
        rest = &after[unit.len()..];
    }
    // The settings have whole milliseconds at the least.
    match Duration::try_from_secs_f64(total) {
        Ok(span) if span >= Duration::from_millis(1) => {
            Ok(Duration::from_micros(span.as_micros() as u64))
        }
        Ok(_) | Err(_) => Err(unfit()),
    }
}

#[cfg(test)]
mod tests;
