//! The few D-Bus messages that we need, spoken to systemd itself.
//!
//! systemd listens on a private socket for root, also while the bus daemon is down, as it is at
//! shutdown. Two kinds of calls with string and integer arguments are all that is needed; a D-Bus
//! library would be a third of the binary.

#[cfg(test)]
mod fuzz;

use std::io;
use std::path::Path;
use std::time::Duration;

use nix::unistd::getuid;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

pub(super) const PRIVATE_SOCKET: &str = "/run/systemd/private";
const LARGEST_REPLY: usize = 64 * 1024;
/// Fixed part of a message's head.
const HEAD: usize = 16;

const METHOD_CALL: u8 = 1;
const METHOD_RETURN: u8 = 2;
const ERROR: u8 = 3;

/// A flag of a message.
const NO_REPLY_EXPECTED: u8 = 1;
/// How long an answer may take before systemd is reminded.
const NUDGE: Duration = Duration::from_millis(30);

/// Why systemd did not answer.
#[derive(Debug, Error)]
pub(crate) enum BusError {
    #[error("cannot speak to {PRIVATE_SOCKET}: {0}")]
    Io(#[from] io::Error),
    #[error("systemd does not let us in: {0:?}")]
    Refused(String),
    #[error("systemd answered with an error to {0}")]
    Error(&'static str),
    #[error("systemd's answer to {0} cannot be read")]
    Malformed(&'static str),
}

/// A connection to systemd.
pub(crate) struct Bus {
    stream: UnixStream,
    /// What has come and was not taken yet.
    received: Vec<u8>,
    serial: u32,
}

/// A method call.
struct MethodCall<'a> {
    path: &'a str,
    interface: &'static str,
    member: &'static str,
    signature: &'static str,
    body: Vec<u8>,
}

impl Bus {
    pub(crate) async fn connect(path: &Path) -> Result<Bus, BusError> {
        let mut stream = UnixStream::connect(path).await?;
        let uid: String = getuid()
            .to_string()
            .bytes()
            .map(|digit| format!("{digit:02x}"))
            .collect();
        stream
            .write_all(format!("\0AUTH EXTERNAL {uid}\r\n").as_bytes())
            .await?;
        let answer = read_line(&mut stream).await?;
        if !answer.starts_with("OK ") {
            return Err(BusError::Refused(answer));
        }
        stream.write_all(b"BEGIN\r\n").await?;
        Ok(Bus {
            stream,
            received: Vec::new(),
            serial: 0,
        })
    }

    /// The object of the unit that a process belongs to.
    pub(crate) async fn unit_of(&mut self, pid: u32) -> Result<String, BusError> {
        let call = MethodCall {
            path: "/org/freedesktop/systemd1",
            interface: "org.freedesktop.systemd1.Manager",
            member: "GetUnitByPID",
            signature: "u",
            body: pid.to_le_bytes().to_vec(),
        };
        let reply = self.call(&call).await?;
        Reader::new(&reply)
            .string()
            .ok_or(BusError::Malformed("GetUnitByPID"))
    }

    /// A property that is a string.
    pub(crate) async fn text(
        &mut self,
        path: &str,
        interface: &str,
        name: &'static str,
    ) -> Result<String, BusError> {
        let reply = self.get(path, interface, name).await?;
        let mut reader = Reader::new(&reply);
        reader
            .signature("s")
            .and_then(|()| reader.string())
            .ok_or(BusError::Malformed(name))
    }

    /// The main process of a service, by the service's name; zero for none.
    pub(crate) async fn main_pid(&mut self, service: &str) -> Result<u32, BusError> {
        let unit = format!("/org/freedesktop/systemd1/unit/{}", escaped(service));
        let name = "MainPID";
        let reply = self
            .get(&unit, "org.freedesktop.systemd1.Service", name)
            .await?;
        let mut reader = Reader::new(&reply);
        reader
            .signature("u")
            .and_then(|()| reader.number())
            .ok_or(BusError::Malformed(name))
    }

    /// The job of a unit: its number, zero for none, and its object.
    pub(crate) async fn job(&mut self, unit: &str) -> Result<(u32, String), BusError> {
        let reply = self
            .get(unit, "org.freedesktop.systemd1.Unit", "Job")
            .await?;
        let mut reader = Reader::new(&reply);
        let job = reader.signature("(uo)").and_then(|()| {
            reader.align(8);
            Some((reader.number()?, reader.string()?))
        });
        job.ok_or(BusError::Malformed("Job"))
    }

    async fn get(
        &mut self,
        path: &str,
        interface: &str,
        name: &'static str,
    ) -> Result<Vec<u8>, BusError> {
        let mut body = Vec::new();
        put_string(&mut body, interface);
        put_string(&mut body, name);
        let call = MethodCall {
            path,
            interface: "org.freedesktop.DBus.Properties",
            member: "Get",
            signature: "ss",
            body,
        };
        self.call(&call).await
    }

    /// Sends a call and gives the body of its reply.
    async fn call(&mut self, call: &MethodCall<'_>) -> Result<Vec<u8>, BusError> {
        self.serial += 1;
        self.stream.write_all(&call.encode(self.serial)).await?;
        loop {
            let head = self.take(HEAD).await?;
            let mut reader = Reader::new(&head);
            reader.at = 4;
            let lengths = reader
                .number()
                .zip(reader.number().and_then(|_serial| reader.number()));
            let (body, fields) = lengths.ok_or(BusError::Malformed(call.member))?;
            let (body, fields) = (body as usize, (fields as usize).next_multiple_of(8));
            if head[0] != b'l' || body > LARGEST_REPLY || fields > LARGEST_REPLY {
                return Err(BusError::Malformed(call.member));
            }
            let mut rest = self.take(fields + body).await?;
            match head[1] {
                METHOD_RETURN => return Ok(rest.split_off(fields)),
                ERROR => return Err(BusError::Error(call.member)),
                // A signal that somebody else asked for.
                _ => {}
            }
        }
    }
}

impl Bus {
    /// The next `length` bytes of what systemd says.
    ///
    /// systemd reads what follows BEGIN in one go with it, and then looks at it only when more
    /// comes: seen on 252 and 257. A ping that wants no reply is more.
    async fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.received.len() < length {
            match timeout(NUDGE, self.stream.read_buf(&mut self.received)).await {
                Ok(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => drop(read?),
                Err(_) => self.nudge().await?,
            }
        }
        let rest = self.received.split_off(length);
        Ok(std::mem::replace(&mut self.received, rest))
    }

    async fn nudge(&mut self) -> io::Result<()> {
        self.serial += 1;
        let ping = MethodCall {
            path: "/",
            interface: "org.freedesktop.DBus.Peer",
            member: "Ping",
            signature: "",
            body: Vec::new(),
        };
        let mut ping = ping.encode(self.serial);
        ping[2] = NO_REPLY_EXPECTED;
        self.stream.write_all(&ping).await
    }
}

impl MethodCall<'_> {
    fn encode(&self, serial: u32) -> Vec<u8> {
        let mut fields = Vec::new();
        put_field(&mut fields, 1, b'o', self.path);
        put_field(&mut fields, 2, b's', self.interface);
        put_field(&mut fields, 3, b's', self.member);
        if !self.signature.is_empty() {
            pad(&mut fields, 8);
            fields.extend([8, 1, b'g', 0, self.signature.len() as u8]);
            fields.extend(self.signature.bytes().chain([0]));
        }

        let mut message = vec![b'l', METHOD_CALL, 0, 1];
        put_number(&mut message, self.body.len());
        message.extend(serial.to_le_bytes());
        put_number(&mut message, fields.len());
        message.extend(fields);
        pad(&mut message, 8);
        message.extend(&self.body);
        message
    }
}

/// The name of a unit as it stands in the path of its object: sd_bus_path_encode(3).
fn escaped(unit: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("_{byte:02x}"),
    };
    unit.bytes().map(escape).collect()
}

