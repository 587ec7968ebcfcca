//! As much of HTTP/1.1 as a browser on the same machine needs.
//!
//! Whatever is larger, slower or odder than a browser would send ends the connection.

use std::io::{self, BufRead, BufReader, Read, Write};

/// Longest head of a request, and longest body.
const HEAD_BYTES_MAX: u64 = 16 * 1024;
const BODY_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
    /// What a browser asks before it lets a page of elsewhere ask.
    Options,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Without the query; not decoded, as no address of ours needs it.
    pub(crate) path: String,
    /// Keys and values, decoded.
    pub(crate) query: Vec<(String, String)>,
    pub(crate) host: Option<String>,
    pub(crate) origin: Option<String>,
    pub(crate) keeps_alive: bool,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: Status,
    pub(crate) media_type: &'static str,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Fine,
    BadRequest,
    Forbidden,
    NotFound,
    MethodNotAllowed,
}

impl Status {
    pub(crate) fn line(self) -> &'static str {
        match self {
            Status::Fine => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
        }
    }
}

/// What a request was that cannot be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// The other side has gone, or says nothing more.
    Closed,
    /// Not HTTP as we know it.
    Odd(&'static str),
}

impl From<io::Error> for Unreadable {
    fn from(_: io::Error) -> Self {
        Unreadable::Closed
    }
}

/// Reads one request.
pub(crate) fn read_request<R: Read>(stream: &mut BufReader<R>) -> Result<Request, Unreadable> {
    let mut head = stream.by_ref().take(HEAD_BYTES_MAX);
    let first = line(&mut head)?.ok_or(Unreadable::Closed)?;
    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let version = words.next().unwrap_or_default();
    if !version.starts_with("HTTP/1.") || words.next().is_some() || !target.starts_with('/') {
        return Err(Unreadable::Odd("not a request of HTTP/1.1"));
    }
    let method = match method {
        "GET" => Method::Get,
        "POST" => Method::Post,
        "OPTIONS" => Method::Options,
        _ => return Err(Unreadable::Odd("only GET, POST and OPTIONS are understood")),
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        method,
        path: path.to_owned(),
        query: parse_query(query),
        host: None,
        origin: None,
        keeps_alive: version != "HTTP/1.0",
        body: Vec::new(),
    };
    let body_bytes = read_fields(&mut head, &mut request)?;
    stream.by_ref().take(body_bytes).read_to_end(&mut request.body)?;
    if request.body.len() as u64 != body_bytes {
        return Err(Unreadable::Closed);
    }
    Ok(request)
}

/// Reads the lines of the head; gives the length of the body.
fn read_fields(head: &mut impl BufRead, request: &mut Request) -> Result<u64, Unreadable> {
    let mut body_bytes = 0;
    loop {
        let text = line(head)?.ok_or(Unreadable::Odd("the head is too long or cut"))?;
        if text.is_empty() {
            return Ok(body_bytes);
        }
        let (name, value) = text.split_once(':').ok_or(Unreadable::Odd("not a field"))?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            // Two of them could be read in two ways, by us and by another.
            "host" if request.host.is_some() => return Err(Unreadable::Odd("two hosts")),
            "host" => request.host = Some(value.to_owned()),
            "origin" => request.origin = Some(value.to_owned()),
            "connection" => request.keeps_alive &= !value.eq_ignore_ascii_case("close"),
            "content-length" => {
                let length: Option<u64> = value.parse().ok();
                body_bytes = length
                    .filter(|&length| length <= BODY_BYTES_MAX && body_bytes == 0)
                    .ok_or(Unreadable::Odd("the body is too long"))?;
            }
            "transfer-encoding" => return Err(Unreadable::Odd("bodies must say their length")),
            _ => {}
        }
    }
}

/// A line without its end; nothing at the end of what may be read.
fn line(head: &mut impl BufRead) -> Result<Option<String>, Unreadable> {
    let mut bytes = Vec::new();
    head.read_until(b'\n', &mut bytes)?;
    if bytes.pop() != Some(b'\n') {
        return Ok(None);
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    String::from_utf8(bytes).map(Some).map_err(|_| Unreadable::Odd("not text"))
}

fn parse_query(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let split = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(key), decode(value))
    };
    pairs.map(split).collect()
}

/// `%41` is an A and `+` a blank; what is no such code stands for itself.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = || {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
            u8::from_str_radix(digits, 16).ok()
        };
        rest = after;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => match code() {
                Some(byte) => {
                    bytes.push(byte);
                    rest = &after[2..];
                }
                None => bytes.push(b'%'),
            },
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Response {
    pub(crate) fn json(text: String) -> Self {
        let media_type = "application/json";
        Response { status: Status::Fine, media_type, body: text.into_bytes() }
    }

    pub(crate) fn binary(body: Vec<u8>) -> Self {
        Response { status: Status::Fine, media_type: "application/octet-stream", body }
    }

    pub(crate) fn refusal(status: Status, why: &str) -> Self {
        let body = serde_json::json!({ "error": why }).to_string().into_bytes();
        Response { status, media_type: "application/json", body }
    }

    /// `frames` are the pages that may show the answer inside of themselves.
    pub(crate) fn write(
        &self,
        keeps_alive: bool,
        frames: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let connection = if keeps_alive { "keep-alive" } else { "close" };
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {connection}\r\n\
             {SECURITY}; frame-ancestors {frames}\r\n\
             {PRIVACY}\r\n",
            self.status.line(),
            self.media_type,
            self.body.len(),
        );
        out.write_all(head.as_bytes())?;
        out.write_all(&self.body)?;
        out.flush()
    }
}

/// The page may run its own script and ask its own server, and nothing else; and what is
/// answered is kept nowhere.
const SECURITY: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; \
    style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
    form-action 'none'";
const PRIVACY: &str = "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n\
    Cache-Control: no-store\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Request, Unreadable> {
        read_request(&mut BufReader::new(text.as_bytes()))
    }

    #[test]
    fn requests_are_read() {
        let request = read(
            "POST /t/api?a=1&b=x%20y+z%zz HTTP/1.1\r\nHost: h:1\r\nOrigin: http://h:1\r\n\
             Content-Length: 3\r\n\r\nabcdef",
        );
        let request = request.expect("a request");
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(request.query, [pair("a", "1"), pair("b", "x y z%zz")]);
        assert_eq!(
            (&*request.path, request.method, &*request.body),
            ("/t/api", Method::Post, &b"abc"[..])
        );
        assert_eq!((request.host.as_deref(), request.keeps_alive), (Some("h:1"), true));
    }

    #[test]
    fn odd_requests_are_refused() {
        let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(20_000));
        for text in [
            "hello\r\n\r\n",
            "GET http://elsewhere/ HTTP/1.1\r\n\r\n",
            "PUT / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nno field\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a",
            &long,
        ] {
            assert!(matches!(read(text), Err(Unreadable::Odd(_))), "{text:.60}");
        }
        for text in ["", "GET", "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab"] {
            assert!(matches!(read(text), Err(Unreadable::Closed)), "{text}");
        }
    }
}
