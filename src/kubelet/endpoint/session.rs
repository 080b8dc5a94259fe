//! A driver's registration endpoint, and the sessions of the kubelets that call it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::disk::identity::Identity;
use crate::grpc::proto::registration::PluginInfo;
use crate::grpc::server::Activity;
use crate::os::peer::Peer;

/// After GetInfo a kubelet may take two minutes for NodeGetInfo, and then writes to the API server.
const LONGEST_CALL: Duration = Duration::from_secs(150);
/// A new connection is about to call GetInfo.
const ABOUT_TO_ASK: Duration = Duration::from_secs(1);

/// A call of the registration service.
#[derive(Debug)]
pub(crate) enum KubeletCall {
    /// GetInfo; any process may call it.
    GetInfo,
    /// NotifyRegistrationStatus.
    Notify(Box<Notification>),
}

/// NotifyRegistrationStatus, and how it came. The kubelet gets its answer when `heard` is used or
/// dropped.
#[derive(Debug)]
pub(crate) struct Notification {
    pub(crate) outcome: Outcome,
    pub(crate) pid: Option<u32>,
    /// The GetInfo call of the same process.
    pub(crate) asked: Option<GetInfoCall>,
    /// GetInfo came on another connection, which the process has closed.
    pub(crate) apart: bool,
    pub(crate) heard: oneshot::Sender<()>,
}

/// A GetInfo call and its answer.
#[derive(Debug)]
pub(crate) struct GetInfoCall {
    /// The link at the time of the call.
    pub(crate) through: Option<Identity>,
    pub(crate) told: PluginInfo,
}

/// How a registration went, as the kubelet reports it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Registered,
    Rejected(String),
}

/// The registration endpoint of a driver.
pub(crate) struct Endpoint {
    tell: Box<dyn Fn(KubeletCall) + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The answer to GetInfo.
    offer: Option<PluginInfo>,
    /// The link that callers come through.
    link: Option<Identity>,
    sessions: HashMap<u64, Progress>,
    last_session: u64,
    /// A report of GetInfo is on its way; another would add nothing.
    asked: bool,
    /// The last session that ended after GetInfo and without NotifyRegistrationStatus. A kubelet
    /// may send that on another connection.
    unfinished: Option<Unfinished>,
}

struct Unfinished {
    pid: Option<u32>,
    at: Instant,
    asked: GetInfoCall,
}

/// The calls that a session has made.
enum Progress {
    Connected(Instant),
    Asked(Instant, GetInfoCall),
    /// The kubelet has sent NotifyRegistrationStatus, and leaves when it has its answer.
    Notified,
}

/// A connection to the endpoint, from its start to its end.
pub(crate) struct Session {
    endpoint: Arc<Endpoint>,
    id: u64,
    peer: Peer,
    activity: Activity,
}

impl Endpoint {
    pub(crate) fn new(tell: impl Fn(KubeletCall) + Send + Sync + 'static) -> Endpoint {
        Endpoint {
            tell: Box::new(tell),
            state: Mutex::default(),
        }
    }

    /// Sets the answer to GetInfo; none while the driver does not answer.
    pub(crate) fn offer(&self, offer: Option<PluginInfo>) {
        self.lock().offer = offer;
    }

    /// Sets the link that callers come through.
    pub(crate) fn link(&self, link: Option<Identity>) {
        self.lock().link = link;
    }

    /// A registration is in progress: GetInfo was answered on a connection that is still open, and
    /// NotifyRegistrationStatus has not come yet. Of the processes that closed the connection after
    /// GetInfo, only a process that `speaks_apart` still sends it: any other process may have
    /// called GetInfo, or lost its connection.
    pub(crate) fn is_calling(&self, speaks_apart: impl Fn(u32) -> bool) -> bool {
        let state = self.lock();
        let mut sessions = state.sessions.values();
        let is_calling = |progress: &Progress| match progress {
            Progress::Connected(at) => at.elapsed() < ABOUT_TO_ASK,
            Progress::Asked(at, _) => at.elapsed() < LONGEST_CALL,
            Progress::Notified => false,
        };
        let is_unfinished = |left: &Unfinished| {
            left.at.elapsed() < LONGEST_CALL && left.pid.is_some_and(&speaks_apart)
        };
        sessions.any(is_calling) || state.unfinished.as_ref().is_some_and(is_unfinished)
    }

    /// A session is open that has made a call.
    pub(crate) fn has_sessions(&self) -> bool {
        let state = self.lock();
        let mut sessions = state.sessions.values();
        sessions.any(|progress| !matches!(progress, Progress::Connected(_)))
    }

    /// A kubelet rejects the driver.
    #[cfg(test)]
    pub(crate) fn refuse(&self, heard: oneshot::Sender<()>) {
        (self.tell)(KubeletCall::Notify(Box::new(Notification {
            outcome: Outcome::Rejected("no".to_owned()),
            pid: None,
            asked: None,
            apart: false,
            heard,
        })));
    }

    /// The supervisor has taken the last report of GetInfo.
    pub(crate) fn took_asked(&self) {
        self.lock().asked = false;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    pub(crate) fn new(endpoint: Arc<Endpoint>, peer: Peer, activity: Activity) -> Session {
        let mut state = endpoint.lock();
        state.last_session += 1;
        let id = state.last_session;
        let connected = Progress::Connected(Instant::now());
        state.sessions.insert(id, connected);
        drop(state);
        Session {
            endpoint,
            id,
            peer,
            activity,
        }
    }

    /// Answers GetInfo. The call counts as begun before the answer is sent.
    pub(super) fn ask(&self) -> Option<PluginInfo> {
        self.activity.touch();
        let mut state = self.endpoint.lock();
        let offer = state.offer.clone()?;
        let asked = GetInfoCall {
            through: state.link.clone(),
            told: offer.clone(),
        };
        if let Some(progress @ Progress::Connected(_)) = state.sessions.get_mut(&self.id) {
            *progress = Progress::Asked(Instant::now(), asked);
        }
        let is_reported = std::mem::replace(&mut state.asked, true);
        drop(state);
        if !is_reported {
            (self.endpoint.tell)(KubeletCall::GetInfo);
        }
        Some(offer)
    }

    /// Passes the outcome on; the receiver resolves when the state file has it.
    pub(super) fn tell(&self, outcome: Outcome) -> oneshot::Receiver<()> {
        self.activity.touch();
        let pid = self.peer.pid;
        let mut state = self.endpoint.lock();
        let progress = state.sessions.insert(self.id, Progress::Notified);
        // A GetInfo on another connection counts as if it had come on this connection.
        let unfinished = state.unfinished.take_if(|left| left.pid == pid);
        drop(state);
        let (asked, apart) = match (progress, unfinished) {
            (Some(Progress::Asked(_, asked)), _) => (Some(asked), false),
            (_, Some(left)) => (Some(left.asked), true),
            (_, None) => (None, false),
        };
        let (heard, written) = oneshot::channel();
        (self.endpoint.tell)(KubeletCall::Notify(Box::new(Notification {
            outcome,
            pid,
            asked,
            apart,
            heard,
        })));
        written
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut state = self.endpoint.lock();
        if let Some(Progress::Asked(at, asked)) = state.sessions.remove(&self.id) {
            let pid = self.peer.pid;
            state.unfinished = Some(Unfinished { pid, at, asked });
        }
    }
}
