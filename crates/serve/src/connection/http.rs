//! As much of HTTP/1.1 as a browser on the same machine needs, and read strictly.
//!
//! [`parse_head`] is a pure function of bytes: how they arrive does not change what they mean, and
//! fuzzing can call it. Whatever two readers could understand in two ways is refused: a second
//! length, host or origin, blanks before a colon, folded lines, line ends other than CRLF.

use std::io::{self, IoSlice, Write};

/// Longest head of a request, longest body, and most fields.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;
const BODY_BYTES_MAX: u64 = 1024 * 1024;
const FIELDS_MAX: usize = 100;

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
    /// How long the body is that follows the head.
    pub(crate) body_bytes: usize,
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
    Busy,
}

impl Status {
    pub(crate) fn line(self) -> &'static str {
        match self {
            Status::Fine => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::Busy => "503 Service Unavailable",
        }
    }
}

/// Why bytes are no request that we answer.
pub(crate) type RequestError = &'static str;

/// A head, and how many bytes it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParsedHead {
    pub(crate) request: Request,
    pub(crate) bytes: usize,
}

/// Reads the head that the bytes begin with; nothing where more bytes are needed. What is found for
/// some bytes is also found for any longer ones that begin with them.
pub(crate) fn parse_head(bytes: &[u8]) -> Result<Option<ParsedHead>, RequestError> {
    let Some(end) = find_end(bytes)? else { return Ok(None) };
    let mut lines = bytes[..end].split(|&byte| byte == b'\n').map(|line| match line {
        [text @ .., b'\r'] => text,
        text => text,
    });
    let mut request = parse_request_line(lines.next().unwrap_or_default())?;
    let mut seen = SeenFields::default();
    for (at, line) in lines.take_while(|line| !line.is_empty()).enumerate() {
        if at == FIELDS_MAX {
            return Err("too many fields");
        }
        parse_field(line, &mut request, &mut seen)?;
    }
    Ok(Some(ParsedHead { request, bytes: end }))
}

/// Where the head ends: behind the first empty line.
fn find_end(bytes: &[u8]) -> Result<Option<usize>, RequestError> {
    let head = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    for (at, &byte) in head.iter().enumerate() {
        match byte {
            b'\n' if at == 0 || head[at - 1] != b'\r' => return Err("a line ends without CR"),
            b'\n' if at >= 3 && head[at - 3..at] == *b"\r\n\r" => return Ok(Some(at + 1)),
            b'\n' | b'\t' => {}
            _ if at > 0 && head[at - 1] == b'\r' => return Err("CR without LF"),
            b'\r' => {}
            0..=0x1f | 0x7f => return Err("a control character"),
            _ => {}
        }
    }
    if head.len() == HEAD_BYTES_MAX { Err("the head is too long") } else { Ok(None) }
}

fn parse_request_line(line: &[u8]) -> Result<Request, RequestError> {
    const NOT_A_REQUEST: RequestError = "not a request of HTTP/1.1";
    let text = std::str::from_utf8(line).map_err(|_| NOT_A_REQUEST)?;
    let mut words = text.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(NOT_A_REQUEST);
    };
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    if !target.starts_with('/') || !target.bytes().all(is_plain) {
        return Err("not an address on this server");
    }
    let keeps_alive = match version {
        "HTTP/1.1" => true,
        "HTTP/1.0" => false,
        _ => return Err(NOT_A_REQUEST),
    };
    let method = match method {
        "GET" => Method::Get,
        "POST" => Method::Post,
        "OPTIONS" => Method::Options,
        _ => return Err("only GET, POST and OPTIONS are understood"),
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(Request {
        method,
        path: path.to_owned(),
        query: parse_query(query),
        host: None,
        origin: None,
        keeps_alive,
        body_bytes: 0,
    })
}

/// Fields that may stand there once.
#[derive(Default)]
struct SeenFields {
    has_length: bool,
}