fn put_field(fields: &mut Vec<u8>, code: u8, kind: u8, value: &str) {
    pad(fields, 8);
    fields.extend([code, 1, kind, 0]);
    put_string(fields, value);
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    pad(out, 4);
    put_number(out, text.len());
    out.extend(text.bytes().chain([0]));
}

fn put_number(out: &mut Vec<u8>, number: usize) {
    out.extend((number as u32).to_le_bytes());
}

fn pad(out: &mut Vec<u8>, to: usize) {
    out.resize(out.len().next_multiple_of(to), 0);
}

/// Reads a reply's body; everything ends in None where it does not fit.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn number(&mut self) -> Option<u32> {
        self.align(4);
        let number = self.bytes.get(self.at..self.at + 4)?;
        self.at += 4;
        Some(u32::from_le_bytes(number.try_into().ok()?))
    }

    fn string(&mut self) -> Option<String> {
        let length = self.number()? as usize;
        let text = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length + 1;
        String::from_utf8(text.to_vec()).ok()
    }

    /// The type of a variant, which must be the expected one.
    fn signature(&mut self, expected: &str) -> Option<()> {
        let length = usize::from(*self.bytes.get(self.at)?);
        let signature = self.bytes.get(self.at + 1..self.at + 1 + length)?;
        self.at += length + 2;
        (signature == expected.as_bytes()).then_some(())
    }
}

