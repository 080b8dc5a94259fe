//! The journal: the ids of messages, and the fields of a driver's lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use bed::scene::{NAME, SOON};
use bed::{Registrar, is_root};

use crate::list::{about, keeps};
use crate::{PROGRAM, setup};

/// The fields that journald or tracing-journald define.
const STANDARD: [&str; 9] = [
    "MESSAGE",
    "MESSAGE_ID",
    "PRIORITY",
    "SYSLOG_IDENTIFIER",
    "TARGET",
    "CODE_FILE",
    "CODE_LINE",
    "CODE_MODULE",
    "THREAD_NAME",
];

/// A unit test compares the ids of the source with those of the catalog.
#[test]
fn every_promised_message_keeps_its_id() {
    let source = include_str!("../../src/systemd/journal.rs");
    let ids = source.lines().filter_map(|line| {
        let (name, id) = line
            .trim()
            .strip_prefix("pub(crate) const ")?
            .split_once(": &str = \"")?;
        Some(format!("{} {name}", id.strip_suffix("\";")?))
    });
    keeps("message", ids);
}

/// The fields of a datagram in journald's native format.
fn fields(mut datagram: &[u8]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    while let Some(end) = datagram.iter().position(|byte| *byte == b'\n') {
        let (line, rest) = (&datagram[..end], &datagram[end + 1..]);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        if let Some(equals) = line.iter().position(|byte| *byte == b'=') {
            fields.insert(text(&line[..equals]), text(&line[equals + 1..]));
            datagram = rest;
        } else {
            // A length of eight bytes, the value and a line feed.
            let (length, rest) = rest.split_at(8);
            let length = u64::from_le_bytes(length.try_into().unwrap());
            let (value, rest) = rest.split_at(usize::try_from(length).unwrap());
            fields.insert(text(line), text(value));
            datagram = &rest[1..];
        }
    }
    fields
}

/// The test plays journald, at its path in a mount namespace of the daemon.
#[test]
fn the_lines_of_a_registered_driver_have_the_promised_fields() {
    if !is_root("bind a directory over the journal's") {
        return;
    }
    let scene = setup().more("[log]\ntarget = \"journald\"\n").set();
    let shown = scene.node.root().join("journal");
    fs::create_dir(&shown).unwrap();
    let journal = UnixDatagram::bind(shown.join("socket")).unwrap();
    journal
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let script = format!(
        "exec unshare -m sh -c 'mount -t tmpfs none /run && mkdir -p /run/systemd/journal && mount --bind {} /run/systemd/journal && exec \"$@\"' sh \"$@\"",
        shown.display()
    );
    let mut registrar = Registrar::wrapped(PROGRAM, &scene.node, &script);
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    registrar.start();
    let mut names = BTreeSet::new();
    let mut datagram = vec![0; 1 << 16];
    let deadline = Instant::now() + SOON;
    let mut is_registered = false;
    while !is_registered {
        assert!(
            Instant::now() < deadline,
            "not registered; fields: {names:?}"
        );
        let Ok(length) = journal.recv(&mut datagram) else {
            continue;
        };
        let fields = fields(&datagram[..length]);
        if fields.get("DRIVER").is_some_and(|driver| driver == NAME) {
            is_registered = fields
                .get("PHASE")
                .is_some_and(|phase| phase == "registered");
            let id = fields.get("MESSAGE_ID").filter(|_| is_registered);
            let promised = id.map(|id| about("message").contains(&format!("{id} REGISTERED")));
            assert_ne!(promised, Some(false), "{fields:?}");
            names.extend(fields.into_keys());
        }
    }
    let ours = names
        .into_iter()
        .filter(|name| !STANDARD.contains(&&**name));
    keeps("field", ours);
}
