//! Reads JSON that is not quite JSON: what real profilers write on bad days.
//!
//! Unescaped quotes, bare words such as `N/A`, commas too many or too few. Slower
//! than `scan` and used only where that failed, and for arguments, which are read
//! on request. A string ends at the first quote behind which the text goes on as
//! JSON would: that is what distinguishes a stray quote from a closing one.

use spanwise_model::{ArgValue, NoticeKind};

use super::event::Event;
use super::scan::{Piece, skip_blanks};
use super::text;
use super::text::StringDamage;

/// A value with its place in the text.
#[derive(Debug)]
pub(crate) enum Node {
    Text(Piece),
    Scalar(Piece),
    List(Piece, Vec<Node>),
    Map(Piece, Vec<(Piece, Node)>),
}

/// Where a string stands; it decides what may follow its closing quote.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Key,
    Member,
    Element,
}

/// How far into nested brackets a reader goes before it gives up.
const DEPTH_MAX: u32 = 64;

/// How far a single event may reach. Real ones stay below a few kilobytes.
const EVENT_BYTES_MAX: usize = 2 << 20;

/// The longest key that is searched for behind a comma.
const KEY_BYTES_MAX: usize = 256;

/// A walk over damaged text. Failing, it gives the position that made no sense.
pub(crate) struct Walk<'t> {
    text: &'t [u8],
    pub(crate) notes: Vec<(NoticeKind, usize)>,
    /// A control character stands in one of the strings.
    has_control: bool,
}

impl<'t> Walk<'t> {
    pub(crate) fn new(text: &'t [u8], from: usize) -> Self {
        let text = &text[..text.len().min(from + EVENT_BYTES_MAX)];
        Walk { text, notes: Vec::new(), has_control: false }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.get(at).copied()
    }

    pub(crate) fn value(&mut self, at: usize, depth: u32) -> Result<(Node, usize), usize> {
        self.value_as(Role::Member, at, depth)
    }

    fn value_as(&mut self, role: Role, at: usize, depth: u32) -> Result<(Node, usize), usize> {
        match self.byte(at) {
            Some(b'"') => {
                let piece = self.string(role, at + 1)?;
                Ok((Node::Text(piece), piece.to + 1))
            }
            Some(b'{' | b'[') if depth == DEPTH_MAX => Err(at),
            Some(b'{') => self.map(at, depth + 1),
            Some(b'[') => self.list(at, depth + 1),
            Some(_) => self.scalar(at),
            None => Err(at),
        }
    }

    /// Blanks and commas between members: one comma is right, except at the start.
    fn separators(&mut self, mut at: usize, is_first: bool) -> usize {
        let mut commas = 0;
        loop {
            at = skip_blanks(self.text, at);
            if self.byte(at) != Some(b',') {
                break;
            }
            commas += 1;
            if commas > u32::from(!is_first) {
                self.notes.push((NoticeKind::ExtraComma, at));
            }
            at += 1;
        }
        let is_close = matches!(self.byte(at), Some(b'}' | b']') | None);
        if commas == 0 && !is_first && !is_close {
            self.notes.push((NoticeKind::MissingComma, at));
        }
        if commas == 1 && !is_first && is_close {
            self.notes.push((NoticeKind::ExtraComma, at));
        }
        at
    }

    fn map(&mut self, open: usize, depth: u32) -> Result<(Node, usize), usize> {
        let mut members = Vec::new();
        let mut at = open + 1;
        loop {
            at = self.separators(at, members.is_empty());
            match self.byte(at) {
                Some(b'}') => {
                    let piece = Piece { from: open, to: at + 1, escapes: 0 };
                    return Ok((Node::Map(piece, members), at + 1));
                }
                Some(b'"') => {}
                _ => return Err(at),
            }
            let key = self.string(Role::Key, at + 1)?;
            at = skip_blanks(self.text, key.to + 1);
            at = skip_blanks(self.text, at + 1);
            let node;
            (node, at) = self.value_as(Role::Member, at, depth)?;
            members.push((key, node));
        }
    }

