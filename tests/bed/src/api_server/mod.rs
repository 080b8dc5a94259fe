//! An API server with the objects of one node: HTTPS, authentication, the Node authorizer's answers, and
//! faults.
//!
//! For what a real API server cannot be made to do. It answers GET of the CSINode, the Node and CSIDrivers, and
//! SelfSubjectReview; it watches nothing and writes nothing.

mod answer;
mod fault;
mod identity;
mod kubeconfig;
mod listener;
mod objects;
mod pki;
mod request;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

pub use fault::{Door, Fault};
pub use identity::ClientCertificate;
pub use kubeconfig::{Authority, Credentials, Kubeconfig, Paths};
pub use objects::{ListedDriver, State, csi_driver, csi_node, node};
pub use request::Request;

use crate::kubelet::Cluster;
use crate::worker::Worker;
use identity::Identities;
use pki::CertificateAuthority;

/// An API server that runs until it is dropped.
pub struct ApiServer {
    address: SocketAddr,
    node: String,
    shared: Arc<Shared>,
    _worker: Worker,
}

/// Shared by the handle and the serving thread.
struct Shared {
    state: Mutex<State>,
    /// The file that has the state, if a test edits one.
    file: Option<PathBuf>,
    identities: Mutex<Identities>,
    requests: Mutex<Vec<Request>>,
    log: fn(&Request),
    authority: CertificateAuthority,
    /// No client trusts it.
    other_authority: CertificateAuthority,
}

impl ApiServer {
    /// Starts it on a free port with a CSINode and a Node of this name, which have no driver.
    pub fn start(node: &str) -> Self {
        Self::serve(node, 0, State::of(node), None, |_| {})
    }

    /// Starts it on this port, with a state that it reads from the file again for each request. It passes each
    /// request to `log`.
    pub fn with_state_file(node: &str, port: u16, file: &Path, log: fn(&Request)) -> Self {
        Self::serve(node, port, State::of(node), Some(file.to_owned()), log)
    }

    fn serve(
        node: &str,
        port: u16,
        state: State,
        file: Option<PathBuf>,
        log: fn(&Request),
    ) -> Self {
        // Here and not on the thread: when this returns, connect() succeeds.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            file,
            identities: Mutex::default(),
            requests: Mutex::default(),
            log,
            authority: CertificateAuthority::new(),
            other_authority: CertificateAuthority::new(),
        });
        let worker = Arc::clone(&shared);
        let _worker = Worker::spawn("api-server", move || listener::serve(listener, worker));
        Self {
            address,
            node: node.to_owned(),
            shared,
            _worker,
        }
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL, as a kubeconfig has it.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The name of the Node.
    pub fn node_name(&self) -> &str {
        &self.node
    }

    /// The certificate of the CA that signed its own certificate, as PEM.
    pub fn ca_pem(&self) -> String {
        self.shared.authority.pem()
    }

    /// The present objects and faults.
    pub fn state(&self) -> State {
        self.shared.state()
    }

    /// Changes objects or faults; the next request sees it.
    pub fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.state.lock().unwrap());
    }

    /// Makes CSINode and Node what a kubelet has written, with the uids that they have. A missing CSINode is
    /// created for the first driver; a missing Node stays missing.
    pub fn mirror(&self, cluster: &Cluster) {
        self.change(|state| state.mirror(&self.node, cluster));
    }

    /// Answers each request whose path begins so in this way, until [`Self::heal`]. The longest beginning counts.
    pub fn fault(&self, path: &str, fault: Fault) {
        self.change(|state| drop(state.faults.insert(path.to_owned(), fault)));
    }

    /// Treats each new connection so, until [`Self::heal`].
    pub fn door(&self, door: Door) {
        self.change(|state| state.door = door);
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.change(|state| {
            state.faults.clear();
            state.door = Door::Open;
        });
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// The requests since the last call.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut *self.shared.requests.lock().unwrap())
    }

    /// The user name of this node's kubelet.
    pub fn kubelet_user(&self) -> String {
        format!("system:node:{}", self.node)
    }

    /// A new client certificate of its CA; it counts until [`Self::revoke`].
    pub fn issue(&self, user: &str) -> ClientCertificate {
        let (certificate, der) = self.shared.authority.client(user);
        self.identities().add_certificate(der, user);
        certificate
    }

    /// A new bearer token; it counts until [`Self::revoke`].
    pub fn token(&self, user: &str) -> String {
        self.identities().add_token(user)
    }

    /// From now on no certificate and no token that it gave out counts: 401.
    pub fn revoke(&self) {
        *self.identities() = Identities::default();
    }

    /// A kubeconfig for this node's kubelet, with an inline client certificate unless the test chooses another
    /// style.
    pub fn kubeconfig(&self) -> Kubeconfig<'_> {
        Kubeconfig::new(self)
    }

    fn identities(&self) -> MutexGuard<'_, Identities> {
        self.shared.identities.lock().unwrap()
    }
}

impl Shared {
    fn state(&self) -> State {
        let mut state = self.state.lock().unwrap();
        // A test that edits the file may not have written all of it yet: the old state counts until then.
        if let Some(file) = &self.file
            && let Ok(text) = fs::read(file)
        {
            match serde_json::from_slice(&text) {
                Ok(read) => *state = read,
                Err(error) => eprintln!("{}: {error}", file.display()),
            }
        }
        state.clone()
    }

    fn record(&self, request: Request) {
        (self.log)(&request);
        self.requests.lock().unwrap().push(request);
    }
}
