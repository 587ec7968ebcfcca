//! Requests that are no browser's, connections that say nothing, and queries without measure.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::running::{Running, open, start};

/// How long these tests wait for what must come soon; half of what a query may take.
const PATIENCE: Duration = Duration::from_secs(30);
const ENDLESS: &str =
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n";
/// As many run at once.
const QUERIES_MAX: usize = 4;

fn small() -> Running {
    start(vec![open("kineto/llama_small.json.gz")])
}

/// A query as a request.
fn query_request(running: &Running, sql: &str) -> String {
    let (host, token, length) = (&running.host, &running.token, sql.len());
    format!(
        "POST /{token}/api/query HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n{sql}"
    )
}

/// Sends a query and does not wait for its answer.
fn begin_query(running: &Running, sql: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&running.host).expect("it listens");
    stream.write_all(query_request(running, sql).as_bytes()).expect("it reads");
    stream
}

/// The status and the body of a query's answer.
fn ask(running: &Running, sql: &str) -> (u16, Value) {
    let answer = running.send(&query_request(running, sql));
    (answer.status, serde_json::from_slice(&answer.body).expect("JSON"))
}

/// Asks a small query until it has this status.
fn wait_for(running: &Running, status: u16) {
    let end = Instant::now() + PATIENCE;
    while ask(running, "SELECT 1").0 != status {
        assert!(Instant::now() < end, "no small query has the status {status}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn has_no_answer(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    let found = stream.peek(&mut [0]);
    matches!(found, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

#[test]
fn a_slow_query_does_not_block_others() {
    let running = small();
    let slow = begin_query(&running, ENDLESS);
    for _ in 0..3 {
        assert_eq!(ask(&running, "SELECT 1").0, 200);
    }
    assert!(has_no_answer(&slow), "the slow one still runs");
}

#[test]
fn queries_end_with_the_connection_that_asked() {
    let running = small();
    let slow: Vec<TcpStream> = (0..QUERIES_MAX).map(|_| begin_query(&running, ENDLESS)).collect();
    wait_for(&running, 503);
    let (_, answer) = ask(&running, "SELECT 1");
    assert!(
        answer["error"].as_str().is_some_and(|error| error.contains("are running")),
        "{answer}"
    );
    // Other questions are answered all the same.
    assert_eq!(running.get("api/traces").status, 200);
    assert!(slow.iter().all(has_no_answer));
    drop(slow);
    wait_for(&running, 200);
    let all: Vec<(u16, Value)> =
        (0..QUERIES_MAX).map(|_| ask(&running, "SELECT count(*) FROM spans")).collect();
    assert!(all.iter().all(|(status, _)| *status == 200), "{all:?}");
}

fn numbers(query: &str) -> String {
    format!("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 5000) {query}")
}

#[test]
fn answers_are_bounded_in_bytes() {
    let running = small();
    let (status, answer) = ask(&running, &numbers("SELECT printf('%.*c', 60000000, 'x') FROM n"));
    assert_eq!(status, 400);
    assert!(answer["error"].as_str().is_some_and(|error| error.contains("substr()")), "{answer}");
    let (status, answer) = ask(&running, &numbers("SELECT printf('%.*c', 500000, 'x') FROM n"));
    let rows = answer["rows"].as_array().map_or(0, Vec::len);
    assert_eq!((status, rows, &answer["more"]), (200, 16, &Value::Bool(true)));
    assert!(answer["cut"].as_str().is_some_and(|cut| cut.contains("8 MiB")), "{}", answer["cut"]);
    let (_, answer) = ask(&running, &numbers("SELECT x FROM n"));
    assert_eq!((&answer["more"], &answer["cut"]), (&Value::Bool(false), &Value::Null));
}

/// Whether the server answers a request that comes now.
fn is_answering(running: &Running) -> bool {
    running.get("api/traces").status == 200
}

#[test]
fn silent_strangers_do_not_keep_others_out() {
    let running = small();
    let connect = || TcpStream::connect(&running.host).expect("it listens");
    let mut held: Vec<TcpStream> = Vec::new();
    for at in 0..300 {
        let mut stranger = connect();
        if at % 2 == 0 {
            // One that was closed before cannot be written to.
            let _ = stranger.write_all(b"GET / HTTP/1.1\r\nHost:");
        }
        held.push(stranger);
        if at % 50 == 0 {
            assert!(is_answering(&running), "after {at} silent connections");
        }
    }
    assert!(is_answering(&running));
}

#[test]
fn a_page_keeps_its_connection_while_strangers_come() {
    let running = small();
    let (host, token) = (&running.host, &running.token);
    let request = format!("GET /{token}/app.css HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let mut page = TcpStream::connect(host).expect("it listens");
    let mut ask = || {
        page.write_all(request.as_bytes()).expect("it is open");
        let mut bytes = [0; 4096];
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\n") && !seen.windows(4).any(|four| four == b"\r\n\r\n") {
            let count = page.read(&mut bytes).expect("an answer");
            assert!(count > 0, "it was closed");
            seen.extend_from_slice(&bytes[..count]);
        }
        let end = seen.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8_lossy(&seen[..end]).into_owned();
        let length = head.split("Content-Length: ").nth(1).expect("a length");
        let length: usize = length.split("\r\n").next().expect("a line").parse().expect("digits");
        while seen.len() < end + length {
            let count = page.read(&mut bytes).expect("the rest");
            assert!(count > 0, "it was closed");
            seen.extend_from_slice(&bytes[..count]);
        }
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    };
    ask();
    let strangers: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(host).expect("it listens")).collect();
    ask();
    drop(strangers);
    ask();
}

#[test]
fn a_stranger_is_refused_before_its_body_and_let_go() {
    let running = small();
    let host = &running.host;
    let answer = running.send(&format!(
        "POST /wrong/api/query HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000000\r\n\r\nx"
    ));
    assert_eq!(answer.status, 403);
    assert!(answer.head.contains("Connection: close\r\n"), "{}", answer.head);
}

#[test]
fn requests_that_could_be_read_in_two_ways_are_refused() {
    let running = small();
    let (host, token) = (&running.host, &running.token);
    let check = |fields: &str, rest: &str| {
        let request =
            format!("POST /{token}/api/query HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n\r\n{rest}");
        let answer = running.send(&request);
        assert_eq!(answer.status, 400, "{fields}");
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!(text.matches("HTTP/1.1").count(), 0, "one answer to {fields}: {text}");
    };
    check("Content-Length: 0\r\nContent-Length: 8", "SELECT 1");
    check("Content-Length: 8\r\nContent-Length: 8", "SELECT 1");
    check("Content-Length: +8", "SELECT 1");
    check("Content-Length : 8", "SELECT 1");
    check("Content-Length: 8, 8", "SELECT 1");
    check("Content-Length: 8\r\nTransfer-Encoding: chunked", "8\r\nSELECT 1\r\n0\r\n\r\n");
    check(&format!("Origin: http://evil.example\r\nOrigin: http://{host}"), "");
    check(&format!("Host: {host}"), "");
    check("X: y\r\n Content-Length: 8", "SELECT 1");
    check("X: y\nContent-Length: 8", "SELECT 1");
}

#[test]
fn what_was_found_by_fuzzing_is_read_or_refused() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/http");
    let files: Vec<_> = std::fs::read_dir(corpus).expect("the corpus").flatten().collect();
    assert!(files.len() > 5, "the corpus is missing");
    for file in files {
        let input = std::fs::read(file.path()).expect("readable");
        let replayed = std::panic::catch_unwind(|| spanwise_serve::fuzzing::http(&input));
        assert!(replayed.is_ok(), "{}", file.path().display());
    }
}

/// Pseudo-random numbers, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most.max(1) as u64) as usize
    }
}

#[test]
fn requests_with_changed_bytes_are_read_or_refused() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/http");
    let mut files: Vec<_> = std::fs::read_dir(corpus).expect("the corpus").flatten().collect();
    files.sort_by_key(std::fs::DirEntry::path);
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let odd = b"\r\n :,;\t\0+-0x9/?#%\x80";
    for file in files {
        let seed = std::fs::read(file.path()).expect("readable");
        for _ in 0..300 {
            let mut input = seed.clone();
            for _ in 0..=numbers.below(4) {
                let (at, byte) = (numbers.below(input.len()), odd[numbers.below(odd.len())]);
                match numbers.below(3) {
                    _ if input.is_empty() => input.push(byte),
                    0 => input[at] = byte,
                    1 => input.insert(at, byte),
                    _ => drop(input.remove(at)),
                }
            }
            spanwise_serve::fuzzing::http(&input);
        }
    }
}