    fn list(&mut self, open: usize, depth: u32) -> Result<(Node, usize), usize> {
        let mut elements = Vec::new();
        let mut at = open + 1;
        loop {
            at = self.separators(at, elements.is_empty());
            match self.byte(at) {
                Some(b']') => {
                    let piece = Piece { from: open, to: at + 1, escapes: 0 };
                    return Ok((Node::List(piece, elements), at + 1));
                }
                Some(b'}' | b':') | None => return Err(at),
                // The list lacks its bracket: read on, it would swallow what follows.
                Some(b'"') if self.is_key(at) => return Err(at),
                Some(_) => {}
            }
            let node;
            (node, at) = self.value_as(Role::Element, at, depth)?;
            elements.push(node);
        }
    }

    /// A number or a word, up to what must end it.
    fn scalar(&mut self, at: usize) -> Result<(Node, usize), usize> {
        let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b'\n' | b'"' | b'{' | b'[');
        let len = self.text[at..].iter().position(is_end).ok_or(self.text.len())?;
        let word = self.text[at..at + len].trim_ascii_end();
        if word.is_empty() {
            return Err(at);
        }
        let is_number = serde_json::from_slice::<serde_json::Number>(word).is_ok();
        if !is_number && !matches!(word, b"true" | b"false" | b"null") {
            self.notes.push((NoticeKind::BareWord, at));
        }
        let piece = Piece { from: at, to: at + word.len(), escapes: 0 };
        Ok((Node::Scalar(piece), at + len))
    }

    /// The string that begins at `from`, up to the quote that plausibly ends it.
    fn string(&mut self, role: Role, from: usize) -> Result<Piece, usize> {
        let mut escapes = 0;
        let mut strays = Vec::new();
        let mut at = from;
        while let Some(step) = memchr::memchr2(b'"', b'\\', self.text.get(at..).unwrap_or(b"")) {
            at += step;
            if self.text[at] == b'\\' {
                escapes += 1;
                at += 2;
            } else if self.closes(role, at) {
                if !strays.is_empty() && self.swallows_event(role, from, at) {
                    return Err(at);
                }
                self.notes.extend(strays.iter().map(|&at| (NoticeKind::UnescapedQuote, at)));
                self.has_control |= self.text[from..at].iter().any(|&byte| byte < 0x20);
                return Ok(Piece { from, to: at, escapes });
            } else {
                strays.push(at);
                at += 1;
            }
            // A text with this many quotes is no name.
            if strays.len() > KEY_BYTES_MAX {
                return Err(at);
            }
        }
        Err(self.text.len())
    }

    /// Whether a string with stray quotes is two with a quote missing between them,
    /// so that reading on would make one event of two.
    fn swallows_event(&self, role: Role, from: usize, quote: usize) -> bool {
        let string = &self.text[from..=quote];
        if memchr::memmem::find(string, b"\"ph\"").is_some() {
            return true;
        }
        // Objects inside a list inside the string may well be intended as text.
        let mut depth = 0;
        for (at, byte) in string.iter().enumerate() {
            match byte {
                b'{' if role == Role::Key => return true,
                b'{' if depth <= 0 && string[..at].trim_ascii_end().ends_with(b",") => return true,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
        }
        false
    }

    /// Whether the text behind the quote goes on as it would behind a string.
    fn closes(&self, role: Role, quote: usize) -> bool {
        let next = skip_blanks(self.text, quote + 1);
        match (role, self.byte(next)) {
            (Role::Key, byte) => byte == Some(b':'),
            (Role::Element, byte) => matches!(byte, Some(b',' | b']')),
            (Role::Member, Some(b'}')) => true,
            (Role::Member, Some(b'"')) => self.is_key(next),
            (Role::Member, Some(b',')) => {
                let after = skip_blanks(self.text, next + 1);
                match self.byte(after) {
                    Some(b'"') => self.is_key(after),
                    byte => matches!(byte, Some(b',' | b'}')),
                }
            }
            (Role::Member, _) => false,
        }
    }

    /// Whether a short string and a colon begin at this quote.
    fn is_key(&self, quote: usize) -> bool {
        let reach = self.text.len().min(quote + 1 + KEY_BYTES_MAX);
        let Some(len) = memchr::memchr(b'"', &self.text[quote + 1..reach]) else { return false };
        self.byte(skip_blanks(self.text, quote + len + 2)) == Some(b':')
    }
}

/// Reads the damaged event that opens at `at`; gives the position after it.
pub(crate) fn event(walk: &mut Walk<'_>, at: usize) -> Result<(Event, usize), usize> {
    let (node, end) = walk.value(at, 0)?;
    let Node::Map(_, members) = node else { return Err(at) };
    let has_control = walk.has_control;
    let mut event = Event { is_repaired: true, has_control, ..Event::default() };
    for (key, node) in &members {
        let (Node::Text(piece) | Node::Scalar(piece) | Node::List(piece, _) | Node::Map(piece, _)) =
            *node;
        event.set_by_key(walk.text, key.of(walk.text), piece);
    }
    Ok((event, end))
}

