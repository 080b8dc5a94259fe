//! The test API server by itself, asked by a client of this file.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bed::api_server::{
    Authority, ClientCertificate, Credentials, Door, Fault, ListedDriver, Paths, csi_driver,
    csi_node,
};
use bed::kubelet::{Cluster, CsiNodeEntry};
use bed::scene::SOON;
use bed::{ApiServer, Process, eventually};
use serde_json::{Value, json};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const CSI_NODE: &str = "/apis/storage.k8s.io/v1/csinodes/node-1";
const NODE: &str = "/api/v1/nodes/node-1";
const CSI_DRIVER: &str = "/apis/storage.k8s.io/v1/csidrivers/nfs.csi.k8s.io";
/// How long a client waits for a server that hangs.
const PATIENCE: Duration = Duration::from_millis(300);

/// A client that closes its connection after each answer.
struct Client {
    address: SocketAddr,
    ca: String,
    certificate: Option<ClientCertificate>,
    token: Option<String>,
    /// The longest time between two bytes.
    patience: Duration,
}

struct Reply {
    code: u16,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Reply {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Client {
    fn stranger(server: &ApiServer) -> Self {
        Self {
            address: server.address(),
            ca: server.ca_pem(),
            certificate: None,
            token: None,
            patience: SOON,
        }
    }

    fn kubelet(server: &ApiServer) -> Self {
        Self {
            certificate: Some(server.issue(&server.kubelet_user())),
            ..Self::stranger(server)
        }
    }

    fn bearer(server: &ApiServer, token: &str) -> Self {
        Self {
            token: Some(token.to_owned()),
            ..Self::stranger(server)
        }
    }

    /// With the server and the identity of a kubeconfig that has both inline.
    fn of(kubeconfig: &str) -> Self {
        let value = |key: &str| {
            let mut lines = kubeconfig.lines();
            let value = lines.find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": "));
            value.unwrap().to_owned()
        };
        let pem = |key: &str| String::from_utf8(STANDARD.decode(value(key)).unwrap()).unwrap();
        let address = value("server").replace("https://", "");
        Self {
            address: address.parse().unwrap(),
            ca: pem("certificate-authority-data"),
            certificate: Some(ClientCertificate {
                certificate: pem("client-certificate-data"),
                key: pem("client-key-data"),
            }),
            token: None,
            patience: SOON,
        }
    }

    fn hasty(mut self) -> Self {
        self.patience = PATIENCE;
        self
    }

    #[track_caller]
    fn get(&self, path: &str) -> Reply {
        self.ask("GET", path).unwrap()
    }

    /// The body is what arrived, whole or not.
    fn ask(&self, method: &str, path: &str) -> io::Result<Reply> {
        let mut all = Vec::new();
        match self.send(method, path)?.read_to_end(&mut all) {
            // A connection that is cut ends without the end of TLS.
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            _ => parse(&all),
        }
    }

    /// How long bytes keep arriving.
    fn drips(&self, path: &str) -> Duration {
        let mut stream = self.send("GET", path).unwrap();
        let start = Instant::now();
        let mut piece = [0; 256];
        while start.elapsed() < 2 * PATIENCE && stream.read(&mut piece).unwrap() > 0 {}
        start.elapsed()
    }

    /// Speaks HTTP by hand.
    fn send(
        &self,
        method: &str,
        path: &str,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(self.patience))?;
        let name = "127.0.0.1".try_into().unwrap();
        let connection = ClientConnection::new(Arc::new(self.tls()), name).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let token = self.token.iter();
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n{}\r\n",
            token.collect::<String>()
        );
        stream.write_all(request.as_bytes())?;
        Ok(stream)
    }

    fn tls(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(self.ca.as_bytes()).unwrap();
        roots.add(ca).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        match &self.certificate {
            None => builder.with_no_client_auth(),
            Some(client) => {
                let chain = CertificateDer::from_pem_slice(client.certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![chain], key).unwrap()
            }
        }
    }
}

fn parse(all: &[u8]) -> io::Result<Reply> {
    let garbage = || io::Error::new(io::ErrorKind::InvalidData, "not HTTP");
    let end = all.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.ok_or_else(garbage)?;
    let head = str::from_utf8(&all[..end]).unwrap();
    let mut lines = head.lines();
    let code = lines.next().unwrap().split(' ').nth(1).unwrap();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(key, value)| (key.to_lowercase(), value.to_owned()));
    Ok(Reply {
        code: code.parse().unwrap(),
        headers: headers.collect(),
        body: all[end + 4..].to_vec(),
    })
}

