//! No token, key or certificate reaches an output, the log, or another process.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bed::api_server::{Authority, Credentials, Fault, Paths};
use bed::scene::SOON;
use bed::{Process, eventually};

use super::Stage;

/// So many characters of a secret are too many.
const PART: usize = 16;

/// Everything in the kubeconfig and in the files beside it that is long enough to be a secret, as it is there and
/// decoded.
fn secrets(stage: &Stage) -> BTreeSet<String> {
    let directory = stage.kubeconfig.parent().unwrap();
    let texts = fs::read_dir(directory).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        fs::read_to_string(path).unwrap()
    });
    let mut words = BTreeSet::new();
    for text in texts {
        let found = text
            .split_whitespace()
            .filter(|word| word.len() > 40 && !word.starts_with('/') && !word.contains("-----"));
        for word in found {
            words.insert(word.to_owned());
            let decoded = STANDARD
                .decode(word)
                .ok()
                .and_then(|data| String::from_utf8(data).ok());
            let lines = decoded.iter().flat_map(|pem| pem.lines());
            words.extend(lines.filter(|line| line.len() > 40).map(str::to_owned));
        }
    }
    assert!(!words.is_empty());
    words
}

/// No part of a secret is in the text.
#[track_caller]
fn is_silent(secrets: &BTreeSet<String>, what: &str, text: &str) {
    for secret in secrets {
        // A longer part has one of these in it.
        for part in secret.as_bytes().windows(PART).step_by(PART / 2) {
            let part = str::from_utf8(part).unwrap();
            assert!(
                !text.contains(part),
                "{what}: {part} of a secret is in: {text}"
            );
        }
    }
    assert!(!text.contains("BEGIN "), "{what}: {text}");
}

#[track_caller]
fn are_silent(stage: &Stage, secrets: &BTreeSet<String>, what: &str, output: &Output) {
    is_silent(secrets, what, &bed::stdout(output));
    is_silent(secrets, what, &bed::stderr(output));
    is_silent(secrets, what, &stage.scene.registrar.logs());
}

const STYLES: [Credentials; 4] = [
    Credentials::InlineCertificate,
    Credentials::CertificateFile(Paths::Absolute),
    Credentials::Token,
    Credentials::TokenFile(Paths::Relative),
];

fn choose(stage: &mut Stage, credentials: Credentials) {
    let directory = stage.scene.node.root().join(format!("{credentials:?}"));
    let kubeconfig = stage.server.kubeconfig().credentials(credentials);
    stage.kubeconfig = kubeconfig.write(&directory);
}

#[test]
fn no_run_prints_or_logs_a_secret_however_it_ends() {
    let mut stage = Stage::set();
    for credentials in STYLES {
        choose(&mut stage, credentials);
        let secrets = secrets(&stage);
        for (fault, code) in [
            (None, 0),
            (Some(Fault::Status(401)), 69),
            (Some(Fault::Status(403)), 69),
            (Some(Fault::NotJson), 69),
            (Some(Fault::Cut), 69),
            (Some(Fault::Hang), 69),
        ] {
            stage.server.heal();
            let what = format!("{credentials:?} {fault:?}");
            if let Some(fault) = fault {
                stage.server.fault("/api/", fault);
            }
            let mut command = stage.command(&["--timeout", "1s", "--log-level", "trace"]);
            let output = command.env("RUST_LOG", "trace").output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{what}: {output:?}");
            are_silent(&stage, &secrets, &what, &output);
        }
    }
}

#[test]
fn a_server_that_sends_the_credentials_back_does_not_get_them_printed() {
    let mut stage = Stage::set();
    choose(&mut stage, Credentials::Token);
    let secrets = secrets(&stage);
    let token = secrets.iter().next_back().unwrap().clone();
    for text in [
        serde_json::json!({"kind": "Status", "message": token, "metadata": {"name": token}}),
        serde_json::json!({"kind": "Node", "metadata": {"name": "node-1", "labels": token}}),
        serde_json::json!(token),
    ] {
        stage.server.fault("/api/", Fault::Object(text));
        let output = stage.command(&[]).output().unwrap();
        assert_eq!(output.status.code(), Some(69), "{output:?}");
        are_silent(&stage, &secrets, "sent back", &output);
    }
}

#[test]
fn a_torn_kubeconfig_is_refused_without_a_part_of_it() {
    let mut stage = Stage::set();
    for credentials in STYLES {
        choose(&mut stage, credentials);
        let secrets = secrets(&stage);
        let whole = fs::read_to_string(&stage.kubeconfig).unwrap();
        // In the middle of each line, and of each value.
        let mut at = 0;
        let mut cuts = Vec::new();
        for line in whole.lines() {
            cuts.extend([at + line.len() / 2, at + line.len().saturating_sub(1)]);
            at += line.len() + 1;
        }
        for cut in cuts {
            fs::write(&stage.kubeconfig, &whole[..cut]).unwrap();
            let output = stage.command(&["--timeout", "2s"]).output().unwrap();
            let what = format!("{credentials:?} cut at {cut}");
            // The last line may lack only a character that does not matter, such as base64's padding.
            let code = output.status.code();
            assert!(
                code == Some(69) || cut + 3 > whole.len(),
                "{what}: {output:?}"
            );
            are_silent(&stage, &secrets, &what, &output);
        }
        fs::write(&stage.kubeconfig, &whole).unwrap();
    }
}