async fn read_line(stream: &mut UnixStream) -> io::Result<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") && line.len() < 512 {
        line.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use tokio::net::UnixListener;

    use super::*;

    /// Answers each call with the next of `replies`: a type and a body.
    pub(in crate::systemd) async fn systemd(listener: UnixListener, replies: Vec<(u8, Vec<u8>)>) {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut nul = [0];
        stream.read_exact(&mut nul).await.unwrap();
        assert!(
            read_line(&mut stream)
                .await
                .unwrap()
                .starts_with("AUTH EXTERNAL ")
        );
        stream.write_all(b"OK 0123456789abcdef\r\n").await.unwrap();
        assert_eq!(read_line(&mut stream).await.unwrap(), "BEGIN");
        for (kind, body) in replies {
            let mut call = [0; 1024];
            assert!(stream.read(&mut call).await.unwrap() > HEAD);
            stream.write_all(&reply(kind, &body)).await.unwrap();
        }
    }

    fn reply(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut reply = vec![b'l', kind, 0, 1];
        put_number(&mut reply, body.len());
        put_number(&mut reply, 1);
        // One header field, as long as a real reply's serial.
        put_number(&mut reply, 8);
        reply.extend([5, 1, b'u', 0, 1, 0, 0, 0]);
        reply.extend(body);
        reply
    }

    async fn bus(replies: Vec<(u8, Vec<u8>)>) -> Bus {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("private");
        tokio::spawn(systemd(UnixListener::bind(&path).unwrap(), replies));
        Bus::connect(&path).await.unwrap()
    }

    fn text(value: &str) -> Vec<u8> {
        let mut body = vec![1, b's', 0];
        put_string(&mut body, value);
        body
    }

    #[test]
    fn a_call_is_laid_out_as_the_specification_says() {
        let call = MethodCall {
            path: "/o",
            interface: "i",
            member: "m",
            signature: "u",
            body: 7_u32.to_le_bytes().to_vec(),
        };
        let expected: &[u8] = &[
            b'l', 1, 0, 1, 4, 0, 0, 0, 9, 0, 0, 0, 55, 0, 0, 0, // head, 55 bytes of fields
            1, 1, b'o', 0, 2, 0, 0, 0, b'/', b'o', 0, 0, 0, 0, 0, 0, // path
            2, 1, b's', 0, 1, 0, 0, 0, b'i', 0, 0, 0, 0, 0, 0, 0, // interface
            3, 1, b's', 0, 1, 0, 0, 0, b'm', 0, 0, 0, 0, 0, 0, 0, // member
            8, 1, b'g', 0, 1, b'u', 0, 0, // signature, padded
            7, 0, 0, 0,
        ];
        let encoded = call.encode(9);
        assert_eq!(encoded, expected);
    }

    #[tokio::test]
    async fn reads_what_systemd_answers() {
        let mut path = Vec::new();
        put_string(&mut path, "/unit");
        let mut job = vec![4];
        job.extend(b"(uo)\0");
        pad(&mut job, 8);
        put_number(&mut job, 42);
        put_string(&mut job, "/job/42");
        let signal = (4, Vec::new());
        let mut bus = bus(vec![(2, path), (2, job), (2, text("restart")), signal]).await;
        assert_eq!(bus.unit_of(1).await.unwrap(), "/unit");
        assert_eq!(bus.job("/unit").await.unwrap(), (42, "/job/42".to_owned()));
        assert_eq!(
            bus.text("/job/42", "i", "JobType").await.unwrap(),
            "restart"
        );
    }

    /// A variant with a number in it, as a property's value comes.
    pub(in crate::systemd) fn number(value: u32) -> Vec<u8> {
        let mut body = vec![1, b'u', 0];
        pad(&mut body, 4);
        body.extend(value.to_le_bytes());
        body
    }

    #[tokio::test]
    async fn reads_the_main_process_of_a_service() {
        assert_eq!(escaped("kubelet.service"), "kubelet_2eservice");
        let mut bus = bus(vec![(2, number(4711)), (2, text("4711"))]).await;
        assert_eq!(bus.main_pid("kubelet.service").await.unwrap(), 4711);
        let wrong = bus.main_pid("kubelet.service").await;
        assert!(matches!(wrong, Err(BusError::Malformed("MainPID"))));
    }

    #[tokio::test]
    async fn reminds_a_systemd_that_has_not_looked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("private");
        let listener = UnixListener::bind(&path).unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = [0; 1024];
            assert!(stream.read(&mut seen).await.unwrap() > 0);
            stream.write_all(b"OK 0123456789abcdef\r\n").await.unwrap();
            let mut heard: Vec<u8> = Vec::new();
            // Only the ping makes it look at what came with BEGIN.
            while !heard.windows(4).any(|word| word == b"Ping") {
                let read = stream.read(&mut seen).await.unwrap();
                heard.extend(&seen[..read]);
            }
            let mut body = Vec::new();
            put_string(&mut body, "/unit");
            stream
                .write_all(&reply(METHOD_RETURN, &body))
                .await
                .unwrap();
        });
        let mut bus = Bus::connect(&path).await.unwrap();
        assert_eq!(bus.unit_of(1).await.unwrap(), "/unit");
    }

    #[tokio::test]
    async fn an_error_or_nonsense_is_no_answer() {
        let mut bus = bus(vec![(3, Vec::new()), (2, vec![9; 9]), (2, Vec::new())]).await;
        assert!(matches!(bus.unit_of(1).await, Err(BusError::Error(_))));
        assert!(matches!(
            bus.text("/u", "i", "p").await,
            Err(BusError::Malformed(_))
        ));
        assert!(matches!(bus.job("/u").await, Err(BusError::Malformed(_))));
    }
}
