//! The follower: the statuses of a daemon that may restart meanwhile.

use std::path::Path;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use super::args::Args;
use super::client::socket;
use crate::api::control::{Client, ClientError};
use crate::grpc::proto::control::{Status, StatusRequest};
use crate::os::task::Task;

/// The pause before the next try to reach a daemon.
const RETRY: Duration = Duration::from_millis(100);

type News = Result<Status, ClientError>;

/// Asks the daemon for its statuses in a task, which tries again for as long as this value lives.
pub(super) struct Follower {
    news: mpsc::Receiver<News>,
    _task: Task,
}

impl Follower {
    pub(super) fn start(args: &Args, request: StatusRequest) -> Follower {
        let path = socket(args);
        let (sender, news) = mpsc::channel(1);
        let task = Task::spawn(async move {
            loop {
                // By its path each time: the runtime directory may have been recreated.
                if let Err(error) = follow(&path, request, &sender).await
                    && sender.send(Err(error)).await.is_err()
                {
                    return;
                }
                sleep(RETRY).await;
            }
        });
        Follower { news, _task: task }
    }

    /// The next status, or why the daemon does not answer. The end of a connection is no error if the
    /// daemon answers on the next connection.
    pub(super) async fn next(&mut self) -> News {
        let news = self.news.recv().await;
        news.expect("the task ends after its receiver only")
    }
}

/// Passes on the statuses of a connection until it ends; an error if no status comes.
async fn follow(
    path: &Path,
    request: StatusRequest,
    sender: &mpsc::Sender<News>,
) -> Result<(), ClientError> {
    let mut client = Client::connect(path).await?;
    let mut statuses = client.watch(request).await?;
    let mut status = statuses.next().await?;
    while sender.send(Ok(status)).await.is_ok() {
        match statuses.next().await {
            Ok(next) => status = next,
            Err(error) => {
                tracing::debug!(%error, "the daemon sends no more statuses");
                break;
            }
        }
    }
    Ok(())
}
