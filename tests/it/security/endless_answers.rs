//! Drivers that accept and then talk without end, in drops or not at all: each waits for its own
//! fault, in bounded memory, and the driver beside it is registered meanwhile.

use std::time::Duration;

use bed::scene::{NAME, OTHER, SOON};
use bed::{Scene, Stranger, eventually, never};

use crate::setup;

/// A driver that breaks the rules is asked again within this, so that a test sees it.
const QUICK: &str = "[defaults]\nretry_max = \"50ms\"\nrequest_timeout = \"300ms\"\n";
/// KiB that the registrar may grow by.
const GROWTH: u64 = 16 * 1024;

/// An HTTP/2 server's SETTINGS.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// HEADERS of stream 1 that want a CONTINUATION: `:status: 200`.
const OPEN_HEADERS: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\0\0\0\0\x01\x88";
/// CONTINUATION of it: `x: y` again and again, not indexed.
static MORE_HEADERS: Frame = frame(9, b"\0\x01x\x01y");
/// `:status: 200` and a gRPC content type on stream 1, and the head of a message of 4 GiB.
const HUGE_MESSAGE: &[u8] = b"\0\0\0\x04\0\0\0\0\0\
    \0\0\x14\x01\x04\0\0\0\x01\x88\x0f\x10\x10application/grpc\
    \0\0\x05\0\0\0\0\0\x01\0\xff\xff\xff\xff";
/// DATA of stream 1.
static MORE_DATA: Frame = frame(0, b"fives");

/// About as large as one may be: a buffer without a bound would hold hundreds of MiB in no time.
const FRAME: usize = 16_380;
type Frame = [u8; 9 + FRAME];

/// A frame of stream 1 that says `words` again and again.
const fn frame(kind: u8, words: &[u8]) -> Frame {
    let mut frame = [0; 9 + FRAME];
    [_, frame[1], frame[2]] = [0, (FRAME >> 8) as u8, FRAME as u8];
    frame[3] = kind;
    frame[8] = 1;
    let mut place = 0;
    while place < FRAME {
        frame[9 + place] = words[place % words.len()];
        place += 1;
    }
    frame
}

/// The driver at NAME is as `hostile` has it, which the reason says in these words; the other one is
/// registered, and the memory bounded.
#[track_caller]
fn borne(words: &str, hostile: impl FnOnce(&Scene) -> Stranger) {
    let scene = setup().drivers(&[NAME, OTHER]).http().more(QUICK).started();
    scene.phase(NAME, "waiting-for-driver");
    let before = scene.registrar.rss_kb();
    let stranger = hostile(&scene);
    let kubelet = scene.node.kubelet();
    eventually("it is asked again and again", SOON, || stranger.met() > 2);
    let _healthy = scene.node.driver(OTHER);
    kubelet.wait_registered(OTHER, SOON);
    scene.phase(OTHER, "registered");
    never("memory grows", Duration::from_secs(1), || {
        scene.registrar.rss_kb() > before + GROWTH
    });
    scene.wait_answered(OTHER);
    let status = scene
        .registrar
        .wait_reason(NAME, "waiting-for-driver", words, SOON);
    assert_eq!(status.name, None);
}

#[test]
fn a_driver_that_takes_the_call_and_says_nothing_runs_into_the_deadline() {
    borne("took longer than 300ms", |scene| {
        Stranger::silent(&scene.node.csi_socket(NAME))
    });
}

#[test]
fn a_driver_that_answers_in_drops_runs_into_the_deadline() {
    let pause = Duration::from_millis(200);
    borne("took longer than 300ms", |scene| {
        Stranger::dripping(&scene.node.csi_socket(NAME), HUGE_MESSAGE, pause)
    });
}

#[test]
fn a_driver_whose_headers_never_end_fills_no_memory() {
    borne("excessive load", |scene| {
        Stranger::flooding(&scene.node.csi_socket(NAME), OPEN_HEADERS, &MORE_HEADERS)
    });
}

#[test]
fn a_driver_whose_message_never_ends_fills_no_memory() {
    borne("GetPluginInfo failed", |scene| {
        Stranger::flooding(&scene.node.csi_socket(NAME), HUGE_MESSAGE, &MORE_DATA)
    });
}

#[test]
fn a_driver_that_sends_settings_without_end_fills_no_memory() {
    borne("took longer than 300ms", |scene| {
        Stranger::flooding(&scene.node.csi_socket(NAME), SETTINGS, SETTINGS)
    });
}

#[test]
fn a_driver_that_hangs_up_at_once_is_asked_again() {
    borne("csi.sock", |scene| {
        Stranger::curt(&scene.node.csi_socket(NAME))
    });
}