#[test]
fn a_kubelet_reads_its_own_objects_and_every_csidriver() {
    let server = ApiServer::start("node-1");
    server.change(|state| {
        let driver = csi_driver("nfs.csi.k8s.io", false);
        state
            .csi_drivers
            .insert("nfs.csi.k8s.io".to_owned(), driver);
    });
    let token = server.token("system:node:node-1");
    for client in [Client::kubelet(&server), Client::bearer(&server, &token)] {
        for (path, kind) in [
            (CSI_NODE, "CSINode"),
            (NODE, "Node"),
            (CSI_DRIVER, "CSIDriver"),
        ] {
            let reply = client.get(path);
            assert_eq!(reply.code, 200, "{path}");
            assert_eq!(reply.json()["kind"], kind);
            assert_eq!(reply.headers["content-type"], "application/json");
        }
    }
    let csi_node = server.state().csi_node.unwrap();
    let node = server.state().node.unwrap();
    let owner = &csi_node["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], node["metadata"]["uid"]);
}

#[test]
fn a_missing_object_is_a_status_with_404() {
    let server = ApiServer::start("node-1");
    server.change(|state| state.csi_node = None);
    let client = Client::kubelet(&server);
    let reply = client.get(CSI_NODE);
    assert_eq!(reply.code, 404);
    assert_eq!(
        reply.json(),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 404,
            "message": "csinodes.storage.k8s.io \"node-1\" not found", "reason": "NotFound",
            "details": {"name": "node-1", "group": "storage.k8s.io", "kind": "csinodes"},
        })
    );
    assert_eq!(client.get(CSI_DRIVER).code, 404);
}

#[test]
fn the_node_authorizer_refuses_lists_writes_and_objects_of_other_nodes() {
    let server = ApiServer::start("node-1");
    let client = Client::kubelet(&server);
    for (method, path) in [
        ("GET", "/apis/storage.k8s.io/v1/csinodes"),
        ("GET", "/apis/storage.k8s.io/v1/csinodes/node-2"),
        ("GET", "/apis/storage.k8s.io/v1/csinodes?watch=true"),
        ("GET", "/api/v1/nodes/node-2"),
        ("GET", "/api/v1/nodes/node-1/status"),
        ("GET", "/api/v1/secrets"),
        ("PUT", CSI_NODE),
        ("DELETE", CSI_NODE),
    ] {
        let reply = client.ask(method, path).unwrap();
        assert_eq!(reply.code, 403, "{method} {path}");
        assert_eq!(reply.json()["reason"], "Forbidden");
    }
    let other = server.token("system:node:node-2");
    assert_eq!(Client::bearer(&server, &other).get(CSI_NODE).code, 403);
    let admin = server.token("kubernetes-admin");
    assert_eq!(Client::bearer(&server, &admin).get(CSI_NODE).code, 200);
}

#[test]
fn credentials_that_it_did_not_give_out_are_401() {
    let server = ApiServer::start("node-1");
    let foreign = ApiServer::start("node-1");
    let mut stranger = Client::stranger(&server);
    assert_eq!(stranger.get(NODE).code, 401);
    stranger.certificate = Some(foreign.issue("system:node:node-1"));
    assert_eq!(stranger.get(NODE).code, 401);
    assert_eq!(Client::bearer(&server, "guessed").get(NODE).code, 401);
    let kubelet = Client::kubelet(&server);
    assert_eq!(kubelet.get(NODE).code, 200);
    server.revoke();
    assert_eq!(kubelet.get(NODE).json()["reason"], "Unauthorized");
}

#[test]
fn it_says_who_a_client_is_as_its_release_does() {
    let server = ApiServer::start("node-1");
    let client = Client::kubelet(&server);
    for (minor, codes) in [
        (28, [201, 404, 404]),
        (27, [404, 201, 404]),
        (26, [404, 404, 201]),
        (25, [403, 403, 403]),
    ] {
        server.change(|state| state.minor = minor);
        for (version, code) in ["v1", "v1beta1", "v1alpha1"].into_iter().zip(codes) {
            let path = format!("/apis/authentication.k8s.io/{version}/selfsubjectreviews");
            let reply = client.ask("POST", &path).unwrap();
            assert_eq!(reply.code, code, "1.{minor} {version}");
            if code == 201 {
                let user = &reply.json()["status"]["userInfo"]["username"];
                assert_eq!(user, "system:node:node-1");
            }
        }
    }
}