fn parse_field(
    line: &[u8],
    request: &mut Request,
    seen: &mut SeenFields,
) -> Result<(), RequestError> {
    let at = line.iter().position(|&byte| byte == b':').ok_or("not a field")?;
    let (name, value) = (&line[..at], line[at + 1..].trim_ascii());
    // A blank before the colon, or at the start of a folded line, is no letter of a name.
    if name.is_empty() || !name.iter().all(|&byte| is_of_name(byte)) {
        return Err("not the name of a field");
    }
    match name.to_ascii_lowercase().as_slice() {
        b"host" => once(&mut request.host, value, "two hosts"),
        b"origin" => once(&mut request.origin, value, "two origins"),
        b"connection" => {
            let mut options = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
            request.keeps_alive &= !options.any(|option| option.eq_ignore_ascii_case(b"close"));
            Ok(())
        }
        b"content-length" if seen.has_length => Err("two lengths"),
        b"content-length" => {
            seen.has_length = true;
            request.body_bytes = parse_length(value)?;
            Ok(())
        }
        b"transfer-encoding" => Err("bodies must say their length"),
        _ => Ok(()),
    }
}

/// The letters of which names of fields are made (RFC 9110, section 5.6.2).
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn once(slot: &mut Option<String>, value: &[u8], twice: RequestError) -> Result<(), RequestError> {
    let text = std::str::from_utf8(value).map_err(|_| "not text")?;
    match slot.replace(text.to_owned()) {
        Some(_) => Err(twice),
        None => Ok(()),
    }
}

/// Digits only: a sign, a list or a blank could be read in two ways.
fn parse_length(value: &[u8]) -> Result<usize, RequestError> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err("the length is not a number");
    }
    let length = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u64>().ok());
    let length = length.filter(|&length| length <= BODY_BYTES_MAX).ok_or("the body is too long")?;
    Ok(length as usize)
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
        // At once: each piece on its own would be sent, and would wake the other side, by itself.
        let mut pieces = [IoSlice::new(head.as_bytes()), IoSlice::new(&self.body)];
        write_pieces(&mut pieces, out)?;
        out.flush()
    }
}