/// The members of the object at `piece`, as values; empty where it is none.
pub(crate) fn members(text: &[u8], piece: Piece) -> Vec<(String, ArgValue)> {
    let text = &text[..piece.to];
    match Walk::new(text, piece.from).value(piece.from, 0) {
        Ok((Node::Map(_, members), _)) => {
            members.iter().map(|(key, node)| (string(text, *key), to_value(text, node))).collect()
        }
        _ => Vec::new(),
    }
}

pub(crate) fn to_value(text: &[u8], node: &Node) -> ArgValue {
    match node {
        Node::Text(piece) => ArgValue::Text(string(text, *piece)),
        Node::List(_, nodes) => {
            ArgValue::List(nodes.iter().map(|node| to_value(text, node)).collect())
        }
        Node::Map(_, members) => {
            let member = |(key, node): &(Piece, Node)| (string(text, *key), to_value(text, node));
            ArgValue::Map(members.iter().map(member).collect())
        }
        Node::Scalar(piece) => scalar_value(piece.of(text)),
    }
}

fn scalar_value(word: &[u8]) -> ArgValue {
    if let Some(value) = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok()) {
        return ArgValue::Int(value);
    }
    let word = String::from_utf8_lossy(word);
    match &*word {
        "null" => ArgValue::Null,
        "true" => ArgValue::Bool(true),
        "false" => ArgValue::Bool(false),
        word if serde_json::from_str::<serde_json::Number>(word).is_ok() => {
            ArgValue::Number(word.to_owned())
        }
        word => ArgValue::Text(word.to_owned()),
    }
}

fn string(text: &[u8], piece: Piece) -> String {
    text::decode(piece.of(text), &mut StringDamage::default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, name: &str, notes: &[NoticeKind]) {
        let mut walk = Walk::new(text.as_bytes(), 0);
        let (event, end) = event(&mut walk, 0).expect("readable");
        assert_eq!(end, text.len());
        assert_eq!(string(text.as_bytes(), event.name), name);
        assert_eq!(walk.notes.iter().map(|note| note.0).collect::<Vec<_>>(), notes);
    }

    #[test]
    fn stray_quotes_stay_in_the_string() {
        use NoticeKind::UnescapedQuote as Quote;
        check(r#"{"name": "f"x"y", "ph": "X"}"#, r#"f"x"y"#, &[Quote, Quote]);
        check(r#"{"ph": "X", "name": "lambda: "a", b"}"#, r#"lambda: "a", b"#, &[Quote, Quote]);
        let path = r#"{"name": "a", "args": {"file": "x"y.py", "l": [["p"q", "r"]]}}"#;
        check(path, "a", &[Quote, Quote]);
    }

    #[test]
    fn bare_words_and_commas() {
        use NoticeKind::{BareWord, ExtraComma, MissingComma};
        check(r#"{"name": "a", "dur": N/A, "x": -inf}"#, "a", &[BareWord, BareWord]);
        check(r#"{,"name": "a",, "dur": 1,}"#, "a", &[ExtraComma, ExtraComma, ExtraComma]);
        check(
            r#"{"name": "a" "dur": 1 "x": [1 2,]}"#,
            "a",
            &[MissingComma, MissingComma, BareWord, ExtraComma],
        );
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = format!("{{\"a\": {}", "[".repeat(100_000));
        assert!(event(&mut Walk::new(deep.as_bytes(), 0), 0).is_err());
    }

    #[test]
    fn large_integers_survive() {
        let text = br#"{"a": 10159970886766084423, "b": -5, "c": 1.50, "d": [true, null]}"#;
        let piece = Piece { from: 0, to: text.len(), escapes: 0 };
        let expected = [
            ("a".to_owned(), ArgValue::Number("10159970886766084423".into())),
            ("b".to_owned(), ArgValue::Int(-5)),
            ("c".to_owned(), ArgValue::Number("1.50".into())),
            ("d".to_owned(), ArgValue::List(vec![ArgValue::Bool(true), ArgValue::Null])),
        ];
        assert_eq!(members(text, piece), expected);
    }
}
