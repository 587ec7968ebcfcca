//! One file for a viewer of somebody else's, which a browser loads from its maker.
//!
//! The page is theirs, the file stays here: it is answered on the loopback address, under a token,
//! to pages of exactly the origin that was asked for. A request that names no origin, as from a
//! page that embeds the address or from a command line, is refused too.

use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::connection::guard::Guard;
use crate::connection::http::{Method, Request, Response, Status};
use crate::connection::limits::Connections;
use crate::connection::redirect::RedirectFile;
use crate::server::{NO_FRAMES, Opening, Service};

/// How much is read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// A viewer that is loaded from its maker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherPage {
    Perfetto,
    Speedscope,
    Firefox,
}

impl OtherPage {
    /// What options call each.
    pub const NAMES: [(&'static str, OtherPage); 3] = [
        ("perfetto", OtherPage::Perfetto),
        ("speedscope", OtherPage::Speedscope),
        ("firefox", OtherPage::Firefox),
    ];
}

impl OtherPage {
    /// Whose pages may ask.
    pub fn origin(self) -> &'static str {
        match self {
            OtherPage::Perfetto => "https://ui.perfetto.dev",
            OtherPage::Speedscope => "https://www.speedscope.app",
            OtherPage::Firefox => "https://profiler.firefox.com",
        }
    }

    /// What the file must be called for the viewer to know its format.
    pub fn file_name(self) -> &'static str {
        match self {
            OtherPage::Perfetto => "trace.perfetto-trace",
            OtherPage::Speedscope => "profile.speedscope.json",
            OtherPage::Firefox => "profile.json",
        }
    }

    /// The port to listen on; 0 is any. Perfetto's page may ask no other on this machine.
    pub fn port(self) -> u16 {
        match self {
            OtherPage::Perfetto => 9001,
            OtherPage::Speedscope | OtherPage::Firefox => 0,
        }
    }

    /// The address that opens the viewer with the file at `file`.
    fn opening(self, file: &str) -> String {
        let origin = self.origin();
        match self {
            OtherPage::Perfetto => format!("{origin}/#!/?url={}", encoded(file)),
            OtherPage::Speedscope => format!("{origin}/#profileURL={}", encoded(file)),
            OtherPage::Firefox => format!("{origin}/from-url/{}/", encoded(file)),
        }
    }
}

/// An address as a part of another.
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let code = |byte: u8| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(code).collect()
}

/// A file that a viewer of somebody else's may read.
pub struct FileShare {
    listener: TcpListener,
    guard: Guard,
    page: OtherPage,
    file: File,
    bytes: u64,
    opening: Opening,
}

impl FileShare {
    /// Listens on the loopback address, at the port that the viewer needs.
    pub fn bind(page: OtherPage, file: File) -> io::Result<Self> {
        FileShare::bind_at(page, file, page.port())
    }

    fn bind_at(page: OtherPage, file: File, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let guard = Guard::new(listener.local_addr()?)?.only_for(page.origin());
        let bytes = file.metadata()?.len();
        let opening = Opening::default();
        Ok(FileShare { listener, guard, page, file, bytes, opening })
    }

    /// Where the file is, with the token.
    fn file_url(&self) -> String {
        format!("{}{}", self.guard.url(), self.page.file_name())
    }

    /// The viewer's address, with that of the file in it.
    pub fn url(&self) -> String {
        self.page.opening(&self.file_url())
    }

    /// A private file that leads a browser to the viewer. It goes when it is dropped, or with the
    /// viewer's first request.
    pub fn redirect_file(&self) -> io::Result<Arc<RedirectFile>> {
        self.opening.file(&self.url())
    }

    /// Answers as long as the program runs.
    pub fn run(&self) {
        let service = Service {
            guard: &self.guard,
            connections: &Connections::default(),
            opening: &self.opening,
            frames: NO_FRAMES,
        };
        service.serve(&self.listener, |exchange, out| {
            self.answer(exchange.path, exchange.request, out)
        });
    }

    fn answer(&self, path: &str, request: &Request, out: &mut dyn Write) -> io::Result<()> {
        let refuse = |status, why, out: &mut dyn Write| {
            Response::refusal(status, why).write(request.keeps_alive, NO_FRAMES, out)
        };
        if path != self.page.file_name() {
            return refuse(Status::NotFound, "there is nothing at this address", out);
        }
        match request.method {
            Method::Post => refuse(Status::MethodNotAllowed, "this address is asked by GET", out),
            Method::Options => {
                self.write_head(0, request.keeps_alive, out)?;
                out.flush()
            }
            Method::Get => {
                self.write_head(self.bytes, request.keeps_alive, out)?;
                self.write_file(out)
            }
        }
    }

