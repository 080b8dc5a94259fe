//! Drivers that accept a connection and then send without end, byte by byte or nothing: the registrar's
//! memory stays bounded, and the other driver is registered meanwhile.

use std::time::Duration;

use bed::scene::{NAME, OTHER, SOON};
use bed::{RawListener, Scene, eventually, never};

use crate::setup;

/// The registrar retries such a driver so soon that a test sees it.
const QUICK: &str = "[defaults]\nretry_max = \"50ms\"\nrequest_timeout = \"300ms\"\n";
/// KiB that the registrar may grow by.
const GROWTH: u64 = 16 * 1024;

/// An HTTP/2 server's SETTINGS.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// HEADERS of stream 1 that want a CONTINUATION: `:status: 200`.
const OPEN_HEADERS: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\0\0\0\0\x01\x88";
/// CONTINUATION of these headers: `x: y` again and again, not indexed.
static MORE_HEADERS: Frame = frame(9, b"\0\x01x\x01y");
/// `:status: 200` and a gRPC content type on stream 1, and the head of a message of 4 GiB.
const HUGE_MESSAGE: &[u8] = b"\0\0\0\x04\0\0\0\0\0\
    \0\0\x14\x01\x04\0\0\0\x01\x88\x0f\x10\x10application/grpc\
    \0\0\x05\0\0\0\0\0\x01\0\xff\xff\xff\xff";
/// DATA of stream 1.
static MORE_DATA: Frame = frame(0, b"fives");

/// About the largest frame: a buffer without a bound would soon hold hundreds of MiB.
const FRAME: usize = 16_380;
type Frame = [u8; 9 + FRAME];

/// A frame of stream 1 that repeats `words`.
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

/// The driver NAME behaves as `hostile` says, and the reason has these words; the other driver is
/// registered, and memory stays bounded.
#[track_caller]
fn borne(words: &str, hostile: impl FnOnce(&Scene) -> RawListener) {
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
        RawListener::silent(&scene.node.csi_socket(NAME))
    });
}

#[test]
fn a_driver_that_answers_in_drops_runs_into_the_deadline() {
    let pause = Duration::from_millis(200);
    borne("took longer than 300ms", |scene| {
        RawListener::dripping(&scene.node.csi_socket(NAME), HUGE_MESSAGE, pause)
    });
}

#[test]
fn a_driver_whose_headers_never_end_fills_no_memory() {
    borne("excessive load", |scene| {
        RawListener::flooding(&scene.node.csi_socket(NAME), OPEN_HEADERS, &MORE_HEADERS)
    });
}

#[test]
fn a_driver_whose_message_never_ends_fills_no_memory() {
    borne("GetPluginInfo failed", |scene| {
        RawListener::flooding(&scene.node.csi_socket(NAME), HUGE_MESSAGE, &MORE_DATA)
    });
}

#[test]
fn a_driver_that_sends_settings_without_end_fills_no_memory() {
    borne("took longer than 300ms", |scene| {
        RawListener::flooding(&scene.node.csi_socket(NAME), SETTINGS, SETTINGS)
    });
}

#[test]
fn a_driver_that_hangs_up_at_once_is_asked_again() {
    borne("csi.sock", |scene| {
        RawListener::curt(&scene.node.csi_socket(NAME))
    });
}
