//! The fake driver, called over its socket.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bed::driver::{Answer, Call, Closing, Listening, Probe};
use bed::proto::csi::identity_client::IdentityClient;
use bed::proto::csi::node_client::NodeClient;
use bed::proto::csi::{GetPluginInfoRequest, NodeGetInfoRequest, ProbeRequest};
use bed::scene::{NAME, SOON};
use bed::{Behaviour, FakeDriver, Node, eventually};
use hyper_util::rt::TokioIo;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status};

struct Client {
    runtime: tokio::runtime::Runtime,
    channel: Channel,
}

impl Client {
    fn connect(path: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let path = PathBuf::from(path);
        let endpoint = Endpoint::from_static("http://localhost");
        let connect = endpoint.connect_with_connector(tower::service_fn(move |_: Uri| {
            let path = path.clone();
            async move {
                let stream = tokio::net::UnixStream::connect(path).await?;
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        }));
        let channel = runtime.block_on(connect).unwrap();
        Self { runtime, channel }
    }

    fn name(&self) -> Result<String, Status> {
        let mut client = IdentityClient::new(self.channel.clone());
        let answer = self
            .runtime
            .block_on(client.get_plugin_info(GetPluginInfoRequest {}))?;
        Ok(answer.into_inner().name)
    }

    fn node_id(&self) -> Result<String, Status> {
        self.node_id_within(SOON)
    }

    fn node_id_within(&self, patience: Duration) -> Result<String, Status> {
        let mut client = NodeClient::new(self.channel.clone());
        let call = client.node_get_info(NodeGetInfoRequest {});
        let limited = self
            .runtime
            .block_on(async { tokio::time::timeout(patience, call).await });
        match limited {
            Ok(answer) => Ok(answer?.into_inner().node_id),
            Err(_) => Err(Status::deadline_exceeded("hung")),
        }
    }

    fn ready(&self) -> Result<Option<bool>, Status> {
        let mut client = IdentityClient::new(self.channel.clone());
        let answer = self.runtime.block_on(client.probe(ProbeRequest {}))?;
        Ok(answer.into_inner().ready)
    }
}

fn start(node: &Node, behaviour: Behaviour) -> FakeDriver {
    FakeDriver::start_in_new_directory(node.csi_socket(NAME), behaviour)
}

#[test]
fn answers_with_its_behaviour() {
    let node = Node::new();
    let mut driver = start(&node, Behaviour::named(NAME));
    let client = Client::connect(driver.path());
    assert_eq!(client.name().unwrap(), NAME);
    assert_eq!(client.node_id().unwrap(), "node-1");
    for (probe, answer) in [
        (Probe::Ready, Some(true)),
        (Probe::NotReady, Some(false)),
        (Probe::Absent, None),
    ] {
        driver.change(Behaviour {
            probe,
            ..driver.behaviour()
        });
        assert_eq!(client.ready().unwrap(), answer);
    }
    driver.change(Behaviour {
        probe: Probe::Fails(Code::FailedPrecondition),
        name: "../../etc/x".to_owned(),
        ..driver.behaviour()
    });
    assert_eq!(client.ready().unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(client.name().unwrap(), "../../etc/x");
    assert_eq!(driver.called(Call::Probe), 4);
    assert_eq!(driver.called(Call::GetPluginInfo), 2);
    // All on the connection that was open from the start.
    assert_eq!(driver.connections(), 1);
    drop(client);
    eventually("the connection is closed", SOON, || {
        driver.connections() == 0
    });
}

#[test]
fn fails_for_a_while_or_for_good() {
    let node = Node::new();
    let mut driver = start(
        &node,
        Behaviour {
            node_get_info: Answer::FailsFor(Duration::from_secs(2), Code::Unavailable),
            get_plugin_info: Answer::Fails(Code::Unimplemented),
            ..Behaviour::named(NAME)
        },
    );
    let client = Client::connect(driver.path());
    assert_eq!(client.node_id().unwrap_err().code(), Code::Unavailable);
    eventually("it works again", SOON, || client.node_id());
    assert_eq!(client.name().unwrap_err().code(), Code::Unimplemented);
    driver.change(Behaviour::named(NAME).hanging_on(Call::NodeGetInfo));
    let hung = client.node_id_within(Duration::from_millis(200));
    assert_eq!(hung.unwrap_err().code(), Code::DeadlineExceeded);
    assert_eq!(client.name().unwrap(), NAME);
}

#[test]
fn listens_on_the_same_file_that_it_had_bound() {
    let node = Node::new();
    let late = Behaviour {
        listening: Listening::BoundOnly,
        ..Behaviour::named(NAME)
    };
    let mut driver = start(&node, late);
    let inode = driver.path().metadata().unwrap().ino();
    let refused = UnixStream::connect(driver.path()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    driver.change(Behaviour::named(NAME));
    assert_eq!(driver.path().metadata().unwrap().ino(), inode);
    assert_eq!(Client::connect(driver.path()).name().unwrap(), NAME);
}

#[test]
fn can_be_mute_and_can_refuse() {
    let node = Node::new();
    let mut driver = start(
        &node,
        Behaviour {
            listening: Listening::Mute,
            ..Behaviour::named(NAME)
        },
    );
    let mut stream = UnixStream::connect(driver.path()).unwrap();
    eventually("it is accepted", SOON, || driver.connections() == 1);
    stream
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let silence = stream.read(&mut [0; 1]).unwrap_err();
    assert_eq!(silence.kind(), ErrorKind::WouldBlock);
    stream.set_read_timeout(Some(SOON)).unwrap();
    driver.change(Behaviour {
        listening: Listening::Refuses,
        ..Behaviour::named(NAME)
    });
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    let refused = UnixStream::connect(driver.path()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    driver.restart(Behaviour::named(NAME));
    assert_eq!(Client::connect(driver.path()).name().unwrap(), NAME);
}

#[test]
fn ends_with_and_without_its_socket() {
    let node = Node::new();
    let mut driver = start(&node, Behaviour::named(NAME));
    let mut stream = UnixStream::connect(driver.path()).unwrap();
    // A connection that was never accepted would be reset.
    eventually("accepted", SOON, || driver.connections() == 1);
    driver.kill();
    let mut rest = Vec::new();
    // The end comes, whatever the driver sent before.
    stream.read_to_end(&mut rest).unwrap();
    assert!(driver.path().exists());
    driver.restart(Behaviour::named("other.csi.test"));
    let client = Client::connect(driver.path());
    assert_eq!(client.name().unwrap(), "other.csi.test");
    driver.stop();
    assert!(!driver.path().exists());
    assert_eq!(driver.connections(), 0);
}

/// All bytes of the driver on an idle connection, until the driver closes it.
fn said_until_the_end(closing: Closing) -> Vec<u8> {
    let node = Node::new();
    let driver = node.behaving(NAME, Behaviour::named(NAME).closing(closing));
    let mut stream = UnixStream::connect(driver.path()).unwrap();
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .unwrap();
    stream.write_all(b"\0\0\0\x04\0\0\0\0\0").unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    eventually("the connection is gone", SOON, || driver.connections() == 0);
    assert_eq!(driver.met(), 1);
    said
}

#[test]
fn ends_idle_and_old_connections_with_a_goaway_or_without() {
    let short = Duration::from_millis(50);
    // Length, GOAWAY, no flags, the connection; no error at the end.
    let goaway = b"\0\0\x08\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0";
    for (closing, says_it) in [
        (Closing::Idle(short), true),
        (Closing::Aged(short), true),
        (Closing::IdleUnsaid(short), false),
    ] {
        let said = said_until_the_end(closing);
        assert_eq!(said.ends_with(goaway), says_it, "{closing:?}: {said:?}");
    }
}

#[test]
fn an_open_connection_ends_when_the_policy_changes() {
    let node = Node::new();
    let mut driver = node.driver(NAME);
    let client = Client::connect(driver.path());
    assert_eq!(client.name().unwrap(), NAME);
    assert_eq!(driver.connections(), 1);
    driver.change(Behaviour::named(NAME).closing(Closing::Idle(Duration::from_millis(50))));
    eventually("the connection ends", SOON, || driver.connections() == 0);
}

#[test]
fn one_call_may_take_longer_than_the_others() {
    let node = Node::new();
    let slow = Behaviour::named(NAME).taking(Call::NodeGetInfo, Duration::from_secs(600));
    let driver = node.behaving(NAME, slow);
    let client = Client::connect(driver.path());
    assert_eq!(client.name().unwrap(), NAME);
    let late = client.node_id_within(Duration::from_millis(100));
    assert_eq!(late.unwrap_err().code(), Code::DeadlineExceeded);
}