    fn write_head(&self, bytes: u64, keeps_alive: bool, out: &mut dyn Write) -> io::Result<()> {
        let connection = if keeps_alive { "keep-alive" } else { "close" };
        // A browser asks the last of these of a server on its own machine.
        write!(
            out,
            "HTTP/1.1 {}\r\nContent-Type: application/octet-stream\r\nContent-Length: {bytes}\r\n\
             Connection: {connection}\r\nX-Content-Type-Options: nosniff\r\n\
             Cache-Control: no-store\r\nVary: Origin\r\nAccess-Control-Allow-Origin: {}\r\n\
             Access-Control-Allow-Methods: GET\r\nAccess-Control-Allow-Headers: *\r\n\
             Access-Control-Allow-Private-Network: true\r\n\r\n",
            Status::Fine.line(),
            self.page.origin(),
        )
    }

    fn write_file(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut piece = vec![0; PIECE_BYTES];
        let mut at = 0;
        while at < self.bytes {
            let wanted = usize::try_from(self.bytes - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            self.file.read_exact_at(&mut piece[..wanted], at)?;
            out.write_all(&piece[..wanted])?;
            at += wanted as u64;
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpStream;
    use std::thread;

    use super::*;

    #[test]
    fn addresses_hold_that_of_the_file() {
        let check = |page: OtherPage, expected: &str| {
            assert_eq!(page.opening("http://127.0.0.1:9001/a b/f"), expected);
        };
        let file = "http%3A%2F%2F127.0.0.1%3A9001%2Fa%20b%2Ff";
        check(OtherPage::Perfetto, &format!("https://ui.perfetto.dev/#!/?url={file}"));
        check(OtherPage::Speedscope, &format!("https://www.speedscope.app/#profileURL={file}"));
        check(OtherPage::Firefox, &format!("https://profiler.firefox.com/from-url/{file}/"));
    }

    /// A share of three bytes that answers, on any free port.
    fn shared(page: OtherPage) -> Arc<FileShare> {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(b"abc", 0).expect("room");
        let share = Arc::new(FileShare::bind_at(page, file, 0).expect("a port"));
        let of_thread = Arc::clone(&share);
        thread::spawn(move || of_thread.run());
        share
    }

    /// What is answered to a request with this method, path and origin.
    fn ask(share: &FileShare, method: &str, path: &str, origin: &str) -> String {
        let address = share.listener.local_addr().expect("an address");
        let mut stream = TcpStream::connect(address).expect("a connection");
        let origin =
            if origin.is_empty() { String::new() } else { format!("Origin: {origin}\r\n") };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\n{origin}Connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    #[test]
    fn only_pages_of_the_viewers_origin_get_the_file() {
        for page in [OtherPage::Perfetto, OtherPage::Speedscope, OtherPage::Firefox] {
            let share = shared(page);
            let url = share.file_url();
            let path = &url["http://".len()..];
            let path = &path[path.find('/').expect("a path")..];
            let allowed = format!("Access-Control-Allow-Origin: {}\r\n", page.origin());
            let found = ask(&share, "GET", path, page.origin());
            assert!(found.starts_with("HTTP/1.1 200 OK\r\n"), "{found}");
            assert!(found.contains(&allowed) && found.ends_with("\r\n\r\nabc"), "{found}");
            let before = ask(&share, "OPTIONS", path, page.origin());
            assert!(before.contains(&allowed) && before.ends_with("\r\n\r\n"), "{before}");
            let refused = |method: &str, path: &str, origin: &str, status: &str| {
                let found = ask(&share, method, path, origin);
                assert!(found.starts_with(&format!("HTTP/1.1 {status} ")), "{origin}: {found}");
                assert!(!found.contains("Access-Control") && !found.contains("abc"), "{found}");
            };
            refused("GET", path, "", "403");
            refused("GET", path, "null", "403");
            refused("GET", path, "https://evil.example", "403");
            refused("GET", path, &page.origin().replace("https", "http"), "403");
            refused("GET", path, &format!("{}.evil.example", page.origin()), "403");
            refused("OPTIONS", path, "https://evil.example", "403");
            refused("GET", &format!("/{}", page.file_name()), page.origin(), "403");
            refused("GET", &format!("{path}.other"), page.origin(), "404");
            refused("POST", path, page.origin(), "405");
        }
    }
}
