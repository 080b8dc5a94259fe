//! Whatever bytes come to the control socket, the supervisor is asked nothing but what a client
//! may ask, what goes back is HTTP/2, and the next client is served.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::api::command::Request;
use crate::api::snapshot::Snapshot;
use crate::disk::reach::Reach;
use crate::os::fuzz::Fuzz;

/// An honest client asks after so many others.
const BETWEEN: usize = 64;
const PATIENCE: Duration = Duration::from_secs(20);

const WORDS: &[&str] = &[
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "\0\0\0\x04\0\0\0\0\0",
    "\0\0\x08\x06\0\0\0\0\0nonsense",
    "\0\0\x04\x08\0\0\0\0\0\x7f\x7f\x7f\x7f",
    "\0\0\x05\0\x01\0\0\0\x01\0\0\0\0\0",
    "\0\0\x08\0\x01\0\0\0\x01\0\0\0\0\x03\x0a\x01a",
    "/nsdr.control.v1.Control/Withdraw",
    "/nsdr.control.v1.Control/WatchStatus",
    "/nsdr.control.v1.Control/ReportCluster",
    "\x01\0\0\0\x03",
    "\x0a\x7f",
    "grpc-encoding",
    "grpc-timeout",
    "1n",
];

#[test]
fn no_bytes_ask_for_more_than_a_client_may() {
    let scene = Scene::new();
    Fuzz::new("control", WORDS).short(|input| scene.check(input));
}

#[test]
#[ignore = "the long run"]
fn no_bytes_ask_for_more_than_a_client_may_for_long() {
    let scene = Scene::new();
    Fuzz::new("control", WORDS).long(|input| scene.check(input));
}

struct Scene {
    runtime: Runtime,
    path: PathBuf,
    /// What the supervisor was asked since the last input.
    asked: Arc<Mutex<Vec<String>>>,
    tried: Mutex<usize>,
    _task: Task,
    _board: watch::Sender<Arc<Snapshot>>,
    _looks: watch::Sender<()>,
    _dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let place = runtime_dir::Place::of(dir.path()).unwrap();
        let path = place.control_socket();
        let (board, receiver) = watch::channel(Arc::<Snapshot>::default());
        let (looks, looked) = watch::channel(());
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let _guard = runtime.enter();
        let volumes = VolumeReader::new(vec![dir.path().join("kubelet")], Reach::default());
        let commanded = asked.clone();
        let commands = Commands::new(move |request| supervise(request, &commanded));
        let task = serve(place, commands, Snapshots::new(receiver), volumes, looked).unwrap();
        Scene {
            path,
            asked,
            tried: Mutex::new(0),
            _task: task,
            _board: board,
            _looks: looks,
            _dir: dir,
            runtime,
        }
    }

    fn check(&self, input: &[u8]) -> (Vec<String>, Vec<u8>) {
        let saying = async { timeout(PATIENCE, self.send(input)).await };
        let said = self.runtime.block_on(saying);
        let said = said.expect("the connection ends with the client's words");
        let kinds = frames(&said);
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        let mut tried = self.tried.lock().unwrap();
        *tried += 1;
        if tried.is_multiple_of(BETWEEN) {
            let asking = async { timeout(PATIENCE, self.honest()).await };
            let asked = self.runtime.block_on(asking);
            asked.expect("an honest client is served");
            self.asked.lock().unwrap().clear();
        }
        (asked, kinds)
    }

    /// Says all of it, and reads what comes back until the end.
    async fn send(&self, input: &[u8]) -> Vec<u8> {
        let mut client = UnixStream::connect(&self.path).await.unwrap();
        // The daemon may have closed it on the way.
        if client.write_all(input).await.is_ok() {
            drop(client.shutdown().await);
        }
        let mut said = Vec::new();
        match client.read_to_end(&mut said).await {
            Ok(_) => said,
            // It was closed while it still had something to say.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => said,
            Err(error) => panic!("{error}"),
        }
    }

    async fn honest(&self) {
        let mut client = Client::connect(&self.path).await.unwrap();
        let status = client.status().await.unwrap();
        assert_eq!(status, Snapshot::default().status());
        let status = client.status_with_volumes().await.unwrap();
        assert_eq!(status, Snapshot::default().status());
    }
}

/// Answers every command, and notes it.
fn supervise(request: Request, asked: &Mutex<Vec<String>>) {
    let Request::Command(command, reply) = request else {
        panic!("a client speaks for the HTTP server");
    };
    let (word, outcome) = match command {
        ClientCommand::Reload => ("reload".to_owned(), Ok(())),
        ClientCommand::Manual { action, driver } => (format!("{action:?}"), Err(driver)),
        ClientCommand::ReportCluster(_) => ("report the cluster".to_owned(), Ok(())),
    };
    if let Err(driver) = &outcome {
        assert!(driver.len() <= MESSAGE_LIMIT, "{} bytes", driver.len());
    }
    // Whether the client has waited for its answer is its own affair.
    drop(reply.send(outcome));
    asked.lock().unwrap().push(word);
}

/// The kinds of the frames that came back; a last one may be cut.
fn frames(said: &[u8]) -> Vec<u8> {
    let (mut rest, mut kinds) = (said, Vec::new());
    while let Some(head) = rest.first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        assert!(length <= 16_384 && head[3] <= 9, "no HTTP/2: {head:?}");
        assert!(!kinds.is_empty() || head[3] == 4, "settings come first");
        kinds.push(head[3]);
        rest = rest.get(9 + length..).unwrap_or_default();
    }
    kinds.truncate(6);
    kinds
}
