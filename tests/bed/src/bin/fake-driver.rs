//! The fake driver for manual use and as a service: `fake-driver SOCKET NAME [NODE_ID]`, until killed.

use bed::driver::{Behaviour, FakeDriver};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(socket), Some(name)) = (arguments.next(), arguments.next()) else {
        panic!("usage: fake-driver SOCKET NAME [NODE_ID]");
    };
    let mut behaviour = Behaviour::named(name);
    if let Some(node_id) = arguments.next() {
        behaviour.node_id = node_id;
    }
    let _driver = FakeDriver::start_in_new_directory(socket, behaviour);
    loop {
        std::thread::park();
    }
}
