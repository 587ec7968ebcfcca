//! The local server of the viewer: a page, and answers about open traces.
//!
//! The browser never gets a trace. It asks for what fits on its screen, and every answer is
//! made from the columns, which are mapped files most of the time.
//! docs/reference/formats/viewer-protocol.md is the contract with the page.
//!
//! Decided: loopback only, a random token in every address, no answer to a foreign `Host` or
//! `Origin`, nothing served but the page's own three files and answers about the traces that
//! were named. Refused: a web framework. What is needed of HTTP is one page of code, and all
//! work here is computation, which threads do well.
//!
//! [`FileShare`] is the exception for other people's viewers: one converted file, for the pages of
//! one origin.

mod assets;
mod connection;
#[doc(hidden)]
pub mod fuzzing;
mod memory;
mod questions;
mod route;
mod server;
mod session;
mod share;
mod viewed;

pub use connection::redirect::RedirectFile;
pub use server::{Server, Stop};
pub use session::Session;
pub use share::{FileShare, OtherPage};
pub use viewed::TraceView;
