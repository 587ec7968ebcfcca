//! The page: built from `web/`, part of the program.

use crate::connection::http::{Response, Status};

/// The page's files, by their path behind the token.
pub(crate) fn asset(path: &str) -> Option<Response> {
    let (media_type, body): (_, &[u8]) = match path {
        "" | "index.html" => ("text/html; charset=utf-8", include_bytes!("../assets/index.html")),
        "app.js" => ("text/javascript; charset=utf-8", include_bytes!("../assets/app.js")),
        "app.css" => ("text/css; charset=utf-8", include_bytes!("../assets/app.css")),
        _ => return None,
    };
    Some(Response { status: Status::Fine, media_type, body: body.to_vec() })
}