#[test]
fn every_request_is_recorded_with_its_query_and_its_user() {
    let server = ApiServer::start("node-1");
    Client::kubelet(&server).get(&format!("{NODE}?resourceVersion=0"));
    Client::stranger(&server).get(CSI_NODE);
    let requests = server.take_requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].method, "GET");
    assert_eq!(requests[0].route(), NODE);
    assert!(requests[0].asks("resourceVersion=0"));
    assert_eq!(requests[0].user.as_deref(), Some("system:node:node-1"));
    assert!(!requests[1].asks("resourceVersion=0"));
    assert_eq!(requests[1].user, None);
    assert_eq!(server.requests(), []);
}

#[test]
fn a_fault_answers_its_paths_until_it_is_healed() {
    let server = ApiServer::start("node-1");
    let client = Client::kubelet(&server);
    for code in [401, 403, 409, 500, 503] {
        server.fault("/apis/storage", Fault::Status(code));
        let reply = client.get(CSI_NODE);
        assert_eq!(
            (reply.code, reply.json()["kind"].clone()),
            (code, "Status".into())
        );
        assert_eq!(client.get(NODE).code, 200);
    }
    server.fault("/apis/storage", Fault::TooManyRequests(7));
    let reply = client.get(CSI_NODE);
    assert_eq!((reply.code, &*reply.headers["retry-after"]), (429, "7"));
    server.fault(
        "/apis/storage",
        Fault::Redirect("https://other:1".to_owned()),
    );
    let reply = client.get(CSI_NODE);
    assert_eq!(reply.code, 307);
    assert_eq!(
        reply.headers["location"],
        format!("https://other:1{CSI_NODE}")
    );
    // The longer beginning counts.
    let other = json!({"kind": "ConfigMapList"});
    server.fault(CSI_NODE, Fault::Object(other.clone()));
    assert_eq!(client.get(CSI_NODE).json(), other);
    server.fault(CSI_NODE, Fault::NotJson);
    assert!(client.get(CSI_NODE).body.starts_with(b"<html>"));
    server.heal();
    assert_eq!(client.get(CSI_NODE).code, 200);
}

#[test]
fn a_body_can_be_huge_or_cut_or_never_end() {
    let server = ApiServer::start("node-1");
    let client = Client::kubelet(&server);
    let whole = client.get(CSI_NODE).body;
    server.fault(CSI_NODE, Fault::Huge);
    let huge = client.get(CSI_NODE);
    assert!(huge.body.len() > 20_000_000);
    assert_eq!(huge.json()["kind"], "CSINode");
    server.fault(CSI_NODE, Fault::Cut);
    let cut = client.get(CSI_NODE);
    assert_eq!(cut.headers["content-length"], whole.len().to_string());
    assert_eq!(cut.body, whole[..whole.len() / 2]);
    server.fault(CSI_NODE, Fault::Hang);
    let start = Instant::now();
    let hasty = Client::kubelet(&server).hasty();
    assert!(hasty.ask("GET", CSI_NODE).is_err() && start.elapsed() >= PATIENCE);
    // The next byte always arrives in time: only a deadline for the whole answer ends this.
    server.fault(CSI_NODE, Fault::Drip);
    assert!(client.drips(CSI_NODE) > PATIENCE);
    // Neither holds up another client.
    assert_eq!(client.get(NODE).code, 200);
}

#[test]
fn the_door_hangs_closes_lies_or_speaks_another_protocol() {
    let server = ApiServer::start("node-1");
    let client = Client::kubelet(&server).hasty();
    for (door, words) in [
        (Door::HangsBeforeTls, ""),
        (Door::Closes, ""),
        (Door::OtherAuthority, "invalid peer certificate"),
        (Door::NotHttp, "not HTTP"),
    ] {
        server.door(door);
        let error = client.ask("GET", NODE).err().unwrap();
        assert!(error.to_string().contains(words), "{door:?}: {error}");
    }
    assert_eq!(server.requests(), []);
    server.heal();
    assert_eq!(Client::kubelet(&server).get(NODE).code, 200);
}

