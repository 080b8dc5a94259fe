//! The kubeconfig: which file it is, and what of it is used.
//!
//! The files that it names are read here, each time anew, because a kubelet rotates its certificate.

use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use kube::Config;
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError};
use nix::unistd::geteuid;
use secrecy::{ExposeSecret, SecretString};

use super::unasked::Unasked;
use crate::disk::boot_file::is_own;
use crate::disk::directory;
use crate::disk::regular_file;
use crate::kubelet::api_access::{ApiAccess, well_known};

/// The longest file that is read: a kubeconfig, a certificate, a key or a token.
const LONGEST: u64 = 1 << 20;

const MICROK8S: &str = "/var/snap/microk8s";

/// A URL that no request goes to.
const UNUSED_PROXY: &str = "http://unused.invalid";

/// The kubeconfig to use: the one that the operator names, or else the kubelet's.
pub(crate) fn locate(
    named: Option<&Path>,
    access: &ApiAccess,
    proc: &Path,
) -> Result<PathBuf, Unasked> {
    let named = named.or(access.kubeconfig.as_deref()).map(Path::to_owned);
    named
        .or_else(|| well_known(proc))
        .ok_or(Unasked::NoKubeconfig)
}

/// Reads the file, and the files that it names. May block.
pub(crate) async fn read(path: &Path) -> Result<Config, Unasked> {
    let text = own_text(path)?;
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
    drop_empty(cluster, user);
    if let Some(what) = unsupported_cluster(cluster).or_else(|| unsupported_user(user)) {
        return Err(Unasked::Unsupported {
            path: path.to_owned(),
            what: what.to_owned(),
        });
    }
    read_files_of_cluster(cluster, path)?;
    read_files_of_user(user, path)?;
    unwrap_data(cluster, user);
    if user.token.as_ref().is_some_and(|token| !fits_header(token)) {
        return Err(bad("its token has a character that no token can have"));
    }
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

/// As for client-go, an empty value is no value.
fn drop_empty(cluster: &mut Cluster, user: &mut AuthInfo) {
    for text in [
        &mut cluster.certificate_authority,
        &mut cluster.certificate_authority_data,
        &mut cluster.proxy_url,
        &mut cluster.tls_server_name,
        &mut user.username,
        &mut user.token_file,
        &mut user.client_certificate,
        &mut user.client_certificate_data,
        &mut user.client_key,
        &mut user.impersonate,
        &mut user.impersonate_uid,
    ] {
        text.take_if(|text| text.is_empty());
    }
    for secret in [
        &mut user.password,
        &mut user.token,
        &mut user.client_key_data,
    ] {
        secret.take_if(|secret| secret.expose_secret().is_empty());
    }
    user.impersonate_groups.take_if(|groups| groups.is_empty());
    user.impersonate_user_extra
        .take_if(|extra| extra.is_empty());
}

fn unsupported_cluster(cluster: &Cluster) -> Option<&'static str> {
    let server = cluster.server.as_deref().unwrap_or("");
    if cluster.insecure_skip_tls_verify == Some(true) {
        Some("insecure-skip-tls-verify")
    } else if cluster.proxy_url.is_some() {
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
fn read_files_of_cluster(cluster: &mut Cluster, kubeconfig: &Path) -> Result<(), Unasked> {
    let file = cluster.certificate_authority.take();
    if let (None, Some(file)) = (&cluster.certificate_authority_data, file) {
        let authority = read_named(kubeconfig, "certificate-authority", &file)?;
        cluster.certificate_authority_data = Some(STANDARD.encode(authority));
    }
    Ok(())
}

/// As client-go does: data wins over a file. For a token the file wins, as long as it can be read.
fn read_files_of_user(user: &mut AuthInfo, kubeconfig: &Path) -> Result<(), Unasked> {
    let file = user.client_certificate.take();
    let certificate_file = file.filter(|_| user.client_certificate_data.is_none());
    let file = user.client_key.take();
    let key_file = file.filter(|_| user.client_key_data.is_none());
    let read = |key, file: &Option<String>| {
        let file = file.as_deref();
        file.map(|file| read_named(kubeconfig, key, file))
            .transpose()
    };
    let certificate = read("client-certificate", &certificate_file)?;
    // A kubelet has both in one file, and may rotate it now: both come from one reading.
    let key = match certificate_file == key_file {
        true => certificate.clone(),
        false => read("client-key", &key_file)?,
    };
    if let Some(certificate) = certificate {
        user.client_certificate_data = Some(STANDARD.encode(certificate));
    }
    if let Some(key) = key {
        user.client_key_data = Some(SecretString::from(STANDARD.encode(key)));
    }
    if let Some(file) = user.token_file.take() {
        match read_token(kubeconfig, &file) {
            Ok(token) => user.token = Some(token),
            Err(_) if user.token.is_some() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read_token(kubeconfig: &Path, file: &str) -> Result<SecretString, Unasked> {
    let token = read_named(kubeconfig, "tokenFile", file)?;
    let token = String::from_utf8(token).ok();
    let token = token.filter(|token| !token.trim().is_empty());
    token.map(SecretString::from).ok_or_else(|| Unasked::Bad {
        path: kubeconfig.to_owned(),
        why: "the file that its tokenFile names has no token".to_owned(),
    })
}

/// Data in base64 may have line breaks in it, and a token around it.
fn unwrap_data(cluster: &mut Cluster, user: &mut AuthInfo) {
    let joined = |data: &str| data.split_ascii_whitespace().collect::<String>();
    for data in [
        &mut cluster.certificate_authority_data,
        &mut user.client_certificate_data,
    ] {
        *data = data.as_deref().map(joined);
    }
    let key = user.client_key_data.take();
    user.client_key_data = key.map(|key| SecretString::from(joined(key.expose_secret())));
    let token = user.token.take();
    user.token = token.map(|token| SecretString::from(token.expose_secret().trim()));
}

/// The client panics over a token that cannot be part of a header.
fn fits_header(token: &SecretString) -> bool {
    HeaderValue::try_from(token.expose_secret()).is_ok()
}

/// Reads the file that a key of the kubeconfig names.
fn read_named(kubeconfig: &Path, key: &'static str, file: &str) -> Result<Vec<u8>, Unasked> {
    let path = directory::of(kubeconfig).join(file);
    let read = read_file(&path).map(|(_, bytes)| bytes);
    read.map_err(|source| Unasked::UnreadableFile {
        kubeconfig: kubeconfig.to_owned(),
        key,
        path: is_path(file).then_some(path),
        source,
    })
}

/// The value is a path for certain, and not a token or a key that was written in the place of a path.
fn is_path(value: &str) -> bool {
    let parent = Path::new(value)
        .parent()
        .filter(|parent| parent.is_absolute());
    parent.is_some_and(|parent| parent != Path::new("/") && parent.is_dir())
        && !value.contains(char::is_control)
}

fn own_text(path: &Path) -> Result<String, Unasked> {
    let (found, bytes) = read_file(path).map_err(|source| Unasked::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    if !may_be_used(path, &found) {
        return Err(Unasked::Exposed {
            path: path.to_owned(),
            owner: found.uid(),
            mode: found.mode() & 0o7777,
        });
    }
    String::from_utf8(bytes).map_err(|_| Unasked::Bad {
        path: path.to_owned(),
        why: "it is not UTF-8".to_owned(),
    })
}

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
fn read_file(path: &Path) -> io::Result<(Metadata, Vec<u8>)> {
    let file = regular_file::open(path)?;
    let found = file.metadata()?;
    let mut bytes = Vec::new();
    match file.take(LONGEST + 1).read_to_end(&mut bytes)? as u64 {
        ..=LONGEST => Ok((found, bytes)),
        _ => Err(io::ErrorKind::FileTooLarge.into()),
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
