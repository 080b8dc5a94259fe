//! The kubeconfig: which file it is, and what of it is used.
//!
//! The files that it names are read here, each time anew, because a kubelet rotates its certificate.

use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Config;
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError};
use nix::unistd::geteuid;
use secrecy::SecretString;

use super::unasked::Unasked;
use crate::disk::boot_file::is_own;
use crate::disk::directory;
use crate::disk::regular_file;
use crate::kubelet::root::Host;
use crate::kubelet::root::api_access::{ApiAccess, well_known};

/// The longest file that is read: a kubeconfig, a certificate, a key or a token.
const LONGEST: u64 = 1 << 20;

const MICROK8S: &str = "/var/snap/microk8s";

/// A URL that no request goes to.
const UNUSED_PROXY: &str = "http://unused.invalid";

/// The kubeconfig to use: the one that the operator names, or else the kubelet's.
pub(crate) fn locate(
    named: Option<&Path>,
    access: &ApiAccess,
    host: &Host,
) -> Result<PathBuf, Unasked> {
    let named = named.or(access.kubeconfig.as_deref()).map(Path::to_owned);
    named
        .or_else(|| well_known(host))
        .ok_or(Unasked::NoKubeconfig)
}

/// Reads the file, and the files that it names. May block.
pub(crate) async fn read(path: &Path) -> Result<Config, Unasked> {
    let text = text(path, may_be_used)?;
    // The words of a parser may have a part of the file in them.
    let bad = |why: &str| Unasked::Bad {
        path: path.to_owned(),
        why: why.to_owned(),
    };
    let mut all = Kubeconfig::from_yaml(&text).map_err(|_| bad("it is not a kubeconfig"))?;
    let current = all.current_context.clone().unwrap_or_default();
    let context = all.contexts.iter().find(|named| named.name == current);
    let context = context.and_then(|named| named.context.clone());
    let context = context.ok_or_else(|| bad("its current-context is not among its contexts"))?;
    let clusters = all.clusters.iter_mut();
    let mut clusters = clusters.filter(|named| named.name == context.cluster);
    let cluster = clusters.next().and_then(|named| named.cluster.as_mut());
    let cluster = cluster.ok_or_else(|| bad("it has no cluster for its current-context"))?;
    let users = all.auth_infos.iter_mut();
    let mut users = users.filter(|named| Some(&named.name) == context.user.as_ref());
    let user = users.next().and_then(|named| named.auth_info.as_mut());
    let user = user.ok_or_else(|| bad("it has no user for its current-context"))?;
    if let Some(what) = unsupported_cluster(cluster).or_else(|| unsupported_user(user)) {
        return Err(Unasked::Unsupported {
            path: path.to_owned(),
            what: what.to_owned(),
        });
    }
    let directory = directory::of(path);
    read_files_of_cluster(cluster, directory)?;
    read_files_of_user(user, directory)?;
    // The API server is asked directly, whatever proxy the environment of a shell names: kube looks there only if the
    // kubeconfig names none.
    cluster.proxy_url = Some(UNUSED_PROXY.to_owned());
    let config = Config::from_custom_kubeconfig(all, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|error| bad(&words(&error)))?;
    config.proxy_url = None;
    // An answer that asks for patience is waited for within the deadline of the command.
    config.default_retry = false;
    Ok(config)
}

fn unsupported_cluster(cluster: &Cluster) -> Option<&'static str> {
    let server = cluster.server.as_deref().unwrap_or("");
    let is_set = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    if cluster.insecure_skip_tls_verify == Some(true) {
        Some("insecure-skip-tls-verify")
    } else if is_set(&cluster.proxy_url) {
        Some("proxy-url")
    } else if !server.starts_with("https://") {
        Some("a server without https")
    } else if server.contains('@') {
        Some("a server with a user in its URL")
    } else {
        None
    }
}