fn write_pieces(mut pieces: &mut [IoSlice<'_>], out: &mut dyn Write) -> io::Result<()> {
    while !pieces.is_empty() {
        match out.write_vectored(pieces) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut pieces, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
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

    #[test]
    fn requests_are_read() {
        let text = "POST /t/api?a=1&b=x%20y+z%zz HTTP/1.1\r\nHost: h:1\r\nOrigin: http://h:1\r\n\
             Content-Length: 3\r\n\r\nabcdef";
        let parsed = parse_head(text.as_bytes()).expect("well formed").expect("whole");
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(&text[parsed.bytes..], "abcdef");
        let request = parsed.request;
        assert_eq!(request.query, [pair("a", "1"), pair("b", "x y z%zz")]);
        assert_eq!(
            (&*request.path, request.method, request.body_bytes),
            ("/t/api", Method::Post, 3)
        );
        assert_eq!((request.host.as_deref(), request.keeps_alive), (Some("h:1"), true));
    }

    /// A request with these fields is refused for this reason.
    #[track_caller]
    fn check_refused(fields: &str, expected: &str) {
        let text = format!("POST /t/ HTTP/1.1\r\n{fields}\r\n\r\n");
        assert_eq!(parse_head(text.as_bytes()), Err(expected), "{fields:.60}");
    }

    #[test]
    fn a_length_stands_there_once_and_in_digits() {
        check_refused("Content-Length: 0\r\nContent-Length: 8", "two lengths");
        check_refused("Content-Length: 8\r\nContent-Length: 8", "two lengths");
        check_refused("Content-Length: +8", "the length is not a number");
        check_refused("Content-Length: -1", "the length is not a number");
        check_refused("Content-Length: 8, 8", "the length is not a number");
        check_refused("Content-Length: 0x8", "the length is not a number");
        check_refused("Content-Length:", "the length is not a number");
        check_refused("Content-Length: 1048577", "the body is too long");
        check_refused("Content-Length: 99999999999999999999999", "the body is too long");
        check_refused("Transfer-Encoding: chunked", "bodies must say their length");
        check_refused("transfer-encoding: identity", "bodies must say their length");
    }

    #[test]
    fn a_host_and_an_origin_stand_there_once() {
        check_refused("Host: a\r\nHost: a", "two hosts");
        check_refused("Host: a\r\nhOST: b", "two hosts");
        check_refused("Origin: http://a\r\nOrigin: http://b", "two origins");
    }

    #[test]
    fn names_of_fields_have_no_blanks() {
        check_refused("Content-Length : 8", "not the name of a field");
        check_refused("Content-Length\t: 8", "not the name of a field");
        check_refused("Host: a\r\n folded: b", "not the name of a field");
        check_refused("Host: a\r\n\tfolded", "not a field");
        check_refused(": 8", "not the name of a field");
        check_refused("no field", "not a field");
    }

    #[test]
    fn lines_end_in_one_way_and_hold_no_controls() {
        check_refused("Host: a\nHost: b", "a line ends without CR");
        check_refused("Host: a\rHost: b", "CR without LF");
        check_refused("Host: a\0b", "a control character");
        check_refused("Host: a\x7fb", "a control character");
        check_refused(&format!("A: {}", "x".repeat(20_000)), "the head is too long");
        check_refused(&["A: b"; 101].join("\r\n"), "too many fields");
    }

    #[track_caller]
    fn check_line_refused(line: &str) {
        let text = format!("{line}\r\nHost: a\r\n\r\n");
        assert!(parse_head(text.as_bytes()).is_err(), "{line}");
    }

    #[test]
    fn only_plain_request_lines_are_read() {
        check_line_refused("hello");
        check_line_refused("");
        check_line_refused("GET http://elsewhere/ HTTP/1.1");
        check_line_refused("GET /a#b HTTP/1.1");
        check_line_refused("GET /\u{e9} HTTP/1.1");
        check_line_refused("GET  / HTTP/1.1");
        check_line_refused("GET /\tHTTP/1.1 HTTP/1.1");
        check_line_refused("GET / HTTP/1.1 ");
        check_line_refused(" GET / HTTP/1.1");
        check_line_refused("GET / HTTP/1.2");
        check_line_refused("GET / http/1.1");
        check_line_refused("PRI * HTTP/2.0");
        check_line_refused("PUT / HTTP/1.1");
        check_line_refused("CONNECT / HTTP/1.1");
    }

    #[track_caller]
    fn check_alive(head: &str, expected: bool) {
        let text = format!("{head}\r\n\r\n");
        let parsed = parse_head(text.as_bytes()).expect("well formed").expect("whole");
        assert_eq!(parsed.request.keeps_alive, expected, "{head}");
    }

    #[test]
    fn a_connection_stays_unless_it_is_asked_to_close() {
        check_alive("GET / HTTP/1.1", true);
        check_alive("GET / HTTP/1.1\r\nConnection: keep-alive", true);
        check_alive("GET / HTTP/1.1\r\nConnection: Upgrade, Close", false);
        check_alive("GET / HTTP/1.1\r\nConnection: close\r\nConnection: keep-alive", false);
        check_alive("GET / HTTP/1.0", false);
    }

    /// Takes a few bytes at a time, every other time none.
    #[derive(Default)]
    struct Slow {
        taken: Vec<u8>,
        calls: usize,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.calls += 1;
            if self.calls % 2 == 1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let len = bytes.len().min(7);
            self.taken.extend_from_slice(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// How often the system is called for a whole answer.
    #[derive(Default)]
    struct WriteCounter(usize);

    impl Write for WriteCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += 1;
            Ok(bytes.len())
        }

        fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
            self.0 += 1;
            Ok(pieces.iter().map(|piece| piece.len()).sum())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn answers_arrive_whole_however_slowly_they_are_taken() {
        for body in ["", "a body"] {
            let mut slow = Slow::default();
            let response = Response::binary(body.into());
            response.write(true, "'none'", &mut slow).expect("it is taken");
            let text = String::from_utf8(slow.taken).expect("text");
            let (head, found) = text.split_once("\r\n\r\n").expect("a head");
            assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
            assert_eq!(found, body);
        }
    }

    #[test]
    fn an_answer_is_sent_at_once() {
        let mut counted = WriteCounter::default();
        let response = Response::binary(vec![1; 1 << 20]);
        response.write(true, "'none'", &mut counted).expect("it is taken");
        assert_eq!(counted.0, 1);
    }
}
