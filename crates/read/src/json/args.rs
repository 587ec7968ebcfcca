//! Arguments of single events, read on request.
//!
//! All of them go through `lenient`, which builds a tree; picking a few passes over
//! the rest as quickly as reading does.

use std::cell::RefCell;

use spanwise_model::{ArgValue, pick_from};

use super::syntax::event;
use super::syntax::event::{Event, EventLayout};
use super::syntax::lenient;
use super::syntax::lenient::Node;
use super::syntax::scan;
use super::syntax::scan::{Piece, skip_blanks};
use super::syntax::simd;

thread_local! {
    /// The layout of the events asked for on this thread: those of one trace are alike.
    static LAYOUT: RefCell<EventLayout> = RefCell::new(EventLayout::new());
}

/// The arguments of the event at `offset`.
pub(crate) fn args_at(text: &[u8], offset: u64) -> Vec<(String, ArgValue)> {
    match args_piece(text, offset) {
        Some(args) => lenient::members(text, args),
        None => Vec::new(),
    }
}

/// The values of some arguments of the event at `offset`, in the order of `keys`.
pub(crate) fn pick_at(text: &[u8], offset: u64, keys: &[&str]) -> Vec<Option<ArgValue>> {
    let Some(args) = args_piece(text, offset) else { return vec![None; keys.len()] };
    match simd::dispatch(Picking { text, args, keys }) {
        Some(values) => values,
        None => pick_from(&lenient::members(text, args), keys),
    }
}

/// Where the arguments of the event at `offset` stand.
fn args_piece(text: &[u8], offset: u64) -> Option<Piece> {
    let at = usize::try_from(offset).ok().filter(|&at| at < text.len())?;
    let event = LAYOUT.with_borrow_mut(|layout| simd::dispatch(EventAt { text, at, layout }));
    let event = match event {
        Some(event) => event,
        None => lenient::event(&mut lenient::Walk::new(text, at), at).ok()?.0,
    };
    (!event.args.is_empty()).then_some(event.args)
}

/// A well-formed event, read with the best instructions at hand. The layout is borrowed
/// outside: a closure inside would be compiled for the plainest of machines.
struct EventAt<'t> {
    text: &'t [u8],
    at: usize,
    layout: &'t mut EventLayout,
}

impl simd::Work for EventAt<'_> {
    type Output = Option<Event>;

    #[inline(always)]
    fn run<S: simd::Simd>(self) -> Option<Event> {
        let mut event = Event::default();
        event::strict::<S>(self.text, self.at, self.layout, &mut event).ok()?;
        Some(event)
    }
}

/// A walk over well-formed arguments; `None` at the first anomaly.
struct Picking<'t> {
    text: &'t [u8],
    args: Piece,
    keys: &'t [&'t str],
}

impl simd::Work for Picking<'_> {
    type Output = Option<Vec<Option<ArgValue>>>;

    #[inline(always)]
    fn run<S: simd::Simd>(self) -> Self::Output {
        let mut found = vec![None; self.keys.len()];
        // Not cut at the end of the arguments: scanning whole blocks is quicker.
        let text = self.text;
        let mut at = skip_blanks(text, self.args.from + 1);
        if text.get(at) == Some(&b'}') {
            return Some(found);
        }
        // Damage anywhere may shift what a key means, so the walk never stops early.
        let mut is_odd = false;
        loop {
            let key = scan::string::<S>(text, scan::expect(text, at, b'"').ok()?, &mut is_odd);
            let key = key.ok().filter(|key| key.escapes == 0)?;
            at = skip_blanks(text, key.to + 1);
            at = skip_blanks(text, scan::expect(text, at, b':').ok()?);
            let end = scan::value_end::<S>(text, at, &mut is_odd).ok()?;
            if end >= self.args.to {
                return None;
            }
            let slot = self.keys.iter().position(|name| event::same(name.as_bytes(), key.of(text)));
            if let Some(slot) = slot.filter(|&slot| found[slot].is_none()) {
                found[slot] = Some(value_at(text, at, end)?);
            }
            at = skip_blanks(text, end);
            match text.get(at) {
                Some(b',') => at = skip_blanks(text, at + 1),
                Some(b'}') => return Some(found),
                _ => return None,
            }
        }
    }
}

/// The well-formed value between two positions.
fn value_at(text: &[u8], from: usize, to: usize) -> Option<ArgValue> {
    let node = match text[from] {
        b'"' => Node::Text(Piece { from: from + 1, to: to - 1, escapes: 0 }),
        b'{' | b'[' => lenient::Walk::new(&text[..to], from).value(from, 0).ok()?.0,
        _ => Node::Scalar(Piece { from, to, escapes: 0 }),
    };
    Some(lenient::to_value(text, &node))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Picking gives what searching all arguments gives.
    #[track_caller]
    fn check(args: &str, keys: &[&str]) {
        let text = format!(r#"{{"ph": "X", "name": "f", "args": {args}, "ts": 1}}"#);
        let all = pick_from(&args_at(text.as_bytes(), 0), keys);
        assert_eq!(pick_at(text.as_bytes(), 0, keys), all, "{args}");
    }

    /// What is well-formed is picked by the quick walk, not by reading all.
    #[track_caller]
    fn check_quick(args: &str, keys: &[&str]) {
        check(args, keys);
        let args_piece = Piece { from: 0, to: args.len(), escapes: 0 };
        let quick = simd::dispatch(Picking { text: args.as_bytes(), args: args_piece, keys });
        assert!(quick.is_some(), "{args}");
    }

    #[test]
    fn picking_agrees_with_reading_all() {
        let keys = ["a", "long key of many bytes", "c", "absent"];
        check("7", &keys);
        check(r#"{"\u0061": 1, "a": -1.5e3}"#, &keys);
        check_quick("{}", &keys);
        let nested = r#"{"a": 1, "b": 2, "c": [1, {"a": 3}], "long key of many bytes": "x\ny"}"#;
        check_quick(nested, &keys);
        check_quick(r#"{"b": {"a": 3}, "a": 10159970886766084423, "a": 5}"#, &keys);
        check_quick(r#"{"b": 1, "a": -1.5e3, "c": "a\"\u0062"}"#, &keys);
        check_quick("{ \"c\" :\n null , \"a\": true }", &keys);
    }

    #[test]
    fn damage_is_read_as_when_all_are_read() {
        let keys = ["a", "c"];
        check(r#"{"a": N/A, "c": 1}"#, &keys);
        check(r#"{"b": "x"y", "a": 1}"#, &keys);
        check(r#"{"a": 1,, "c": 2}"#, &keys);
        check(r#"{"a": 1 "c": 2}"#, &keys);
    }
}
