//! Connections: one thread each, few at once.

use std::io::{self, BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::connection::guard::Guard;
use crate::connection::http::{Request, Response, Status};
use crate::connection::inbound::{Inbound, Unreadable};
use crate::connection::limits::{Connections, Peer};
use crate::connection::redirect::RedirectFile;
use crate::route;
use crate::session::Session;

/// How long the other side may take to read a piece of an answer.
const WRITE_MAX: Duration = Duration::from_secs(120);
/// How long to wait where no connection can be accepted, as without free descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

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
    opening: Arc<Opening>,
}

/// Ends a server that another thread runs.
pub struct Stop {
    address: SocketAddr,
    connections: Arc<Connections>,
    url: String,
    opening: Arc<Opening>,
}

impl Stop {
    /// The same as [`Server::redirect_file`].
    pub fn redirect_file(&self) -> io::Result<Arc<RedirectFile>> {
        self.opening.file(&self.url)
    }

    /// From here on nobody is answered; [`Server::run`] returns.
    pub fn stop(&self) {
        if self.connections.stop() {
            // Who waits for the next connection gets one, and checks whether to stop.
            let _ = TcpStream::connect_timeout(&self.address, REACHED_WITHIN);
        }
    }
}

impl Server {
    /// Listens on the loopback address; port 0 is any that is free.
    pub fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let guard = Guard::new(listener.local_addr()?)?;
        let connections = Arc::new(Connections::default());
        let opening = Arc::default();
        Ok(Server { listener, guard, frames: NO_FRAMES, connections, opening })
    }

    /// Lets notebooks on this machine show the page.
    #[must_use]
    pub fn for_notebooks(self) -> Self {
        Server { frames: NOTEBOOKS, ..self }
    }

    /// What ends it, for another thread.
    pub fn stop_from_elsewhere(&self) -> io::Result<Stop> {
        let connections = Arc::clone(&self.connections);
        let (address, opening) = (self.listener.local_addr()?, Arc::clone(&self.opening));
        Ok(Stop { address, connections, url: self.url(), opening })
    }

    /// Where the page is, with the token.
    pub fn url(&self) -> String {
        self.guard.url()
    }

    /// A private file that leads a browser to the page. It goes when it is dropped, or with the
    /// page's first request.
    pub fn redirect_file(&self) -> io::Result<Arc<RedirectFile>> {
        self.opening.file(&self.url())
    }

    /// Answers as long as the program runs, or until it is stopped. What goes wrong with a
    /// connection ends that one. Traces that grow are read again meanwhile.
    pub fn run(&self, session: &Session) {
        thread::scope(|scope| {
            scope.spawn(|| session.keep_up());
            let service = Service {
                guard: &self.guard,
                connections: &self.connections,
                opening: &self.opening,
                frames: self.frames,
            };
            service.serve(&self.listener, |exchange, out| {
                let Exchange { path, request, body, peer } = *exchange;
                let response = route::answer(session, path, request, body, peer);
                response.write(request.keeps_alive, self.frames, out)
            });
        });
    }
}

/// A request that may be asked.
pub(crate) struct Exchange<'a> {
    /// The path behind the token.
    pub(crate) path: &'a str,
    pub(crate) request: &'a Request,
    pub(crate) body: &'a [u8],
    pub(crate) peer: &'a Arc<Peer>,
}

/// The file by which a browser was opened, until it is no longer needed.
#[derive(Default)]
pub(crate) struct Opening(Mutex<Weak<RedirectFile>>);

impl Opening {
    pub(crate) fn file(&self, url: &str) -> io::Result<Arc<RedirectFile>> {
        let file = Arc::new(RedirectFile::new(url)?);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&file);
        Ok(file)
    }

    fn is_over(&self) {
        let file = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(file) = file.upgrade() {
            file.remove();
        }
    }
}

/// Who may ask, and what is open.
pub(crate) struct Service<'a> {
    pub(crate) guard: &'a Guard,
    pub(crate) connections: &'a Connections,
    pub(crate) opening: &'a Opening,
    pub(crate) frames: &'static str,
}

impl Service<'_> {
    /// Lets each connection be answered by a thread of its own.
    pub(crate) fn serve(
        &self,
        listener: &TcpListener,
        answer: impl Fn(&Exchange<'_>, &mut dyn Write) -> io::Result<()> + Sync,
    ) {
        let answer = &answer;
        thread::scope(|scope| {
            for stream in listener.incoming() {
                if self.connections.is_stopped() {
                    return;
                }
                let Ok(stream) = stream else {
                    thread::sleep(ACCEPT_AGAIN);
                    continue;
                };
                let Some(peer) = self.connections.add(stream) else { continue };
                let known = Arc::clone(&peer);
                let talk = move || {
                    // The other side may go at any time; that is its right.
                    drop(self.converse(&peer, answer));
                    self.connections.remove(&peer);
                };
                if thread::Builder::new().spawn_scoped(scope, talk).is_err() {
                    self.connections.remove(&known);
                }
            }
        });
    }

    fn converse(
        &self,
        peer: &Arc<Peer>,
        answer: &impl Fn(&Exchange<'_>, &mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let stream = &peer.stream;
        stream.set_write_timeout(Some(WRITE_MAX))?;
        stream.set_nodelay(true)?;
        let mut input = Inbound::new(stream);
        let mut output = BufWriter::new(stream);
        loop {
            peer.set_idle(true);
            let request = input.head(peer.is_known());
            peer.set_idle(false);
            let admitted = match &request {
                Ok(request) => self.admit(peer, request),
                Err(Unreadable::Closed) => return Ok(()),
                Err(Unreadable::Odd(why)) => Err(Response::refusal(Status::BadRequest, why)),
            };
            // The body of a stranger's request is not waited for.
            let (Ok(request), Ok(path)) = (&request, &admitted) else {
                if let Err(refusal) = admitted {
                    refusal.write(false, self.frames, &mut output)?;
                }
                drop(output);
                return input.finish();
            };
            let Ok(body) = input.body(request.body_bytes) else { return Ok(()) };
            answer(&Exchange { path, request, body: &body, peer }, &mut output)?;
            if !request.keeps_alive {
                return Ok(());
            }
        }
    }

    /// The path behind the token, for those who may ask.
    fn admit<'r>(&self, peer: &Arc<Peer>, request: &'r Request) -> Result<&'r str, Response> {
        let forbidden = |why| Response::refusal(Status::Forbidden, why);
        let path = self.guard.admit(request).map_err(forbidden)?;
        if !peer.is_known() {
            if !self.connections.make_known(peer) {
                let why = "too many connections are busy: close other pages of this viewer";
                return Err(Response::refusal(Status::Busy, why));
            }
            self.opening.is_over();
        }
        Ok(path)
    }
}
