//! What is connected, and who gives way when there is no more room.
//!
//! Anybody on this machine can connect, and only the first request shows who knows the token. So
//! strangers and known peers have room apart: a stranger takes the place of the oldest stranger,
//! never that of a page that works.

use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A browser opens six at a time; several pages may be open.
pub(crate) const KNOWN_MAX: usize = 64;
/// Connections whose first request has not come yet.
pub(crate) const STRANGERS_MAX: usize = 32;
/// All threads, with those that are about to end.
const THREADS_MAX: usize = KNOWN_MAX + 2 * STRANGERS_MAX;

/// One connection.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    /// Whether it has shown the token.
    is_known: AtomicBool,
    /// Whether it waits for a request.
    is_idle: AtomicBool,
}

impl Peer {
    fn new(stream: TcpStream) -> Self {
        Peer { stream, is_known: AtomicBool::new(false), is_idle: AtomicBool::new(true) }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Acquire)
    }

    pub(crate) fn set_idle(&self, is_idle: bool) {
        self.is_idle.store(is_idle, Ordering::Release);
    }

    fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Acquire)
    }

    /// Ends it from elsewhere: who reads or writes it finds it closed.
    fn close(&self) {
        // It may have gone by itself.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Whether the other side is still there. One that has only closed its own direction has said
    /// all it wanted to say; no browser does that while it waits.
    pub(crate) fn is_there(&self) -> bool {
        if self.stream.set_nonblocking(true).is_err() {
            return true;
        }
        let found = self.stream.peek(&mut [0]);
        let is_restored = self.stream.set_nonblocking(false).is_ok();
        let is_there = match found {
            Ok(bytes) => bytes > 0,
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        };
        is_there && is_restored
    }
}

/// All that is open, so that it can be ended.
#[derive(Default)]
pub(crate) struct Connections {
    is_stopped: AtomicBool,
    threads: AtomicUsize,
    /// In the order in which they came.
    open: Mutex<Vec<Arc<Peer>>>,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, Vec<Arc<Peer>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Ends all, and lets none begin; whether this was the first call.
    pub(crate) fn stop(&self) -> bool {
        let is_first = !self.is_stopped.swap(true, Ordering::SeqCst);
        self.open().iter().for_each(|peer| peer.close());
        is_first
    }

    /// Takes in a connection, at the cost of the oldest stranger; nothing where there are too many
    /// that have not ended yet.
    pub(crate) fn add(&self, stream: TcpStream) -> Option<Arc<Peer>> {
        if self.threads.fetch_add(1, Ordering::AcqRel) >= THREADS_MAX {
            self.threads.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let peer = Arc::new(Peer::new(stream));
        let mut open = self.open();
        if open.iter().filter(|peer| !peer.is_known()).count() >= STRANGERS_MAX
            && let Some(oldest) = open.iter().position(|peer| !peer.is_known())
        {
            open.remove(oldest).close();
        }
        open.push(Arc::clone(&peer));
        if self.is_stopped() {
            peer.close();
        }
        Some(peer)
    }

    /// Has a connection count as known, at the cost of one that is known and idle; whether there is
    /// room.
    pub(crate) fn make_known(&self, peer: &Arc<Peer>) -> bool {
        let mut open = self.open();
        // One that has just given way has lost its place.
        if !open.iter().any(|other| Arc::ptr_eq(other, peer)) {
            return false;
        }
        if open.iter().filter(|peer| peer.is_known()).count() >= KNOWN_MAX {
            let gives_way = |peer: &Arc<Peer>| peer.is_known() && peer.is_idle();
            let Some(oldest) = open.iter().position(gives_way) else { return false };
            open.remove(oldest).close();
        }
        peer.is_known.store(true, Ordering::Release);
        true
    }

    pub(crate) fn remove(&self, peer: &Arc<Peer>) {
        self.open().retain(|other| !Arc::ptr_eq(other, peer));
        self.threads.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    struct Loopback {
        listener: TcpListener,
        connections: Connections,
    }

    impl Loopback {
        fn new() -> Self {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            Loopback { listener, connections: Connections::default() }
        }

        /// A connection, from both sides.
        fn connect(&self) -> (TcpStream, Arc<Peer>) {
            let address = self.listener.local_addr().expect("an address");
            let client = TcpStream::connect(address).expect("it listens");
            let (stream, _) = self.listener.accept().expect("a connection");
            (client, self.connections.add(stream).expect("room"))
        }
    }

    fn is_closed(client: &TcpStream) -> bool {
        client.set_nonblocking(true).expect("a socket");
        let mut client = client;
        matches!(client.read(&mut [0]), Ok(0))
    }

    #[test]
    fn strangers_give_way_to_strangers_and_never_a_page() {
        let loopback = Loopback::new();
        let (page, known) = loopback.connect();
        assert!(loopback.connections.make_known(&known));
        let strangers: Vec<_> = (0..STRANGERS_MAX + 2).map(|_| loopback.connect()).collect();
        let closed: Vec<bool> = strangers.iter().map(|(client, _)| is_closed(client)).collect();
        assert_eq!(closed.iter().filter(|&&is_closed| is_closed).count(), 2);
        assert!(closed[0] && closed[1] && !is_closed(&page));
        // One that gave way is not known any more, even if its request was right.
        assert!(!loopback.connections.make_known(&strangers[0].1));
    }

    #[test]
    fn pages_give_way_only_while_they_are_idle() {
        let loopback = Loopback::new();
        let known = |is_idle: bool| {
            let (client, peer) = loopback.connect();
            peer.set_idle(is_idle);
            (client, loopback.connections.make_known(&peer), peer)
        };
        let busy: Vec<_> = (1..KNOWN_MAX).map(|_| known(false)).collect();
        let idle = known(true);
        assert!(busy.iter().all(|row| row.1) && idle.1);
        assert!(known(false).1 && is_closed(&idle.0));
        assert!(!known(false).1, "all others are busy");
        assert!(busy.iter().all(|row| !is_closed(&row.0)));
    }

    #[test]
    fn a_peer_that_has_closed_is_not_there() {
        let loopback = Loopback::new();
        let (client, peer) = loopback.connect();
        assert!(peer.is_there());
        client.shutdown(Shutdown::Both).expect("a socket");
        drop(client);
        assert!(!peer.is_there());
    }
}
