//! A server that runs, and how to ask it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;

use serde_json::Value;
use spanwise_model::Trace;
use spanwise_read::{IndexUse, OpenOptions};
use spanwise_serve::{Server, Session, TraceView};

/// A server that lasts as long as the tests.
pub(crate) struct Running {
    pub(crate) host: String,
    pub(crate) token: String,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn open(path: &str) -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(path);
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    spanwise_read::open(&path, &options).expect("a trace of ours")
}

pub(crate) fn from_text(text: &str) -> Trace {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    std::fs::write(&path, text).expect("room");
    let options = OpenOptions { index: IndexUse::Ignore, ..OpenOptions::default() };
    spanwise_read::open(&path, &options).expect("a trace")
}

pub(crate) fn start(traces: Vec<Trace>) -> Running {
    let viewed = traces.into_iter().enumerate();
    let viewed = viewed.map(|(at, trace)| TraceView::new(format!("{at}.json"), trace)).collect();
    start_session(Session::new(viewed))
}

pub(crate) fn start_session(session: Session) -> Running {
    run(Server::bind(0).expect("a free port"), session)
}

pub(crate) fn run(server: Server, session: Session) -> Running {
    let url = server.url();
    let mut parts = url.trim_start_matches("http://").split('/').map(str::to_owned);
    let (host, token) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    thread::spawn(move || server.run(&session));
    Running { host, token }
}

impl Running {
    pub(crate) fn send(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.host).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("it answers");
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Answer { status, head, body: bytes[end..].to_vec() }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        let (host, token) = (&self.host, &self.token);
        self.send(&format!(
            "GET /{token}/{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        ))
    }

    /// What the server answers to SQL.
    pub(crate) fn query(&self, sql: &str) -> Value {
        let (host, token, length) = (&self.host, &self.token, sql.len());
        let answer = self.send(&format!(
            "POST /{token}/api/query HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{sql}"
        ));
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, 200, "{path}: {text}");
        serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}
