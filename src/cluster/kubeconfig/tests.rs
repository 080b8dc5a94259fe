use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use kube::config::Config;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use secrecy::ExposeSecret;
use tempfile::TempDir;

use super::*;

/// What must never be in a message.
const TOKEN: &str = "s3cr3t-t0ken";

/// A certificate that is none: only its form is looked at here.
const PEM: &str = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";

struct Scene(TempDir);

impl Scene {
    fn new() -> Scene {
        Scene(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// A kubeconfig with these fields of its cluster and of its user.
    fn kubeconfig(&self, cluster: &str, user: &str) -> PathBuf {
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{{cluster}}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        );
        self.write("kubeconfig", &text)
    }
}

const SERVER: &str = "server: 'https://10.0.0.1:6443'";

async fn token(path: &Path) -> Option<String> {
    let config: Config = read(path).await.unwrap();
    let token = config.auth_info.token;
    token.map(|token| token.expose_secret().to_owned())
}

#[tokio::test]
async fn reads_what_kubelets_have() {
    let scene = Scene::new();
    scene.write("ca.crt", PEM);
    scene.write("token", &format!("{TOKEN}\n"));
    let ca = format!("{SERVER}, certificate-authority: ca.crt");
    let path = scene.kubeconfig(&ca, &format!("token: {TOKEN}"));
    assert_eq!(token(&path).await.as_deref(), Some(TOKEN));
    let path = scene.kubeconfig(&ca, "tokenFile: token");
    assert_eq!(token(&path).await.as_deref(), Some(TOKEN));

    // The same file for both, behind a link that changes when the certificate is rotated.
    let current = scene.0.path().join("current.pem");
    for generation in ["one", "two"] {
        let file = scene.write(generation, generation);
        if generation == "two" {
            fs::remove_file(&current).unwrap();
        }
        symlink(file, &current).unwrap();
        let user = format!(
            "client-certificate: '{0}', client-key: '{0}'",
            current.display()
        );
        let config = read(&scene.kubeconfig(&ca, &user)).await.unwrap().auth_info;
        let data = STANDARD.encode(generation);
        assert_eq!(config.client_certificate_data.as_ref(), Some(&data));
        assert_eq!(config.client_key_data.unwrap().expose_secret(), data);
    }
    let inline = format!(
        "{SERVER}, certificate-authority-data: {}",
        STANDARD.encode(PEM)
    );
    let config = read(&scene.kubeconfig(&inline, "token: x")).await.unwrap();
    assert_eq!(
        config.root_cert.map(|certificates| certificates.len()),
        Some(1)
    );
    assert!(config.proxy_url.is_none());
}

#[tokio::test]
async fn refuses_what_a_kubelet_does_not_have() {
    let user = format!("token: {TOKEN}");
    for (cluster, user, what) in [
        (
            SERVER,
            "exec: {command: /bin/true, apiVersion: v1}",
            "an exec plugin",
        ),
        (SERVER, "auth-provider: {name: gcp}", "an auth-provider"),
        (
            SERVER,
            "username: a, password: b",
            "a user name with a password",
        ),
        (SERVER, "token: x, as: admin", "impersonation"),
        (SERVER, "", "a user without credentials"),
        (
            SERVER,
            "client-certificate: /c",
            "a client certificate without a key",
        ),
        (
            "server: 'http://10.0.0.1'",
            user.as_str(),
            "a server without https",
        ),
        (
            "server: 'https://a:b@10.0.0.1'",
            &user,
            "a server with a user in its URL",
        ),
        (
            "server: 'https://a', insecure-skip-tls-verify: true",
            &user,
            "insecure-skip-tls-verify",
        ),
        (
            "server: 'https://a', proxy-url: 'http://b'",
            &user,
            "proxy-url",
        ),
    ] {
        let scene = Scene::new();
        let refused = read(&scene.kubeconfig(cluster, user)).await.unwrap_err();
        let words = refused.to_string();
        assert!(
            words.contains(&format!("{what} is not supported")),
            "{words}"
        );
    }
}

#[tokio::test]
async fn a_message_has_no_part_of_a_secret() {
    let cut = format!("users: [{{name: u, user: {{token: {TOKEN}");
    let wrong = format!("users: {TOKEN}\n");
    let tab = format!("a:\n\t- {TOKEN}\n");
    for text in [cut, wrong, tab, format!("{TOKEN}: ["), format!("\"{TOKEN}")] {
        let scene = Scene::new();
        let error = read(&scene.write("kubeconfig", &text)).await.unwrap_err();
        let words = format!("{error} {error:?}");
        assert!(!words.contains(TOKEN), "{words}");
        assert!(words.contains("kubeconfig"), "{words}");
    }
    let scene = Scene::new();
    let data = format!("{SERVER}, certificate-authority-data: '!{TOKEN}'");
    let error = read(&scene.kubeconfig(&data, "token: x"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("not in base64"), "{error}");
    assert!(!error.to_string().contains(TOKEN), "{error}");
}

#[tokio::test]
async fn a_file_that_others_may_write_or_that_is_none_is_not_used() {
    let scene = Scene::new();
    let path = scene.kubeconfig(SERVER, "token: x");
    fs::set_permissions(&path, Permissions::from_mode(0o602)).unwrap();
    assert!(matches!(
        read(&path).await,
        Err(Unasked::Exposed { mode: 0o602, .. })
    ));
    // Only root is in the group of root.
    fs::set_permissions(&path, Permissions::from_mode(0o660)).unwrap();
    let is_roots = fs::metadata(&path).unwrap().gid() == 0;
    assert_eq!(read(&path).await.is_ok(), is_roots);
    let pipe = scene.0.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRUSR).unwrap();
    for no_file in [pipe.as_path(), scene.0.path(), Path::new("/dev/zero")] {
        let error = read(no_file).await.unwrap_err();
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
    let missing = read(Path::new("/nonexistent")).await.unwrap_err();
    assert!(
        missing.to_string().contains("cannot read /nonexistent"),
        "{missing}"
    );
    let long = scene.write("long", &" ".repeat(1 << 21));
    assert!(matches!(read(&long).await, Err(Unasked::Unreadable { .. })));
    let gone = scene.0.path().join("gone");
    let user = format!("tokenFile: '{}'", gone.display());
    let error = read(&scene.kubeconfig(SERVER, &user)).await.unwrap_err();
    let words = format!("the file {} that tokenFile names", gone.display());
    assert!(error.to_string().contains(&words), "{error}");
}

/// A newcomer writes the value where the path of a file with the value belongs.
#[tokio::test]
async fn a_value_in_the_place_of_a_path_is_not_quoted() {
    let pem = "-----BEGIN PRIVATE KEY-----\\nMAA=\\n-----END PRIVATE KEY-----";
    let scene = Scene::new();
    for (cluster, user, key) in [
        ("", format!("tokenFile: {TOKEN}"), "tokenFile"),
        ("", format!("tokenFile: /{TOKEN}"), "tokenFile"),
        ("", format!("tokenFile: /{TOKEN}/{TOKEN}"), "tokenFile"),
        (
            "",
            format!("client-certificate-data: MAA=, client-key: {TOKEN}"),
            "client-key",
        ),
        (
            "",
            format!("client-certificate-data: MAA=, client-key: \"{pem}{TOKEN}\""),
            "client-key",
        ),
        (
            "",
            format!("client-certificate: {}, client-key: k", TOKEN.repeat(500)),
            "client-certificate",
        ),
        (
            ", certificate-authority: s3cr3t-t0ken",
            "token: x".to_owned(),
            "certificate-authority",
        ),
    ] {
        let path = scene.kubeconfig(&format!("{SERVER}{cluster}"), &user);
        let error = read(&path).await.unwrap_err();
        let words = format!("cannot read the file that {key} names in the kubeconfig");
        assert!(error.to_string().contains(&words), "{error}");
        let all = format!("{error} {error:?}");
        assert!(!all.contains(TOKEN) && !all.contains("BEGIN"), "{all}");
    }
}

#[tokio::test]
async fn takes_what_client_go_takes() {
    let scene = Scene::new();
    scene.write("ca.crt", PEM);
    scene.write("token", &format!("{TOKEN}\n"));
    let empty = "username: '', password: '', as: '', as-groups: [], client-certificate-data: '', client-key: ''";
    let cluster = format!(
        "{SERVER}, certificate-authority: ca.crt, certificate-authority-data: '', proxy-url: '', tls-server-name: ''"
    );
    let path = scene.kubeconfig(&cluster, &format!("token: '', tokenFile: token, {empty}"));
    assert_eq!(token(&path).await.as_deref(), Some(TOKEN));
    let config = read(&path).await.unwrap();
    assert!(config.root_cert.is_some() && config.tls_server_name.is_none());

    // A file is newer than the value beside it, as long as it can be read.
    let path = scene.kubeconfig(SERVER, "token: old, tokenFile: token");
    assert_eq!(token(&path).await.as_deref(), Some(TOKEN));
    scene.write("empty", "\n");
    for file in ["gone", "empty"] {
        let path = scene.kubeconfig(SERVER, &format!("token: {TOKEN}, tokenFile: {file}"));
        assert_eq!(token(&path).await.as_deref(), Some(TOKEN));
    }
    let error = read(&scene.kubeconfig(SERVER, "tokenFile: empty"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("has no token"), "{error}");

    // Line breaks in base64, and around a token.
    let (first, second) = ("MA", "A=");
    let user = format!(
        "client-certificate-data: \"{first}\\n{second}\\n\", client-key-data: \"{first}\\r\\n{second}\""
    );
    let config = read(&scene.kubeconfig(SERVER, &user)).await.unwrap();
    let user = config.auth_info;
    assert_eq!(user.client_certificate_data.as_deref(), Some("MAA="));
    assert_eq!(user.client_key_data.unwrap().expose_secret(), "MAA=");
    let path = scene.kubeconfig(SERVER, &format!("token: \"{TOKEN}\\n\""));
    assert_eq!(token(&path).await.as_deref(), Some(TOKEN));
}

/// The client would panic.
#[tokio::test]
async fn a_token_that_no_header_can_have_is_refused() {
    let scene = Scene::new();
    for bad in ["\\n", "\\0", "\\r\\n", "\\u007f"] {
        let path = scene.kubeconfig(SERVER, &format!("token: \"{TOKEN}{bad}x\""));
        let error = read(&path).await.unwrap_err();
        assert!(error.to_string().contains("its token has"), "{error}");
        assert!(!error.to_string().contains(TOKEN), "{error}");
    }
    scene.write("token", &format!("{TOKEN}\nx\n"));
    let error = read(&scene.kubeconfig(SERVER, "tokenFile: token"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("its token has"), "{error}");
}
