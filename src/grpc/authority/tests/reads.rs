//! The stream delivers every byte once and in order, and holds no memory while it waits.

use std::io;
use std::pin::Pin;
use std::task::{Context, Waker};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, duplex};
use tokio::net::UnixStream;

use super::client::{RAW, conversation, get_info, request};
use super::server::compare;
use crate::grpc::authority::{AuthorityReader, adapted};

/// Reads to the end through a buffer of `size`.
async fn read_by(stream: &mut (impl AsyncRead + Unpin), size: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = vec![0; size];
    loop {
        match stream.read(&mut buffer).await.expect("no error") {
            0 => return all,
            read => all.extend_from_slice(&buffer[..read]),
        }
    }
}

#[tokio::test]
async fn every_size_of_buffer_reads_the_same_bytes() {
    let sent: Vec<_> = (0..40).map(|n| request(2 * n + 1, get_info(RAW))).collect();
    let bytes = conversation(&sent);
    for size in [1, 2, 7, 100, 4_096, 100_000] {
        for pipe in [1, 50, 100_000] {
            let (mut client, server) = duplex(pipe);
            let mut stream = AuthorityReader::new(server);
            let write = async {
                client.write_all(&bytes).await.expect("written");
                drop(client);
            };
            let (_, output) = tokio::join!(write, read_by(&mut stream, size));
            let blocks = compare(&bytes, &output);
            assert_eq!(blocks.lists.len(), 40, "buffer {size}, pipe {pipe}");
        }
    }
}

#[tokio::test]
async fn the_end_passes_even_within_a_frame() {
    let bytes = conversation(&[request(1, get_info(RAW))]);
    for length in [10, 24, 30, 33, 60] {
        let (mut client, server) = duplex(1_000);
        client.write_all(&bytes[..length]).await.expect("written");
        drop(client);
        let output = read_by(&mut AuthorityReader::new(server), 7).await;
        assert_eq!(output, bytes[..length], "{length} bytes");
    }
}

#[tokio::test]
async fn an_idle_connection_owns_no_buffer() {
    let bytes = conversation(&[request(1, get_info(RAW))]);
    let (mut client, server) = duplex(1_000);
    let mut stream = AuthorityReader::new(server);
    assert_eq!(stream.buffer.capacity(), 0);
    client.write_all(&bytes).await.expect("written");

    let mut output = [0; 10_000];
    assert!(stream.read(&mut output).await.expect("a request") > 0);
    let mut context = Context::from_waker(Waker::noop());
    let mut buffer = ReadBuf::new(&mut output);
    let idle = Pin::new(&mut stream).poll_read(&mut context, &mut buffer);
    assert!(idle.is_pending());
    assert_eq!(stream.buffer.capacity(), 0);
}

#[tokio::test]
async fn writes_go_straight_through() {
    let (mut client, server) = UnixStream::pair().expect("a connection");
    let mut stream = adapted(server);
    assert!(AsyncWrite::is_write_vectored(&stream));
    stream.write_all(b"one").await.expect("written");
    let two = [io::IoSlice::new(b"two"), io::IoSlice::new(b"three")];
    assert_eq!(stream.write_vectored(&two).await.expect("written"), 8);
    stream.flush().await.expect("flushed");
    stream.shutdown().await.expect("shut down");
    let mut output = String::new();
    client.read_to_string(&mut output).await.expect("read");
    assert_eq!(output, "onetwothree");
}
