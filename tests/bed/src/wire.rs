//! Single calls of a kubelet to a registration socket.
//!
//! tonic sends `localhost` as the authority. Real kubelets send the socket's path; the foreign kubelets
//! in tests/ do so.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tonic::Status;
use tonic::transport::Channel;

use crate::channel;
use crate::proto::registration::registration_client::RegistrationClient;
use crate::proto::registration::{InfoRequest, PluginInfo, RegistrationStatus};
use crate::worker::Worker;

const DEADLINE: Duration = Duration::from_secs(5);

/// One connection to a registration socket, open until it is dropped.
pub struct RegistrationCall {
    questions: UnboundedSender<Question>,
    _worker: Worker,
}

enum Question {
    GetInfo(mpsc::Sender<Result<PluginInfo, Status>>),
    Notify(RegistrationStatus, mpsc::Sender<Result<(), Status>>),
}

/// GetInfo on a new connection.
pub fn get_info(path: &Path) -> Result<PluginInfo, Status> {
    RegistrationCall::open(path)?.get_info()
}

/// NotifyRegistrationStatus on a new connection; an error text means that the driver was not
/// registered.
pub fn notify(path: &Path, error: Option<&str>) -> Result<(), Status> {
    RegistrationCall::open(path)?.notify(error)
}

impl RegistrationCall {
    /// Connects.
    pub fn open(path: &Path) -> Result<Self, Status> {
        let (connected, result) = mpsc::channel();
        let (questions, asked) = unbounded_channel();
        let path = PathBuf::from(path);
        let worker = Worker::spawn("kubelet-call", move || async move {
            match channel::connect(&path).await {
                Ok(channel) => {
                    connected.send(Ok(())).unwrap();
                    answer(RegistrationClient::new(channel), asked).await;
                }
                Err(error) => {
                    let text = format!("connect {}: {error}", path.display());
                    connected.send(Err(Status::unavailable(text))).unwrap();
                }
            }
        });
        result.recv().unwrap()?;
        Ok(Self {
            questions,
            _worker: worker,
        })
    }

    /// GetInfo.
    pub fn get_info(&self) -> Result<PluginInfo, Status> {
        self.ask(Question::GetInfo)
    }

    /// NotifyRegistrationStatus; an error text means that the driver was not registered.
    pub fn notify(&self, error: Option<&str>) -> Result<(), Status> {
        let status = RegistrationStatus {
            plugin_registered: error.is_none(),
            error: error.unwrap_or_default().to_owned(),
        };
        self.ask(|answer| Question::Notify(status, answer))
    }

    fn ask<T>(
        &self,
        question: impl FnOnce(mpsc::Sender<Result<T, Status>>) -> Question,
    ) -> Result<T, Status> {
        let (sender, answer) = mpsc::channel();
        self.questions.send(question(sender)).unwrap();
        answer.recv().unwrap()
    }
}

async fn answer(
    mut client: RegistrationClient<Channel>,
    mut questions: UnboundedReceiver<Question>,
) {
    while let Some(question) = questions.recv().await {
        match question {
            Question::GetInfo(answer) => {
                let info = within(client.get_info(InfoRequest {})).await;
                answer.send(info).unwrap();
            }
            Question::Notify(status, answer) => {
                let told = within(client.notify_registration_status(status)).await;
                answer.send(told.map(drop)).unwrap();
            }
        }
    }
}

async fn within<T>(
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Status> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(response) => response.map(tonic::Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded(format!(
            "no answer in {DEADLINE:?}"
        ))),
    }
}
