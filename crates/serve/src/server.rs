//! Connections: one thread each, few at once.

use std::io::{self, BufReader, BufWriter};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// How long it may take to reach ourselves.
const REACHED_WITHIN: Duration = Duration::from_secs(5);

/// No page may show ours inside of itself.
pub(crate) const NO_FRAMES: &str = "'none'";
/// Notebooks: pages of this machine, under any port, and those inside of an editor.
const NOTEBOOKS: &str = "http://localhost:* http://127.0.0.1:* https://localhost:* \
    https://127.0.0.1:* vscode-webview:";

/// A server that listens, and answers once [`Server::run`] is called.
pub struct Server {
    listener: TcpListener,
    guard: Guard,
    /// The pages that may show ours.
    frames: &'static str,
    connections: Arc<Connections>,
}

/// What is open, so that it can be ended.
#[derive(Default)]
pub(crate) struct Connections {
    is_stopped: AtomicBool,
    /// By number, in the order in which they were accepted.
    open: Mutex<Vec<(usize, TcpStream)>>,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, Vec<(usize, TcpStream)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a connection be ended from elsewhere; one that comes too late is ended here.
    fn add(&self, number: usize, stream: &TcpStream) -> io::Result<()> {
        self.open().push((number, stream.try_clone()?));
        match self.is_stopped.load(Ordering::SeqCst) {
            true => stream.shutdown(Shutdown::Both),
            false => Ok(()),
        }
    }

    fn remove(&self, number: usize) {
        self.open().retain(|(known, _)| *known != number);
    }
}

/// Ends a server that another thread runs.
pub struct Stop {
    address: SocketAddr,
    connections: Arc<Connections>,
}

impl Stop {
    /// From here on nobody is answered; [`Server::run`] returns.
    pub fn stop(&self) {
        if self.connections.is_stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        for (_, stream) in self.connections.open().iter() {
            // It may have gone by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Who waits for the next connection gets one, and looks.
        let _ = TcpStream::connect_timeout(&self.address, REACHED_WITHIN);
    }
}

impl Server {
    /// Listens on the loopback address; port 0 is any that is free.
    pub fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let guard = Guard::new(listener.local_addr()?)?;
        let connections = Arc::new(Connections::default());
        Ok(Server { listener, guard, frames: NO_FRAMES, connections })
    }

    /// Lets notebooks on this machine show the page.
    #[must_use]
    pub fn for_notebooks(self) -> Self {
        Server { frames: NOTEBOOKS, ..self }
    }

    /// What ends it, for another thread.
    pub fn stop_from_elsewhere(&self) -> io::Result<Stop> {
        let connections = Arc::clone(&self.connections);
        Ok(Stop { address: self.listener.local_addr()?, connections })
    }

    /// Where the page is, with the token.
    pub fn url(&self) -> String {
        self.guard.url()
    }

    /// Answers as long as the program runs, or until it is stopped. What goes wrong with a
    /// connection ends that one. Traces that grow are read again meanwhile.
    pub fn run(&self, session: &Session) {
        thread::scope(|scope| {
            scope.spawn(|| session.keep_up());
            serve(&self.listener, &self.connections, |stream| self.converse(session, stream));
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
                    let refusal = Response::refusal(Status::BadRequest, why);
                    return refusal.write(false, self.frames, &mut output);
                }
            };
            let response = match self.guard.admit(&request) {
                Ok(path) => route::answer(session, path, &request),
                Err(why) => Response::refusal(Status::Forbidden, why),
            };
            response.write(request.keeps_alive, self.frames, &mut output)?;
            if !request.keeps_alive {
                return Ok(());
            }
        }
    }
}

/// Lets each connection be answered by a thread of its own, few at once.
pub(crate) fn serve(
    listener: &TcpListener,
    connections: &Connections,
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
        for (number, stream) in listener.incoming().enumerate() {
            if connections.is_stopped.load(Ordering::SeqCst) {
                return;
            }
            let Ok(stream) = stream else { continue };
            if open.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
                open.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            scope.spawn(move || {
                // The other side may go at any time; that is its right.
                drop(connections.add(number, &stream).and_then(|()| answer(stream)));
                connections.remove(number);
                open.fetch_sub(1, Ordering::AcqRel);
            });
        }
    });
}
