//! What the registration service knows of one driver, and who is asking.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::disk::identity::Identity;
use crate::grpc::proto::registration::PluginInfo;
use crate::grpc::server::{Activity, Peer};

/// A kubelet that has asked may be at work for two minutes (NodeGetInfo) and write to the API.
const LONGEST_CALL: Duration = Duration::from_secs(150);
/// A connection that has just come is about to ask.
const ABOUT_TO_ASK: Duration = Duration::from_secs(1);

/// What callers tell.
#[derive(Debug)]
pub(crate) enum KubeletCall {
    /// Somebody asked who we are.
    KubeletAsking { pid: Option<u32> },
    /// A kubelet said how the registration went.
    Told(Box<Told>),
}

/// A kubelet's word, and how it came. The kubelet has its answer when `heard` is used or gone.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) outcome: Outcome,
    pub(crate) pid: Option<u32>,
    /// What the same caller was told when it asked who we are.
    pub(crate) asked: Option<KubeletAsking>,
    /// It asked on another connection, which it has closed.
    pub(crate) apart: bool,
    /// The caller is known to register links that are there when it starts.
    pub(crate) follows_links: bool,
    pub(crate) heard: oneshot::Sender<()>,
}

/// A question of who we are, and the answer to it.
#[derive(Debug)]
pub(crate) struct KubeletAsking {
    /// The link as it was then.
    pub(crate) through: Option<Identity>,
    pub(crate) told: PluginInfo,
}

/// A kubelet's word.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Registered,
    Rejected(String),
}

/// One driver's registration endpoint.
pub(crate) struct Endpoint {
    tell: Box<dyn Fn(KubeletCall) + Send + Sync>,
    /// An KubeletAsking is on its way; another would say nothing new.
    asked: AtomicBool,
    offer: Mutex<Option<PluginInfo>>,
    link: Mutex<Option<Identity>>,
    visits: Mutex<HashMap<u64, Progress>>,
    /// Who asked and hung up without a word of how it went. A kubelet may say that on a connection of
    /// its own.
    left: Mutex<Option<Left>>,
    next_visit: AtomicU64,
}

/// A caller that has asked, and has closed that connection.
struct Left {
    pid: Option<u32>,
    at: Instant,
    asked: KubeletAsking,
}

/// How far a caller has come.
enum Progress {
    Arrived(Instant),
    KubeletAsking(Instant, KubeletAsking),
    /// It has told how it went, and leaves when it has its answer.
    Told,
}

impl Endpoint {
    pub(crate) fn new(tell: impl Fn(KubeletCall) + Send + Sync + 'static) -> Endpoint {
        Endpoint {
            tell: Box::new(tell),
            asked: AtomicBool::new(false),
            offer: Mutex::default(),
            link: Mutex::default(),
            visits: Mutex::default(),
            left: Mutex::default(),
            next_visit: AtomicU64::new(0),
        }
    }

    /// Sets the answer to GetInfo; none while the driver does not answer.
    pub(crate) fn offer(&self, offer: Option<PluginInfo>) {
        *lock(&self.offer) = offer;
    }

    /// Notes the link that callers come through.
    pub(crate) fn link(&self, link: Option<Identity>) {
        *lock(&self.link) = link;
    }

    /// A call is in progress: GetInfo was answered on a connection that is still open, and how it
    /// went has not been told yet. Of those who hung up after GetInfo, only a process that
    /// `speaks_apart` will tell yet: anybody else may have asked, or lost the connection.
    pub(crate) fn is_calling(&self, speaks_apart: impl Fn(u32) -> bool) -> bool {
        let connected = lock(&self.visits).values().any(|progress| match progress {
            Progress::Arrived(at) => at.elapsed() < ABOUT_TO_ASK,
            Progress::KubeletAsking(at, _) => at.elapsed() < LONGEST_CALL,
            Progress::Told => false,
        });
        connected
            || lock(&self.left).as_ref().is_some_and(|left| {
                left.at.elapsed() < LONGEST_CALL && left.pid.is_some_and(speaks_apart)
            })
    }

    /// Somebody has asked who we are, and has not left yet.
    pub(crate) fn has_visitors(&self) -> bool {
        let visits = lock(&self.visits);
        let mut visits = visits.values();
        visits.any(|progress| !matches!(progress, Progress::Arrived(_)))
    }

    /// A kubelet refuses the driver.
    #[cfg(test)]
    pub(crate) fn refuse(&self, heard: oneshot::Sender<()>) {
        (self.tell)(KubeletCall::Told(Box::new(Told {
            outcome: Outcome::Rejected("no".to_owned()),
            pid: None,
            asked: None,
            apart: false,
            follows_links: true,
            heard,
        })));
    }

    /// The last KubeletAsking has been taken in.
    pub(crate) fn took_asked(&self) {
        self.asked.store(false, Ordering::Release);
    }
}

/// One connection to the endpoint, from its start to its end.
pub(crate) struct Session {
    endpoint: Arc<Endpoint>,
    id: u64,
    peer: Peer,
    busy: Activity,
}

impl Session {
    pub(crate) fn new(endpoint: Arc<Endpoint>, peer: Peer, busy: Activity) -> Session {
        let id = endpoint.next_visit.fetch_add(1, Ordering::Relaxed);
        lock(&endpoint.visits).insert(id, Progress::Arrived(Instant::now()));
        Session {
            endpoint,
            id,
            peer,
            busy,
        }
    }

    /// Answers who we are. The call counts as begun before the answer is out.
    pub(super) fn ask(&self) -> Option<PluginInfo> {
        self.busy.touch();
        let offer = lock(&self.endpoint.offer).clone()?;
        if let Some(progress @ Progress::Arrived(_)) = lock(&self.endpoint.visits).get_mut(&self.id)
        {
            let asked = KubeletAsking {
                through: lock(&self.endpoint.link).clone(),
                told: offer.clone(),
            };
            *progress = Progress::KubeletAsking(Instant::now(), asked);
        }
        if !self.endpoint.asked.swap(true, Ordering::AcqRel) {
            (self.endpoint.tell)(KubeletCall::KubeletAsking { pid: self.peer.pid });
        }
        Some(offer)
    }

    /// Passes on how it went; the receiver resolves when that has been written down.
    pub(super) fn tell(&self, outcome: Outcome, follows_links: bool) -> oneshot::Receiver<()> {
        self.busy.touch();
        let progress = lock(&self.endpoint.visits).insert(self.id, Progress::Told);
        // What it was told on another connection counts as if it had been this one.
        let left = lock(&self.endpoint.left).take_if(|left| left.pid == self.peer.pid);
        let (asked, apart) = match (progress, left) {
            (Some(Progress::KubeletAsking(_, asked)), _) => (Some(asked), false),
            (_, Some(left)) => (Some(left.asked), true),
            (_, None) => (None, false),
        };
        let (heard, written) = oneshot::channel();
        let pid = self.peer.pid;
        (self.endpoint.tell)(KubeletCall::Told(Box::new(Told {
            outcome,
            pid,
            asked,
            apart,
            follows_links,
            heard,
        })));
        written
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let progress = lock(&self.endpoint.visits).remove(&self.id);
        if let Some(Progress::KubeletAsking(at, asked)) = progress {
            let pid = self.peer.pid;
            *lock(&self.endpoint.left) = Some(Left { pid, at, asked });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