fn unsupported_user(user: &AuthInfo) -> Option<&'static str> {
    let has_certificate =
        user.client_certificate.is_some() || user.client_certificate_data.is_some();
    let has_token = user.token.is_some() || user.token_file.is_some();
    let impersonates = user.impersonate.is_some()
        || user.impersonate_uid.is_some()
        || user.impersonate_groups.is_some()
        || user.impersonate_user_extra.is_some();
    if user.exec.is_some() {
        Some("an exec plugin")
    } else if user.auth_provider.is_some() {
        Some("an auth-provider")
    } else if user.username.is_some() || user.password.is_some() {
        Some("a user name with a password")
    } else if impersonates {
        Some("impersonation")
    } else if has_certificate && user.client_key.is_none() && user.client_key_data.is_none() {
        Some("a client certificate without a key")
    } else if !has_certificate && !has_token {
        Some("a user without credentials")
    } else {
        None
    }
}

/// As client-go does: data wins over a file.
fn read_files_of_cluster(cluster: &mut Cluster, directory: &Path) -> Result<(), Unasked> {
    let file = cluster.certificate_authority.take();
    if let (None, Some(file)) = (&cluster.certificate_authority_data, file) {
        let authority = bytes(&directory.join(file))?;
        cluster.certificate_authority_data = Some(STANDARD.encode(authority));
    }
    Ok(())
}

/// As client-go does: data wins over a file, and a token over a file with a token. A file with a token is read
/// last, so that a missing one is an error.
fn read_files_of_user(user: &mut AuthInfo, directory: &Path) -> Result<(), Unasked> {
    let file = user.client_certificate.take();
    if let (None, Some(file)) = (&user.client_certificate_data, file) {
        let certificate = bytes(&directory.join(file))?;
        user.client_certificate_data = Some(STANDARD.encode(certificate));
    }
    let file = user.client_key.take();
    if let (None, Some(file)) = (&user.client_key_data, file) {
        let key = bytes(&directory.join(file))?;
        user.client_key_data = Some(SecretString::from(STANDARD.encode(key)));
    }
    let file = user.token_file.take();
    if let (None, Some(file)) = (&user.token, file) {
        let token = text(&directory.join(file), |_, _| true)?;
        user.token = Some(SecretString::from(token.trim().to_owned()));
    }
    Ok(())
}

fn bytes(path: &Path) -> Result<Vec<u8>, Unasked> {
    read_file(path, |_, _| true)
}

fn text(path: &Path, may_use: MayUse) -> Result<String, Unasked> {
    String::from_utf8(read_file(path, may_use)?).map_err(|_| Unasked::Bad {
        path: path.to_owned(),
        why: "it is not UTF-8".to_owned(),
    })
}

/// Whether a file may be used, by its path and its owner.
type MayUse = fn(&Path, &Metadata) -> bool;

/// Only root, or our own user, can have written the file. MicroK8s lets its group write; the members of that group
/// administer the cluster.
fn may_be_used(path: &Path, found: &Metadata) -> bool {
    let is_group_trusted = found.gid() == 0 || path.starts_with(MICROK8S);
    let mode = match is_group_trusted {
        true => found.mode() & !0o020,
        false => found.mode(),
    };
    is_own(found.uid(), mode, geteuid())
}

/// A file that blocks or does not end is not read.
fn read_file(path: &Path, may_use: MayUse) -> Result<Vec<u8>, Unasked> {
    let unreadable = |source| Unasked::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = regular_file::open(path).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    if !may_use(path, &found) {
        return Err(Unasked::Exposed {
            path: path.to_owned(),
            owner: found.uid(),
            mode: found.mode() & 0o7777,
        });
    }
    let mut bytes = Vec::new();
    let read = file.take(LONGEST + 1).read_to_end(&mut bytes);
    match read.map_err(unreadable)? as u64 {
        ..=LONGEST => Ok(bytes),
        _ => Err(unreadable(io::ErrorKind::FileTooLarge.into())),
    }
}

/// What is wrong, without a part of the file.
fn words(error: &KubeconfigError) -> String {
    let words = match error {
        KubeconfigError::MissingClusterUrl | KubeconfigError::ParseClusterUrl(_) => {
            "its cluster has no server that is a URL"
        }
        KubeconfigError::ParseCertificates(_) => "its certificate-authority has no certificate",
        KubeconfigError::LoadCertificateAuthority(_) => {
            "its certificate-authority-data is not in base64"
        }
        _ => "its data cannot be decoded",
    };
    words.to_owned()
}

#[cfg(test)]
mod tests;
