//! The stream delivers every byte once and in order, and holds no memory while it waits.

use std::io;
use std::pin::Pin;
use std::task::{Context, Waker};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, duplex};
use tokio::net::UnixStream;

use super::client::{END_HEADERS, HEADERS, PING, RAW, conversation, frame, get_info, request};
use super::server::{expected, read};
use crate::grpc::authority::{adapted, malformed::Malformed, reader::AuthorityReader};

/// Reads to the end through a buffer of `size`.
async fn read_by(stream: &mut (impl AsyncRead + Unpin), size: usize) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut buffer = vec![0; size];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(all),
            read => all.extend_from_slice(&buffer[..read]),
        }
    }
}

#[tokio::test]
async fn every_size_of_buffer_reads_the_same_bytes() {
    let sent: Vec<_> = (0..40).map(|n| request(2 * n + 1, get_info(RAW))).collect();
    let bytes = conversation(&sent);
    let wanted: Vec<_> = sent.iter().map(expected).collect();
    for size in [1, 2, 7, 100, 4_096, 100_000] {
        for pipe in [1, 50, 100_000] {
            let (mut client, server) = duplex(pipe);
            let mut stream = AuthorityReader::new(server);
            let write = async {
                client.write_all(&bytes).await.expect("written");
                drop(client);
            };
            let (_, output) = tokio::join!(write, read_by(&mut stream, size));
            let output = output.expect("well-formed");
            assert_eq!(read(&output), wanted, "buffer {size}, pipe {pipe}");
        }
    }
}

#[tokio::test]
async fn large_lists_from_small_requests_arrive_whole() {
    let mut fields = vec![0x40, 1, b'x', 0x7f, 0xa1, 0x1e];
    fields.extend([b'v'; 4_000]);
    let mut bytes = conversation(&[]);
    bytes.extend(frame(HEADERS, END_HEADERS, 1, &fields));
    for _ in 0..200 {
        bytes.extend(frame(HEADERS, END_HEADERS, 1, &[0xbe; 4]));
    }
    let (mut client, server) = duplex(bytes.len());
    client.write_all(&bytes).await.expect("written");
    drop(client);
    let output = read_by(&mut AuthorityReader::new(server), 1_000).await;
    assert_eq!(read(&output.expect("well-formed")).len(), 201);
}

#[tokio::test]
async fn a_fault_is_told_after_what_came_before_it_and_for_ever() {
    let mut bytes = conversation(&[]);
    bytes.extend(frame(PING, 0, 0, b"12345678"));
    let before = bytes.len();
    bytes.extend(frame(HEADERS, END_HEADERS, 0, &[]));
    let (mut client, server) = duplex(1_000);
    client.write_all(&bytes).await.expect("written");

    let mut stream = AuthorityReader::new(server);
    let mut output = vec![0; before];
    stream
        .read_exact(&mut output)
        .await
        .expect("what came before");
    assert_eq!(output, bytes[..before]);
    for _ in 0..3 {
        let error = stream.read(&mut output).await.expect_err("malformed");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let source = error.get_ref().and_then(|source| source.downcast_ref());
        assert_eq!(source, Some(&Malformed::HeadersOnStreamZero));
    }
}

#[tokio::test]
async fn the_end_passes_even_within_a_frame() {
    let bytes = conversation(&[request(1, get_info(RAW))]);
    let (mut client, server) = duplex(1_000);
    client.write_all(&bytes[..60]).await.expect("written");
    drop(client);
    let mut stream = AuthorityReader::new(server);
    let output = read_by(&mut stream, 100).await.expect("an end, no error");
    assert_eq!(output, conversation(&[]));
}

#[tokio::test]
async fn an_idle_connection_owns_no_buffer() {
    let bytes = conversation(&[request(1, get_info(RAW))]);
    let (mut client, server) = duplex(1_000);
    let mut stream = AuthorityReader::new(server);
    assert_eq!(stream.buffered(), 0);
    client.write_all(&bytes).await.expect("written");

    let mut output = [0; 10_000];
    assert!(stream.read(&mut output).await.expect("a request") > 0);
    let mut context = Context::from_waker(Waker::noop());
    let mut buffer = ReadBuf::new(&mut output);
    let idle = Pin::new(&mut stream).poll_read(&mut context, &mut buffer);
    assert!(idle.is_pending());
    assert_eq!(stream.buffered(), 0);
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
