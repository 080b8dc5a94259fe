//! Many connections to one registration socket, all open at one time.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tonic::Status;
use tonic::transport::Channel;

use crate::channel;
use crate::proto::registration::InfoRequest;
use crate::proto::registration::registration_client::RegistrationClient;
use crate::worker::Worker;

/// The connections, open until this is dropped, on one thread.
pub struct Callers {
    turns: UnboundedSender<(Turn, mpsc::Sender<Answers>)>,
    _worker: Worker,
}

/// The order of the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Each call follows the answer to the last.
    OneByOne,
    /// All calls at once.
    AllAtOnce,
}

/// How long each connection waited for its answer.
type Answers = Result<Vec<Duration>, Status>;

impl Callers {
    /// Opens this many connections.
    pub fn open(path: &Path, connections: usize) -> Result<Self, Status> {
        let (opened, result) = mpsc::channel();
        let (turns, taken) = unbounded_channel();
        let path = PathBuf::from(path);
        let worker = Worker::spawn("crowd", move || async move {
            match connect(&path, connections).await {
                Ok(clients) => {
                    opened.send(Ok(())).unwrap();
                    answer(clients, taken).await;
                }
                Err(error) => opened.send(Err(error)).unwrap(),
            }
        });
        result.recv().unwrap()?;
        Ok(Self {
            turns,
            _worker: worker,
        })
    }

    /// Calls GetInfo once on each connection, and returns how long each waited.
    pub fn get_info(&self, turn: Turn) -> Answers {
        let (sender, answers) = mpsc::channel();
        self.turns.send((turn, sender)).unwrap();
        answers.recv().unwrap()
    }
}

type Client = RegistrationClient<Channel>;

async fn connect(path: &Path, connections: usize) -> Result<Vec<Client>, Status> {
    let mut clients = Vec::with_capacity(connections);
    for number in 0..connections {
        let channel = channel::connect(path).await.map_err(|error| {
            Status::unavailable(format!(
                "connection {number} to {}: {error}",
                path.display()
            ))
        })?;
        clients.push(RegistrationClient::new(channel));
    }
    Ok(clients)
}

async fn answer(clients: Vec<Client>, mut turns: UnboundedReceiver<(Turn, mpsc::Sender<Answers>)>) {
    while let Some((turn, answers)) = turns.recv().await {
        let waits = match turn {
            Turn::OneByOne => one_by_one(&clients).await,
            Turn::AllAtOnce => all_at_once(&clients).await,
        };
        answers.send(waits).unwrap();
    }
}

async fn one_by_one(clients: &[Client]) -> Answers {
    let mut waits = Vec::with_capacity(clients.len());
    for client in clients {
        waits.push(ask(client.clone()).await?);
    }
    Ok(waits)
}

async fn all_at_once(clients: &[Client]) -> Answers {
    let mut asking: JoinSet<_> = clients.iter().cloned().map(ask).collect();
    let mut waits = Vec::with_capacity(clients.len());
    while let Some(wait) = asking.join_next().await {
        waits.push(wait.unwrap()?);
    }
    Ok(waits)
}

async fn ask(mut client: Client) -> Result<Duration, Status> {
    let asked = Instant::now();
    client.get_info(InfoRequest {}).await?;
    Ok(asked.elapsed())
}