#[test]
fn it_mirrors_what_a_kubelet_wrote_and_keeps_the_uids() {
    let server = ApiServer::start("node-1");
    let before = server.state();
    let mut cluster = Cluster::default();
    let entry = CsiNodeEntry {
        node_id: "id-1".to_owned(),
        topology_keys: ["zone".to_owned()].into(),
        max_volumes: 8,
    };
    cluster.csi_node.insert("d".to_owned(), entry);
    cluster.node_ids.insert("d".to_owned(), "id-1".to_owned());
    cluster.labels.insert("zone".to_owned(), "z1".to_owned());
    server.mirror(&cluster);
    let mut state = server.state();
    let listed = ListedDriver {
        name: "d",
        node_id: "id-1",
        topology_keys: &["zone"],
        limit: Some(8),
    };
    assert_eq!(state.csi_node, Some(csi_node("node-1", &[listed])));
    assert_eq!(state.labels()["zone"], "z1");
    let annotation = &state.annotations()["csi.volume.kubernetes.io/nodeid"];
    assert_eq!(annotation, r#"{"d":"id-1"}"#);
    let uid = |node: &Option<Value>| node.as_ref().unwrap()["metadata"]["uid"].clone();
    assert_eq!(uid(&state.node), uid(&before.node));

    server.change(|state| {
        state.change_listed("d", |listed| listed["nodeID"] = "id-2".into());
        state.node = None;
    });
    server.mirror(&Cluster::default());
    let state = server.state();
    assert_eq!(state.csi_node, before.csi_node);
    assert_eq!(state.node, None);
}

#[test]
fn kubeconfigs_have_the_styles_of_kubelets() {
    let server = ApiServer::start("node-1");
    let directory = tempfile::tempdir().unwrap();
    let text = |credentials, authority| {
        let kubeconfig = server
            .kubeconfig()
            .credentials(credentials)
            .authority(authority);
        let path = kubeconfig.write(directory.path());
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::read_to_string(path).unwrap()
    };
    let inline = text(Credentials::InlineCertificate, Authority::Inline);
    assert!(inline.contains(&format!("    server: {}\n", server.url())));
    assert!(inline.contains("    certificate-authority-data: "));
    assert!(inline.contains("    client-key-data: "));
    let files = text(
        Credentials::CertificateFile(Paths::Relative),
        Authority::File(Paths::Absolute),
    );
    assert!(files.contains("    client-key: kubelet-client-current.pem\n"));
    let ca = directory.path().join("ca.crt");
    assert!(files.contains(&format!("    certificate-authority: {}\n", ca.display())));
    let token = text(Credentials::Token, Authority::Absent);
    assert!(token.contains("    token: eyJ") && !token.contains("certificate-authority"));
    assert!(text(Credentials::Nothing, Authority::Unchecked).contains("  user: {}\n"));
}

#[test]
fn a_rotated_certificate_is_another_file_behind_the_same_link() {
    let server = ApiServer::start("node-1");
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("kubelet-client-current.pem");
    let kubeconfig = server.kubeconfig();
    kubeconfig
        .credentials(Credentials::CertificateFile(Paths::Absolute))
        .write(directory.path());
    let (first, old) = (fs::read_link(&link).unwrap(), fs::read(&link).unwrap());
    server.revoke();
    server.rotate("system:node:node-1", directory.path());
    assert_ne!(fs::read_link(&link).unwrap(), first);
    let new = fs::read_to_string(&link).unwrap();
    assert_ne!(new.as_bytes(), old);
    let (certificate, key) = new.split_at(new.find("-----BEGIN PRIVATE KEY").unwrap());
    let mut client = Client::stranger(&server);
    client.certificate = Some(ClientCertificate {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
    });
    assert_eq!(client.get(NODE).code, 200);
}

#[test]
fn the_program_reads_its_state_again_for_each_request_and_prints_the_requests() {
    let directory = tempfile::tempdir().unwrap();
    let (state, kubeconfig) = (
        directory.path().join("state.json"),
        directory.path().join("etc/kubelet.conf"),
    );
    fs::write(&state, json!({"minor": 30}).to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_test-api-server"));
    let process = command
        .arg(format!("--state={}", state.display()))
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .stdout(Stdio::piped());
    let mut process = Process::start(process);
    let kubeconfig = eventually("the kubeconfig is written", SOON, || {
        let text = fs::read_to_string(&kubeconfig).ok()?;
        text.contains("client-key-data").then_some(text)
    });
    let client = Client::of(&kubeconfig);
    let code = || client.get(NODE).code;
    assert_eq!(code(), 404);
    let node = bed::api_server::node("node-1", &BTreeMap::new(), &BTreeMap::new());
    fs::write(&state, json!({"node": node}).to_string()).unwrap();
    assert_eq!(code(), 200);
    let faults = json!({"node": node, "faults": {"/api/v1": {"status": 503}, "/apis": "hang"}});
    fs::write(&state, faults.to_string()).unwrap();
    assert_eq!(code(), 503);
    // A file that is not complete yet changes nothing.
    fs::write(&state, "{\"node\":").unwrap();
    assert_eq!(code(), 503);
    let mut output = process.stdout();
    process.signal(nix::sys::signal::Signal::SIGKILL);
    let mut lines = String::new();
    output.read_to_string(&mut lines).unwrap();
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(
        first,
        json!({"method": "GET", "path": NODE, "user": "system:node:node-1"})
    );
    assert_eq!(lines.lines().count(), 4);
}
