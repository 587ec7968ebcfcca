//! What fuzzing calls, and the replay of its corpus. Not part of the interface.

use std::net::{Ipv4Addr, SocketAddr};

use crate::connection::guard::Guard;
use crate::connection::http::{HEAD_BYTES_MAX, ParsedHead, parse_head};

/// How many beginnings of an input are read: each takes as long as the whole.
const PREFIXES_MAX: usize = 256;
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Reads `input` as the head of a request, whole and as it would arrive, and lets the guard check
/// what was read.
pub fn http(input: &[u8]) {
    let whole = parse_head(input);
    // What the first bytes decide, further ones do not change.
    let stride = 1 + input.len() / PREFIXES_MAX;
    for seen in (0..input.len()).step_by(stride) {
        let part = parse_head(&input[..seen]);
        if part != Ok(None) {
            assert_eq!(part, whole, "after {seen} bytes");
            break;
        }
    }
    let Ok(Some(ParsedHead { request, bytes })) = whole.clone() else { return };
    assert!(bytes <= input.len() && bytes <= HEAD_BYTES_MAX);
    assert!(input[..bytes].ends_with(b"\r\n\r\n"));
    assert_eq!(parse_head(&input[..bytes]), whole, "without what follows");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 4000));
    let guard = Guard::with_token(address, TOKEN.to_owned());
    if let Ok(rest) = guard.admit(&request) {
        let path = request.path.strip_prefix('/').and_then(|path| path.strip_prefix(TOKEN));
        assert!(path.is_some_and(|path| path.strip_prefix('/').unwrap_or_default() == rest));
        assert!(request.host.is_some_and(|host| host.ends_with(":4000")));
    }
}
