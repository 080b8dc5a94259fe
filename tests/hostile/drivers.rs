//! Drivers that accept and then talk without end, in drops or not at all: each waits for its own
//! fault, in bounded memory, and the driver beside it is registered meanwhile.

use std::time::Duration;

use bed::{Stranger, eventually, never};

use crate::scene::{NAME, OTHER, SOON, Scene};

/// A driver that breaks the rules is asked again within this, so that a test sees it.
const QUICK: &str = "[defaults]\nretry_max = \"50ms\"\nrequest_timeout = \"300ms\"\n";
/// KiB that the registrar may grow by.
const GROWTH: u64 = 16 * 1024;

/// An HTTP/2 server's SETTINGS.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// HEADERS of stream 1 that want a CONTINUATION: `:status: 200`.
const OPEN_HEADERS: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\0\0\0\0\x01\x88";
/// CONTINUATION of it: eight times `x: y`, not indexed.
const MORE_HEADERS: &[u8] = b"\0\0\x28\x09\0\0\0\0\x01\
    \0\x01x\x01y\0\x01x\x01y\0\x01x\x01y\0\x01x\x01y\0\x01x\x01y\0\x01x\x01y\0\x01x\x01y\0\x01x\x01y";
/// `:status: 200` and a gRPC content type on stream 1, and the head of a message of 4 GiB.
const HUGE_MESSAGE: &[u8] = b"\0\0\0\x04\0\0\0\0\0\
    \0\0\x14\x01\x04\0\0\0\x01\x88\x0f\x10\x10application/grpc\
    \0\0\x05\0\0\0\0\0\x01\0\xff\xff\xff\xff";
/// DATA of stream 1.
const MORE_DATA: &[u8] = b"\0\0\x10\0\0\0\0\0\x01sixteen bytes ok";

/// The driver at NAME is as `hostile` has it; the other one is registered, and the memory bounded.
#[track_caller]
fn borne(hostile: impl FnOnce(&Scene) -> Stranger) -> Scene {
    let scene = Scene::started(&[NAME, OTHER], QUICK);
    let stranger = hostile(&scene);
    let kubelet = scene.node.kubelet();
    eventually("it is asked again and again", SOON, || stranger.met() > 2);
    let before = scene.registrar.rss_kb();
    let _healthy = scene.node.driver(OTHER);
    kubelet.wait_registered(OTHER, SOON);
    scene.phase(OTHER, "registered");
    never("memory grows", Duration::from_secs(1), || {
        scene.registrar.rss_kb() > before + GROWTH
    });
    scene.wait_answered(OTHER);
    let status = scene.phase(NAME, "waiting-for-driver");
    assert_eq!(status.name, None);
    assert!(status.reason.is_some_and(|reason| !reason.is_empty()));
    scene
}

#[test]
fn a_driver_that_takes_the_call_and_says_nothing_runs_into_the_deadline() {
    borne(|scene| Stranger::silent(&scene.node.csi_socket(NAME)));
}

#[test]
fn a_driver_that_answers_in_drops_runs_into_the_deadline() {
    let pause = Duration::from_millis(200);
    borne(|scene| Stranger::dripping(&scene.node.csi_socket(NAME), HUGE_MESSAGE, pause));
}

#[test]
fn a_driver_whose_headers_never_end_fills_no_memory() {
    borne(|scene| Stranger::flooding(&scene.node.csi_socket(NAME), OPEN_HEADERS, MORE_HEADERS));
}

#[test]
fn a_driver_whose_message_never_ends_fills_no_memory() {
    borne(|scene| Stranger::flooding(&scene.node.csi_socket(NAME), HUGE_MESSAGE, MORE_DATA));
}

#[test]
fn a_driver_that_sends_settings_without_end_fills_no_memory() {
    borne(|scene| Stranger::flooding(&scene.node.csi_socket(NAME), SETTINGS, SETTINGS));
}

#[test]
fn a_driver_that_hangs_up_at_once_is_asked_again() {
    borne(|scene| Stranger::curt(&scene.node.csi_socket(NAME)));
}
