//! Connections: one thread each, few at once.

use std::io::{self, BufReader, BufWriter};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::guard::Guard;
use crate::http::{Response, Status, Unreadable, read_request};
use crate::route;
use crate::session::Session;

/// A browser opens six at a time; several pages may be open.
const CONNECTIONS_MAX: usize = 64;
/// How long a connection may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// A server that listens, and answers once [`Server::run`] is called.
pub struct Server {
    listener: TcpListener,
    guard: Guard,
}

impl Server {
    /// Listens on the loopback address; port 0 is any that is free.
    pub fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let guard = Guard::new(listener.local_addr()?)?;
        Ok(Server { listener, guard })
    }

    /// Where the page is, with the token.
    pub fn url(&self) -> String {
        self.guard.url()
    }

    /// Answers as long as the program runs. What goes wrong with a connection ends that one.
    /// Traces that grow are read again meanwhile.
    pub fn run(&self, session: &Session) {
        thread::scope(|scope| {
            scope.spawn(|| session.keep_up());
            serve(&self.listener, |stream| self.converse(session, stream));
        });
    }

    fn converse(&self, session: &Session, stream: &TcpStream) -> io::Result<()> {
        let mut input = BufReader::new(stream);
        let mut output = BufWriter::new(stream);
        loop {
            let request = match read_request(&mut input) {
                Ok(request) => request,
                Err(Unreadable::Closed) => return Ok(()),
                Err(Unreadable::Odd(why)) => {
                    return Response::refusal(Status::BadRequest, why).write(false, &mut output);
                }
            };
            let response = match self.guard.admit(&request) {
                Ok(path) => route::answer(session, path, &request),
                Err(why) => Response::refusal(Status::Forbidden, why),
            };
            response.write(request.keeps_alive, &mut output)?;
            if !request.keeps_alive {
                return Ok(());
            }
        }
    }
}

/// Lets each connection be answered by a thread of its own, few at once.
pub(crate) fn serve(
    listener: &TcpListener,
    converse: impl Fn(&TcpStream) -> io::Result<()> + Sync,
) {
    let (open, converse) = (&AtomicUsize::new(0), &converse);
    let answer = |stream: TcpStream| {
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        stream.set_nodelay(true)?;
        converse(&stream)
    };
    let answer = &answer;
    thread::scope(|scope| {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { continue };
            if open.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
                open.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            scope.spawn(move || {
                // The other side may go at any time; that is its right.
                drop(answer(stream));
                open.fetch_sub(1, Ordering::AcqRel);
            });
        }
    });
}
