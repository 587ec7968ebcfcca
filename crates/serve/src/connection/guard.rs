//! Who may ask: only the page that was opened with the token.
//!
//! Any page that a browser shows can send requests to this machine, and a name that its owner
//! lets point here makes them appear as its own (DNS rebinding). So the `Host` must be ours, an
//! `Origin`, where there is one, too, and the address must begin with a token that nobody can
//! guess.

use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;

use crate::connection::http::Request;

/// What an address must begin with, and under which names the server is known.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    token: String,
    hosts: Vec<String>,
    /// The only origin that may ask; without one, the server's own page and who has no origin.
    origin: Option<&'static str>,
}

impl Guard {
    /// With a token of 128 random bits.
    pub(crate) fn new(address: SocketAddr) -> io::Result<Self> {
        let mut bytes = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let token = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Guard::with_token(address, token))
    }

    /// With a token that somebody knows already.
    pub(crate) fn with_token(address: SocketAddr, token: String) -> Self {
        let port = address.port();
        let mut hosts = vec![address.to_string()];
        if address.ip().is_loopback() {
            hosts.extend(["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}")));
        }
        Guard { token, hosts, origin: None }
    }

    /// For the pages of one origin elsewhere, and nobody else.
    pub(crate) fn only_for(self, origin: &'static str) -> Self {
        Guard { origin: Some(origin), ..self }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/{}/", self.hosts[0], self.token)
    }

    /// The rest of the path behind the token, for those who may ask.
    pub(crate) fn admit<'a>(&self, request: &'a Request) -> Result<&'a str, &'static str> {
        let is_ours = |name: &str| self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name));
        if !request.host.as_deref().is_some_and(is_ours) {
            return Err("this server answers under its own address only");
        }
        let is_own = |origin: &str| origin.strip_prefix("http://").is_some_and(is_ours);
        let may_ask = match self.origin {
            Some(only) => request.origin.as_deref() == Some(only),
            None => request.origin.as_deref().is_none_or(is_own),
        };
        if !may_ask {
            return Err("a page of another origin may not ask");
        }
        let path = &request.path[1..];
        let (token, rest) = path.split_once('/').unwrap_or((path, ""));
        if !is_equal(token.as_bytes(), self.token.as_bytes()) {
            return Err("the address lacks the right token: use the one that spanwise printed");
        }
        Ok(rest)
    }
}

/// Takes as long for any guess, so that answers reveal nothing about the token.
fn is_equal(guess: &[u8], token: &[u8]) -> bool {
    let difference = guess.iter().zip(token).fold(0, |sum, (a, b)| sum | (a ^ b));
    guess.len() == token.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::http::parse_head;

    #[test]
    fn only_the_opened_page_may_ask() {
        let address = "127.0.0.1:4000".parse().expect("an address");
        let guard = Guard::new(address).expect("random bytes");
        assert_ne!(guard.url(), Guard::new(address).expect("random bytes").url());
        let token = guard.token.clone();
        let longer = format!("{token}0");
        let check = |path: &str, fields: &str, expected: Result<&str, ()>| {
            let text = format!("GET {path} HTTP/1.1\r\n{fields}\r\n\r\n");
            let head = parse_head(text.as_bytes()).expect("well formed").expect("whole");
            assert_eq!(guard.admit(&head.request).map_err(|_| ()), expected, "{path} {fields}");
        };
        let path = |rest: &str| format!("/{token}/{rest}");
        check(&path("api/traces"), "Host: 127.0.0.1:4000", Ok("api/traces"));
        check(&path(""), "Host: localhost:4000\r\nOrigin: http://LOCALHOST:4000", Ok(""));
        check(&path("../../etc/passwd"), "Host: [::1]:4000", Ok("../../etc/passwd"));
        check(&path(""), "Host: evil.example:4000", Err(()));
        check(&path(""), "Host: 127.0.0.1", Err(()));
        check(&path(""), "X: y", Err(()));
        check(&path(""), "Host: localhost:4000\r\nOrigin: http://evil.example", Err(()));
        check(&path(""), "Host: localhost:4000\r\nOrigin: null", Err(()));
        check(&path(""), "Host: localhost:4000\r\nOrigin: https://localhost:4000", Err(()));
        check("/", "Host: localhost:4000", Err(()));
        check("/api/traces", "Host: localhost:4000", Err(()));
        check(&format!("/{}/", &token[1..]), "Host: localhost:4000", Err(()));
        check(&format!("/{longer}/"), "Host: localhost:4000", Err(()));
    }
}
