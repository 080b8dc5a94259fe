//! Kubeconfigs as kubelets have them, and as they do not.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::ApiServer;

/// The kubelet's own name for its certificate, a link that it moves to each new one.
const CURRENT: &str = "kubelet-client-current.pem";

/// What stands below `user:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// `client-certificate-data` and `client-key-data`.
    InlineCertificate,
    /// `client-certificate` and `client-key`, which name one file through the kubelet's link.
    CertificateFile(Paths),
    /// `token`
    Token,
    /// `tokenFile`
    TokenFile(Paths),
    /// Nothing at all.
    Nothing,
    /// `exec`; a program that would leave a file `exec-ran` beside the kubeconfig.
    Exec,
    /// `auth-provider`
    AuthProvider,
    /// `username` and `password`
    Password,
    /// `token`, and `as` another user.
    Impersonation,
}

/// How a kubeconfig names a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paths {
    /// From the root.
    Absolute,
    /// From the kubeconfig's own directory.
    Relative,
}

/// How a kubeconfig names the CA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// `certificate-authority-data`
    Inline,
    /// `certificate-authority`
    File(Paths),
    /// Not at all: the system's CAs count.
    Absent,
    /// `insecure-skip-tls-verify: true`
    Unchecked,
}

/// A kubeconfig before it is written.
pub struct Kubeconfig<'a> {
    server: &'a ApiServer,
    url: String,
    user: String,
    credentials: Credentials,
    authority: Authority,
    cluster: String,
}

impl<'a> Kubeconfig<'a> {
    pub(super) fn new(server: &'a ApiServer) -> Self {
        Self {
            server,
            url: server.url(),
            user: server.kubelet_user(),
            credentials: Credentials::InlineCertificate,
            authority: Authority::Inline,
            cluster: String::new(),
        }
    }

    /// The same with these credentials.
    #[must_use]
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// The same for another user.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.user = user.to_owned();
        self
    }

    /// The same with the CA named in this way.
    #[must_use]
    pub fn authority(mut self, authority: Authority) -> Self {
        self.authority = authority;
        self
    }

    /// The same with another URL.
    #[must_use]
    pub fn url(mut self, url: &str) -> Self {
        self.url = url.to_owned();
        self
    }

    /// The same with one more key below `cluster:`, such as `proxy-url: …`.
    #[must_use]
    pub fn with_cluster_key(mut self, line: &str) -> Self {
        self.cluster += &format!("    {line}\n");
        self
    }

    /// Writes `kubelet.conf` into the directory, and the files that it names beside it; all with mode 0600.
    pub fn write(self, directory: &Path) -> PathBuf {
        let path = directory.join("kubelet.conf");
        self.write_as(&path);
        path
    }

    /// The same with this path for the kubeconfig.
    pub fn write_as(self, path: &Path) {
        let directory = path.parent().expect("a path of a file");
        fs::create_dir_all(directory).unwrap();
        let text = format!(
            "apiVersion: v1\nclusters:\n- cluster:\n{}    server: {}\n{}  name: default-cluster\n\
             contexts:\n- context:\n    cluster: default-cluster\n    namespace: default\n    \
             user: default-auth\n  name: default-context\ncurrent-context: default-context\n\
             kind: Config\npreferences: {{}}\nusers:\n- name: default-auth\n  user:{}",
            self.authority_key(directory),
            self.url,
            self.cluster,
            self.user_keys(directory),
        );
        write_secret(path, &text);
    }

    fn authority_key(&self, directory: &Path) -> String {
        match self.authority {
            Authority::Inline => {
                let data = STANDARD.encode(self.server.ca_pem());
                format!("    certificate-authority-data: {data}\n")
            }
            Authority::File(paths) => {
                write_secret(&directory.join("ca.crt"), &self.server.ca_pem());
                let path = paths.name(directory, "ca.crt");
                format!("    certificate-authority: {}\n", path.display())
            }
            Authority::Absent => String::new(),
            Authority::Unchecked => "    insecure-skip-tls-verify: true\n".to_owned(),
        }
    }

    fn user_keys(&self, directory: &Path) -> String {
        let token = || self.server.token(&self.user);
        let keys = match self.credentials {
            Credentials::InlineCertificate => {
                let client = self.server.issue(&self.user);
                vec![
                    (
                        "client-certificate-data",
                        STANDARD.encode(client.certificate),
                    ),
                    ("client-key-data", STANDARD.encode(client.key)),
                ]
            }
            Credentials::CertificateFile(paths) => {
                self.server.rotate(&self.user, directory);
                let path = paths.name(directory, CURRENT).display().to_string();
                vec![("client-certificate", path.clone()), ("client-key", path)]
            }
            Credentials::Token => vec![("token", token())],
            Credentials::TokenFile(paths) => {
                write_secret(&directory.join("token"), &token());
                let path = paths.name(directory, "token");
                vec![("tokenFile", path.display().to_string())]
            }
            Credentials::Nothing => return " {}\n".to_owned(),
            Credentials::Exec => {
                let program = directory.join("exec-plugin");
                let ran = directory.join("exec-ran");
                crate::script::write(&program, &format!("#!/bin/sh\ntouch {}\n", ran.display()));
                return format!(
                    "\n    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      \
                     command: {}\n      interactiveMode: Never\n",
                    program.display()
                );
            }
            Credentials::AuthProvider => {
                return "\n    auth-provider:\n      name: oidc\n      config:\n        \
                        id-token: SECRET-id-token\n"
                    .to_owned();
            }
            Credentials::Password => vec![
                ("username", "admin".to_owned()),
                ("password", "SECRET-password".to_owned()),
            ],
            Credentials::Impersonation => {
                vec![("as", "system:node:node-2".to_owned()), ("token", token())]
            }
        };
        let lines = keys
            .iter()
            .map(|(key, value)| format!("    {key}: {value}\n"));
        format!("\n{}", lines.collect::<String>())
    }
}

impl ApiServer {
    /// Issues a new certificate, writes it with its key into a file of the directory, and moves the kubelet's
    /// link there, as a kubelet does.
    pub fn rotate(&self, user: &str, directory: &Path) {
        let files = fs::read_dir(directory).unwrap().count();
        let file = directory.join(format!("kubelet-client-2026-01-01-00-00-{files:02}.pem"));
        write_secret(&file, &self.issue(user).both());
        let beside = directory.join("kubelet-client-updated.pem");
        symlink(file, &beside).unwrap();
        fs::rename(beside, directory.join(CURRENT)).unwrap();
    }
}

impl Paths {
    fn name(self, directory: &Path, file: &str) -> PathBuf {
        match self {
            Paths::Absolute => directory.join(file),
            Paths::Relative => file.into(),
        }
    }
}

fn write_secret(path: &Path, text: &str) {
    // Renamed into place, so that a file that exists is whole.
    let temporary = path.with_extension("new");
    let mut options = File::options();
    let file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary);
    file.unwrap().write_all(text.as_bytes()).unwrap();
    fs::rename(&temporary, path).unwrap();
}
