//! Kubeconfigs as kubelets have them, and those that are not used.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bed::api_server::{Authority, Credentials, Kubeconfig, Paths};
use bed::{HangingMount, Mounts, Node, is_root};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::{Stage, Verdict, run};
use crate::discovery::kubelet_root::alone;

/// A directory for another kubeconfig.
fn directory(stage: &Stage) -> PathBuf {
    stage.scene.node.root().join("other")
}

/// Runs verify with another kubeconfig.
#[track_caller]
fn with(stage: &mut Stage, change: impl FnOnce(Kubeconfig<'_>) -> Kubeconfig<'_>) -> Verdict {
    let directory = directory(stage);
    if directory.exists() {
        fs::remove_dir_all(&directory).unwrap();
    }
    stage.kubeconfig = change(stage.server.kubeconfig()).write(&directory);
    stage.server.take_requests();
    stage.verify(&[])
}

/// The cluster was not asked: not even a connection was made with it.
#[track_caller]
fn is_refused(stage: &Stage, verdict: &Verdict, words: &str) {
    verdict.ends_with(69).says(words);
    verdict.says(&stage.kubeconfig.display().to_string());
    assert_eq!(stage.server.requests(), []);
    assert_eq!(stage.driver().in_cluster, None);
}

#[test]
fn every_style_of_a_kubelet_is_used() {
    let mut stage = Stage::set();
    for credentials in [
        Credentials::InlineCertificate,
        Credentials::CertificateFile(Paths::Absolute),
        Credentials::CertificateFile(Paths::Relative),
        Credentials::Token,
        Credentials::TokenFile(Paths::Absolute),
        Credentials::TokenFile(Paths::Relative),
    ] {
        for authority in [
            Authority::Inline,
            Authority::File(Paths::Absolute),
            Authority::File(Paths::Relative),
        ] {
            let verdict = with(&mut stage, |kubeconfig| {
                kubeconfig.credentials(credentials).authority(authority)
            });
            assert_eq!(
                verdict.code,
                Some(0),
                "{credentials:?} {authority:?}: {}",
                verdict.words
            );
        }
    }
    // A kubelet's kubeconfig may be a link.
    let link = directory(&stage).join("link.conf");
    symlink("kubelet.conf", &link).unwrap();
    stage.kubeconfig = link;
    stage.verify(&[]).ends_with(0);
}

#[test]
fn a_rotated_certificate_is_read_again() {
    let mut stage = Stage::set();
    let credentials = Credentials::CertificateFile(Paths::Absolute);
    with(&mut stage, |kubeconfig| kubeconfig.credentials(credentials)).ends_with(0);
    stage.server.revoke();
    stage.verify(&[]).ends_with(69).says("401");
    let user = stage.server.kubelet_user();
    stage.server.rotate(&user, &directory(&stage));
    stage.verify(&[]).ends_with(0);
}

#[test]
fn what_is_not_supported_is_named_and_never_run_or_sent() {
    let mut stage = Stage::set();
    for (credentials, words) in [
        (Credentials::Exec, "exec"),
        (Credentials::AuthProvider, "auth-provider"),
        (Credentials::Password, "password"),
        (Credentials::Impersonation, "impersonation"),
        (Credentials::Nothing, "credentials"),
    ] {
        let verdict = with(&mut stage, |kubeconfig| kubeconfig.credentials(credentials));
        is_refused(&stage, &verdict, words);
        assert!(!directory(&stage).join("exec-ran").exists());
        assert!(!verdict.words.contains("SECRET"), "{}", verdict.words);
    }
    let verdict = with(&mut stage, |kubeconfig| {
        kubeconfig.authority(Authority::Unchecked)
    });
    is_refused(&stage, &verdict, "insecure-skip-tls-verify");
    let proxy = "proxy-url: http://user:SECRET@127.0.0.1:3128";
    let verdict = with(&mut stage, |kubeconfig| kubeconfig.with_cluster_key(proxy));
    is_refused(&stage, &verdict, "proxy-url");
    assert!(!verdict.words.contains("SECRET"), "{}", verdict.words);
    let plain = stage.server.url().replace("https", "http");
    let verdict = with(&mut stage, |kubeconfig| kubeconfig.url(&plain));
    is_refused(&stage, &verdict, "https");
    // The system's CAs do not know the server's.
    let verdict = with(&mut stage, |kubeconfig| {
        kubeconfig.authority(Authority::Absent)
    });
    verdict.ends_with(69);
    assert_eq!(stage.server.requests(), []);
}

#[test]
fn the_environment_of_an_operator_changes_nothing() {
    let stage = Stage::set();
    let mut command = stage.command(&[]);
    for proxy in [
        "HTTPS_PROXY",
        "https_proxy",
        "HTTP_PROXY",
        "ALL_PROXY",
        "all_proxy",
    ] {
        command.env(proxy, "http://127.0.0.1:1");
    }
    command
        .env("KUBECONFIG", "/nonexistent")
        .env("SSL_CERT_FILE", "/nonexistent");
    command.env("KUBERNETES_SERVICE_HOST", "192.0.2.1");
    run(&mut command).ends_with(0);
}

#[test]
fn the_configuration_names_the_kubeconfig() {
    let node = Node::new();
    let path = node.root().join("pki/kubelet.conf");
    let stage = Stage::on(
        node,
        &format!("[cluster]\nkubeconfig = {path:?}\n"),
        "node-1",
    );
    assert_eq!(stage.kubeconfig, path);
    let mut command = stage.scene.registrar.command("verify");
    run(command.arg("--json")).ends_with(0);
    // The flag takes precedence.
    run(command.args(["--kubeconfig", "/nonexistent"])).ends_with(69);
}

#[test]
fn a_kubeconfig_that_another_user_may_have_written_is_not_used() {
    let stage = Stage::set();
    for mode in [0o622, 0o606, 0o662] {
        fs::set_permissions(&stage.kubeconfig, Permissions::from_mode(mode)).unwrap();
        let verdict = stage.verify(&[]);
        is_refused(&stage, &verdict, "other users may have written it");
    }
    // Others may read it: that is the operator's matter.
    fs::set_permissions(&stage.kubeconfig, Permissions::from_mode(0o644)).unwrap();
    stage.verify(&[]).ends_with(0);
    if is_root("give a file to another user") {
        chown(&stage.kubeconfig, Some(65534), None).unwrap();
        stage.server.take_requests();
        stage
            .verify(&[])
            .ends_with(69)
            .says("other users may have written it");
        assert_eq!(stage.server.requests(), []);
    }
}

#[test]
fn a_kubeconfig_that_is_no_file_or_has_no_end_is_not_read() {
    let mut stage = Stage::set();
    let directory = directory(&stage);
    fs::create_dir(&directory).unwrap();
    let file = |name: &str| directory.join(name);
    mkfifo(&file("fifo"), Mode::S_IRWXU).unwrap();
    symlink(file("nothing"), file("dangling")).unwrap();
    symlink(file("loop"), file("loop")).unwrap();
    fs::write(file("long"), vec![b'#'; 5_000_000]).unwrap();
    fs::write(file("empty"), "").unwrap();
    fs::write(file("bytes"), [0xff; 300]).unwrap();
    fs::write(file("other.yaml"), "kind: Pod\napiVersion: v1\n").unwrap();
    for path in [
        "fifo",
        "dangling",
        "loop",
        "long",
        "empty",
        "bytes",
        "other.yaml",
        "missing",
        "",
    ] {
        stage.kubeconfig = file(path);
        let start = Instant::now();
        let verdict = stage.verify(&["--timeout", "5s"]);
        is_refused(&stage, &verdict, "");
        assert!(
            start.elapsed() < Duration::from_secs(4),
            "{path}: it waited"
        );
    }
    stage.kubeconfig = "/dev/zero".into();
    let verdict = stage.verify(&[]);
    is_refused(&stage, &verdict, "");
}

#[test]
fn files_that_a_kubeconfig_names_and_that_cannot_be_read_are_named() {
    let mut stage = Stage::set();
    for (credentials, file) in [
        (
            Credentials::CertificateFile(Paths::Relative),
            "kubelet-client-current.pem",
        ),
        (Credentials::TokenFile(Paths::Absolute), "token"),
    ] {
        with(&mut stage, |kubeconfig| {
            kubeconfig
                .credentials(credentials)
                .authority(Authority::File(Paths::Relative))
        })
        .ends_with(0);
        for name in [file, "ca.crt"] {
            let path = directory(&stage).join(name);
            let aside = path.with_extension("aside");
            fs::rename(&path, &aside).unwrap();
            let words = match name {
                "token" => format!("the file {} that tokenFile names", path.display()),
                "ca.crt" => "the file that certificate-authority names".to_owned(),
                _ => "the file that client-certificate names".to_owned(),
            };
            let verdict = stage.verify(&[]);
            verdict.ends_with(69).says(&words);
            verdict.says(&stage.kubeconfig.display().to_string());
            mkfifo(&path, Mode::S_IRWXU).unwrap();
            stage.verify(&["--timeout", "2s"]).ends_with(69);
            fs::remove_file(&path).unwrap();
            fs::write(&path, "").unwrap();
            stage.verify(&["--timeout", "2s"]).ends_with(69);
            fs::rename(&aside, &path).unwrap();
            stage.verify(&[]).ends_with(0);
        }
    }
}

#[test]
fn a_file_system_that_hangs_ends_the_run_in_time() {
    let mut stage = Stage::set();
    let Some(mount) = HangingMount::over(stage.scene.node.root().join("hanging")) else {
        return;
    };
    let point = stage.scene.node.root().join("hanging");
    stage.kubeconfig = stage.server.kubeconfig().write(&point);
    let before = stage.driver();
    let hang = mount.hang();
    let start = Instant::now();
    let verdict = stage.verify(&["--timeout", "1s"]);
    assert!(
        start.elapsed() < Duration::from_secs(15),
        "{:?}",
        start.elapsed()
    );
    drop(hang);
    verdict.ends_with(69).says("hanging/kubelet.conf");
    assert_eq!(stage.driver(), before);
}

/// A well-known place is on a file system that hangs. In a namespace of its own, because a kubelet that names such a file
/// would hold up the other tests too.
#[test]
fn a_search_that_hangs_ends_the_run_in_time() {
    let _alone = alone();
    let stage = Stage::set();
    let point = stage.scene.node.root().join("hanging");
    let Some(mount) = HangingMount::over(&point) else {
        return;
    };
    let Some(mut mounts) = Mounts::private() else {
        return bed::skipped("root, to mount a file system over /var/lib");
    };
    mounts.bind(&point, Path::new("/var/lib"));
    let before = stage.driver();
    let hang = mount.hang();
    let mut command = stage.scene.registrar.command("verify");
    let verdict = run(command.args(["--timeout", "1s"]));
    drop(hang);
    verdict.ends_with(69).says("a file system hangs");
    assert_eq!(stage.driver(), before);
}
