//! Requests from a connection, each within its deadline.
//!
//! A timeout of each read alone would let a byte now and then hold a connection for hours, so the
//! head as a whole has a deadline, and so has the body.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::connection::http::{Request, RequestError, parse_head};

/// How long a connection that has shown the token may wait for its next request.
const IDLE_MAX: Duration = Duration::from_secs(120);
/// How long a whole head may take, and a whole body. Of a stranger, the head's begins when it
/// connects.
pub(crate) const HEAD_MAX: Duration = Duration::from_secs(10);
const BODY_MAX: Duration = Duration::from_secs(20);
/// How much is read at a time.
const PIECE_BYTES: usize = 8 * 1024;
/// Bytes and time that are spent on what a refused request still sends: closing at once would take
/// the refusal from under its reader.
const DRAINED_BYTES_MAX: usize = 256 * 1024;
const DRAINED_WITHIN: Duration = Duration::from_secs(1);

/// What a request was that cannot be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// The other side has gone, or took too long.
    Closed,
    /// Not HTTP as we know it.
    Odd(RequestError),
}

impl From<io::Error> for Unreadable {
    fn from(_: io::Error) -> Self {
        Unreadable::Closed
    }
}

/// The side of a connection that is read.
pub(crate) struct Inbound<'a> {
    stream: &'a TcpStream,
    /// What has come and was not used.
    buffer: Vec<u8>,
    since: Instant,
    timeout: Option<Duration>,
}

impl<'a> Inbound<'a> {
    pub(crate) fn new(stream: &'a TcpStream) -> Self {
        Inbound { stream, buffer: Vec::new(), since: Instant::now(), timeout: None }
    }

    /// Reads the next head. A stranger has no time to be idle.
    pub(crate) fn head(&mut self, is_known: bool) -> Result<Request, Unreadable> {
        let mut deadline = match (is_known, self.buffer.is_empty()) {
            (false, _) => Some(self.since + HEAD_MAX),
            (true, false) => Some(Instant::now() + HEAD_MAX),
            (true, true) => None,
        };
        loop {
            match parse_head(&self.buffer) {
                Err(why) => return Err(Unreadable::Odd(why)),
                Ok(Some(head)) => {
                    self.buffer.drain(..head.bytes);
                    return Ok(head.request);
                }
                Ok(None) => self.fill(deadline)?,
            }
            deadline = deadline.or_else(|| Some(Instant::now() + HEAD_MAX));
        }
    }

    /// Reads the body that belongs to a head.
    pub(crate) fn body(&mut self, bytes: usize) -> Result<Vec<u8>, Unreadable> {
        let deadline = Instant::now() + BODY_MAX;
        while self.buffer.len() < bytes {
            self.fill(Some(deadline))?;
        }
        let rest = self.buffer.split_off(bytes);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    fn fill(&mut self, deadline: Option<Instant>) -> Result<(), Unreadable> {
        let timeout = match deadline {
            None => IDLE_MAX,
            Some(end) => end.saturating_duration_since(Instant::now()),
        };
        if timeout.is_zero() {
            return Err(Unreadable::Closed);
        }
        if self.timeout != Some(timeout) {
            self.stream.set_read_timeout(Some(timeout))?;
            self.timeout = Some(timeout);
        }
        let mut piece = [0; PIECE_BYTES];
        match self.stream.read(&mut piece) {
            Ok(0) => Err(Unreadable::Closed),
            Ok(bytes) => {
                self.buffer.extend_from_slice(&piece[..bytes]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Says that no more comes, and lets the other side say the rest of its own.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.stream.shutdown(std::net::Shutdown::Write)?;
        let deadline = Instant::now() + DRAINED_WITHIN;
        let mut drained = 0;
        while drained < DRAINED_BYTES_MAX {
            self.buffer.clear();
            if self.fill(Some(deadline)).is_err() {
                break;
            }
            drained += self.buffer.len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    /// What is read of a connection on which these bytes come, and then its end.
    fn read(text: &str) -> Result<(Request, Vec<u8>), Unreadable> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut client = TcpStream::connect(address).expect("it listens");
        client.write_all(text.as_bytes()).expect("sent");
        drop(client);
        let (stream, _) = listener.accept().expect("a connection");
        let mut inbound = Inbound::new(&stream);
        let head = inbound.head(false)?;
        let body = inbound.body(head.body_bytes)?;
        Ok((head, body))
    }

    #[test]
    fn bodies_have_the_length_that_their_head_says() {
        let (_, body) = read("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcdef").expect("whole");
        assert_eq!(body, b"abc");
    }

    #[test]
    fn what_is_cut_is_no_request() {
        let long = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(9_000));
        let body = "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab";
        for text in ["", "GET", "GET / HTTP/1.1\r\nHost: a", &long, body] {
            assert!(matches!(read(text), Err(Unreadable::Closed)), "{text:.40}");
        }
    }

    #[test]
    fn a_deadline_that_has_passed_ends_it_whatever_comes() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut client = TcpStream::connect(address).expect("it listens");
        client.write_all(b"GET / HT").expect("sent");
        let (stream, _) = listener.accept().expect("a connection");
        let mut inbound = Inbound::new(&stream);
        let Some(long_ago) = inbound.since.checked_sub(HEAD_MAX) else { return };
        inbound.since = long_ago;
        assert!(matches!(inbound.head(false), Err(Unreadable::Closed)));
    }
}
