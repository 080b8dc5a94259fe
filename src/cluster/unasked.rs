//! Why the cluster could not be asked, and what fixes that. No message has a token, a key or a certificate in it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::kubelet::api_access::{Dispute, WELL_KNOWN};

/// Why there is no answer of the API server to compare with.
#[derive(Debug, Error)]
pub(crate) enum Unasked {
    #[error(
        "no kubeconfig of a kubelet was found; set cluster.kubeconfig (no running kubelet of this node names one, and none of {} exists)",
        WELL_KNOWN.join(", ")
    )]
    NoKubeconfig,
    #[error("{0}; set cluster.kubeconfig to the one that this daemon registers with")]
    Dispute(#[from] Dispute),
    #[error(
        "the search for the kubelet and its kubeconfig took longer than {}: a file system hangs; --timeout sets another time",
        humantime::format_duration(*.0)
    )]
    SearchHangs(Duration),
    #[error(
        "cannot read {}: {source}{}",
        .path.display(),
        remedy(.source, "; correct cluster.kubeconfig or --kubeconfig")
    )]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "cannot read the file{} that {key} names in the kubeconfig {}: {source}{}",
        .path.as_ref().map(|path| format!(" {}", path.display())).unwrap_or_default(),
        .kubeconfig.display(),
        remedy(.source, "")
    )]
    UnreadableFile {
        kubeconfig: PathBuf,
        key: &'static str,
        /// None if the value may be a secret, and not a path.
        path: Option<PathBuf>,
        source: io::Error,
    },
    #[error(
        "the kubeconfig {} is not used: other users may have written it (uid {owner}, mode {mode:04o}); chown it to root and chmod it to 0600",
        .path.display()
    )]
    Exposed {
        path: PathBuf,
        owner: u32,
        mode: u32,
    },
    #[error(
        "the kubeconfig {} is not used: {what} is not supported; a client certificate, a token or a tokenFile is, over https",
        .path.display()
    )]
    Unsupported { path: PathBuf, what: String },
    #[error("the kubeconfig {} cannot be used: {why}", .path.display())]
    Bad { path: PathBuf, why: String },
    #[error(
        "the name of this node is not known: the API server does not tell it, no running kubelet has --hostname-override, and the host name \"{0}\" is not a name of a Node; set cluster.node_name"
    )]
    NoNodeName(String),
    #[error(
        "Node {node} runs on another machine: its boot id is not that of this machine; correct cluster.node_name, --node or the kubeconfig {}, unless this machine has just booted and the kubelet has not reported yet",
        .kubeconfig.display()
    )]
    OtherMachine { node: String, kubeconfig: PathBuf },
    #[error(
        "cannot reach the API server {server}: {why}; check the network, and the server and the certificate authority in {}",
        .kubeconfig.display()
    )]
    Unreachable {
        server: String,
        why: String,
        kubeconfig: PathBuf,
    },
    #[error(
        "the API server {server} did not answer within {}; it hangs or is overloaded, and --timeout sets another time",
        humantime::format_duration(*.timeout)
    )]
    Silent { server: String, timeout: Duration },
    #[error(
        "the API server {server} refuses the identity of {}: 401 Unauthorized; its token or certificate has expired or was replaced",
        .kubeconfig.display()
    )]
    Unauthorized { server: String, kubeconfig: PathBuf },
    #[error(
        "the API server {server} does not allow reading {path}: 403 Forbidden; the identity of {} may read only the objects of its own node: correct cluster.node_name or --node",
        .kubeconfig.display()
    )]
    Forbidden {
        server: String,
        path: String,
        kubeconfig: PathBuf,
    },
    #[error("the API server {server} is too busy: {code} for {path}; try again later")]
    Busy {
        server: String,
        path: String,
        code: u16,
    },
    #[error("the API server {server} answers {code} for {path}; its log says why")]
    Status {
        server: String,
        path: String,
        code: u16,
    },
    #[error(
        "the answer of {server} for {path} cannot be used: {why}; check that an API server listens there"
    )]
    Garbage {
        server: String,
        path: String,
        why: String,
    },
}

fn remedy(error: &io::Error, if_missing: &'static str) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as root",
        io::ErrorKind::NotFound => if_missing,
        _ => "",
    }
}
