//! Which address is which question.

use std::sync::Arc;

use spanwise_model::{SpanId, TrackId};

use crate::assets::asset;
use crate::connection::http::{Method, Request, Response, Status};
use crate::connection::limits::Peer;
use crate::questions;
use crate::session::Session;
use crate::viewed::TraceView;

/// The answer to a request that may be asked.
pub(crate) fn answer(
    session: &Session,
    path: &str,
    request: &Request,
    body: &[u8],
    peer: &Arc<Peer>,
) -> Response {
    let asked = ViewerRequest { session, request, body, peer };
    match request.method {
        Method::Get => {}
        Method::Post if path == "api/query" => return respond(questions::query(&asked)),
        Method::Post | Method::Options => {
            return Response::refusal(Status::MethodNotAllowed, "this address is asked by GET");
        }
    }
    if let Some(response) = asset(path) {
        return response;
    }
    respond(match path {
        "api/traces" => Ok(questions::traces(session)),
        "api/slices" => questions::slices(&asked),
        "api/counters" => questions::counters(&asked),
        "api/marks" => questions::marks(&asked),
        "api/span" => questions::span(&asked),
        "api/search" => questions::search(&asked),
        "api/range" => questions::range(&asked),
        "api/report" => questions::report(&asked),
        "api/compare" => questions::compare(&asked),
        "api/flame" => questions::flame(&asked),
        _ => Err(Refusal::missing("there is nothing at this address")),
    })
}

fn respond(answered: Result<Response, Refusal>) -> Response {
    answered.unwrap_or_else(|refusal| Response::refusal(refusal.status, &refusal.why))
}

/// Why a question has no answer.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: Status,
    why: String,
}

impl Refusal {
    pub(crate) fn wrong(why: impl Into<String>) -> Self {
        Refusal { status: Status::BadRequest, why: why.into() }
    }

    pub(crate) fn busy(why: impl Into<String>) -> Self {
        Refusal { status: Status::Busy, why: why.into() }
    }

    pub(crate) fn missing(why: impl Into<String>) -> Self {
        Refusal { status: Status::NotFound, why: why.into() }
    }
}

/// A question and whom it is about.
pub(crate) struct ViewerRequest<'a> {
    pub(crate) session: &'a Session,
    request: &'a Request,
    body: &'a [u8],
    /// Who waits for the answer.
    pub(crate) peer: &'a Arc<Peer>,
}

impl<'a> ViewerRequest<'a> {
    pub(crate) fn body(&self) -> &'a [u8] {
        self.body
    }

    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        let pair = self.request.query.iter().find(|(name, _)| name == key);
        pair.map(|(_, value)| value.as_str())
    }

    /// A whole number; times may have come through a float.
    pub(crate) fn number(&self, key: &str) -> Result<Option<i64>, Refusal> {
        let parse = |text: &str| {
            let whole = text.parse().ok();
            let rounded = || text.parse().ok().filter(|f: &f64| f.is_finite()).map(|f| f as i64);
            let why = || Refusal::wrong(format!("{key} is not a number: {text:.40}"));
            whole.or_else(rounded).ok_or_else(why)
        };
        self.text(key).map(parse).transpose()
    }

    pub(crate) fn needed(&self, key: &str) -> Result<i64, Refusal> {
        self.number(key)?.ok_or_else(|| Refusal::wrong(format!("{key} is missing")))
    }

    pub(crate) fn trace_named(&self, key: &str) -> Result<Arc<TraceView>, Refusal> {
        let id = self.number(key)?.unwrap_or(0);
        let read = self.number("read")?;
        let found = usize::try_from(id).ok().and_then(|id| self.session.trace_of_read(id, read));
        found.ok_or_else(|| Refusal::missing(format!("there is no trace {id}")))
    }

    pub(crate) fn trace(&self) -> Result<Arc<TraceView>, Refusal> {
        self.trace_named("trace")
    }

    pub(crate) fn span(&self, viewed: &TraceView) -> Result<SpanId, Refusal> {
        let id = self.needed("span")?;
        let found = u32::try_from(id).ok().filter(|&id| (id as usize) < viewed.trace.spans().len());
        found.map(SpanId).ok_or_else(|| Refusal::missing(format!("there is no span {id}")))
    }

    pub(crate) fn track(&self, viewed: &TraceView, id: i64) -> Result<TrackId, Refusal> {
        let found =
            u32::try_from(id).ok().filter(|&id| (id as usize) < viewed.trace.tracks().len());
        found.map(TrackId).ok_or_else(|| Refusal::missing(format!("there is no track {id}")))
    }

    /// The tracks that are named, as in `tracks=1,5,7`.
    pub(crate) fn tracks(&self, viewed: &TraceView) -> Result<Vec<TrackId>, Refusal> {
        self.track_numbers().map(|id| self.track(viewed, id?)).collect()
    }

    /// Whatever numbers stand there, whether there is such a track or not.
    pub(crate) fn track_numbers(&self) -> impl Iterator<Item = Result<i64, Refusal>> + use<'a> {
        let named = self.text("tracks").unwrap_or_default().split(',').filter(|id| !id.is_empty());
        named.map(|text| {
            let id = text.parse();
            id.map_err(|_| Refusal::wrong(format!("not a track: {text:.40}")))
        })
    }

    /// The time range, on the trace's own clock; all of it where none is named.
    pub(crate) fn window(&self, viewed: &TraceView) -> Result<(i64, i64), Refusal> {
        let (first, last) = viewed.trace.window().unwrap_or((0, 0));
        let from = self.number("from")?.map_or(first, |time| viewed.to_trace_time(time));
        let to =
            self.number("to")?.map_or(last.saturating_add(1), |time| viewed.to_trace_time(time));
        if to < from {
            return Err(Refusal::wrong("to lies before from"));
        }
        Ok((from, to))
    }

    /// How wide the window is on the screen.
    pub(crate) fn pixels(&self) -> Result<u32, Refusal> {
        const PIXELS_MAX: i64 = 16_384;
        Ok(self.number("pixels")?.unwrap_or(1000).clamp(1, PIXELS_MAX) as u32)
    }
}
