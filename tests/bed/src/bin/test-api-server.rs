//! The test API server as a process, for tests in containers, until it is killed:
//!
//! `test-api-server --state=FILE --kubeconfig=PATH [--node=NAME] [--port=PORT]`
//!
//! FILE has the objects and faults as JSON (the keys of `State`), and is read again for each request. The
//! kubeconfig is that of the node's kubelet. Each request is a line of JSON on stdout.

use std::path::Path;

use bed::ApiServer;

fn main() {
    let state = flag("--state=").expect("--state=FILE is missing");
    let kubeconfig = flag("--kubeconfig=").expect("--kubeconfig=PATH is missing");
    let node = flag("--node=").unwrap_or_else(|| "node-1".to_owned());
    let port = flag("--port=").map_or(0, |port| port.parse().unwrap());
    let server = ApiServer::with_state_file(&node, port, Path::new(&state), |request| {
        println!("{}", serde_json::to_string(request).unwrap());
    });
    server.kubeconfig().write_as(Path::new(&kubeconfig));
    loop {
        std::thread::park();
    }
}

fn flag(name: &str) -> Option<String> {
    std::env::args().find_map(|argument| argument.strip_prefix(name).map(str::to_owned))
}