#[test]
fn values_that_cannot_be_decoded_are_refused_without_a_part_of_them() {
    let mut stage = Stage::set();
    for (credentials, key) in [
        (Credentials::InlineCertificate, "client-certificate-data: "),
        (Credentials::InlineCertificate, "client-key-data: "),
        (
            Credentials::InlineCertificate,
            "certificate-authority-data: ",
        ),
        (Credentials::Token, "token: "),
        (
            Credentials::CertificateFile(Paths::Absolute),
            "client-key: ",
        ),
    ] {
        choose(&mut stage, credentials);
        let secrets = secrets(&stage);
        let whole = fs::read_to_string(&stage.kubeconfig).unwrap();
        for insert in ["*", "[", "&a ", "{", "\"", "\u{1}", "é", "%%%", "!!binary "] {
            let text = whole.replace(key, &format!("{key}{insert}"));
            assert_ne!(text, whole);
            fs::write(&stage.kubeconfig, text).unwrap();
            let output = stage.command(&["--timeout", "2s"]).output().unwrap();
            let what = format!("{credentials:?} {key}{insert}");
            let is_still_valid = ["&a ", "!!binary "].contains(&insert);
            let code = output.status.code();
            assert!(
                code == Some(69) || is_still_valid && code == Some(0),
                "{what}: {output:?}"
            );
            are_silent(&stage, &secrets, &what, &output);
        }
        // Another file's bytes in place of what should be there: base64 of a key that is no key.
        let swapped = whole.replace("client-key-data: ", "client-key-data: AAAA");
        let swapped = swapped.replace("token: ", "token: |-\n      a\n      ");
        fs::write(&stage.kubeconfig, &swapped).unwrap();
        let is_swapped = swapped != whole;
        let output = stage.command(&["--timeout", "2s"]).output().unwrap();
        let code = output.status.code();
        assert!(code == Some(69) || !is_swapped, "{output:?}");
        are_silent(&stage, &secrets, "swapped", &output);
    }
}

#[test]
fn files_with_other_bytes_than_they_should_have_are_not_quoted() {
    let mut stage = Stage::set();
    let directory = stage.scene.node.root().join("files");
    let kubeconfig = stage
        .server
        .kubeconfig()
        .authority(Authority::File(Paths::Relative));
    stage.kubeconfig = kubeconfig
        .credentials(Credentials::CertificateFile(Paths::Relative))
        .write(&directory);
    let secrets = secrets(&stage);
    let current = directory.join("kubelet-client-current.pem");
    let whole = fs::read_to_string(&current).unwrap();
    let (certificate, key) = whole.split_at(whole.find("-----BEGIN PRIVATE").unwrap());
    let torn = &whole[..whole.len() - 60];
    for content in [
        key,
        certificate,
        torn,
        "",
        &format!("{key}{key}"),
        &whole.replace("-----", ""),
    ] {
        fs::write(&current, content).unwrap();
        let output = stage.command(&["--timeout", "2s"]).output().unwrap();
        assert_eq!(output.status.code(), Some(69), "{output:?}");
        are_silent(&stage, &secrets, "another file", &output);
    }
}

#[test]
fn other_processes_see_no_secret_while_it_runs_and_no_file_has_one_afterwards() {
    let mut stage = Stage::set();
    for credentials in [Credentials::Token, Credentials::InlineCertificate] {
        choose(&mut stage, credentials);
        let secrets = secrets(&stage);
        stage.server.take_requests();
        stage.server.fault("/api/", Fault::Hang);
        let mut command = stage.command(&["--timeout", "20s"]);
        let mut run = Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        eventually("it has sent its credentials", SOON, || {
            let requests = stage.server.requests();
            requests
                .iter()
                .any(|request| request.route().starts_with("/api/"))
        });
        for file in ["cmdline", "environ", "comm"] {
            let bytes = fs::read(format!("/proc/{}/{file}", run.pid())).unwrap();
            is_silent(&secrets, file, &String::from_utf8_lossy(&bytes));
        }
        run.kill();
        stage.server.heal();
        stage.verify(&["--repair"]).ends_with(0);
        for entry in fs::read_dir(stage.scene.node.runtime_dir()).unwrap() {
            let path = entry.unwrap().path();
            let mode = fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", path.display());
            if let Ok(text) = fs::read_to_string(&path) {
                is_silent(&secrets, &path.display().to_string(), &text);
            }
        }
    }
}
