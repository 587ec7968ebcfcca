//! The branch part of a line: `FLAGS SOURCE => TARGET`.

use spanwise_callstack::{BranchKind, TraceEdge};

use super::place_text::PlaceText;
use crate::perf::words::{hexadecimal, split_word};

/// What the words before the addresses say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags {
    pub(crate) kind: BranchKind,
    pub(crate) edge: TraceEdge,
    pub(crate) is_in_transaction: bool,
    /// There was a word that perf did not print when this was written.
    pub(crate) is_odd: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BranchText<'a> {
    pub(crate) flags: Flags,
    pub(crate) from: PlaceText<'a>,
    pub(crate) to: PlaceText<'a>,
}

impl<'a> BranchText<'a> {
    pub(crate) fn read(text: &'a [u8]) -> Option<BranchText<'a>> {
        // Names may hold arrows, so the last one that leads to an address counts.
        for head in memchr::memrchr_iter(b'>', text) {
            let is_arrow = text[..head].ends_with(b" =") && text.get(head + 1) == Some(&b' ');
            if !is_arrow {
                continue;
            }
            let Some(to) = PlaceText::read(&text[head + 1..]) else { continue };
            let (flags, from) = read_flags(&text[..head - 2]);
            return Some(BranchText { flags, from: PlaceText::read(from)?, to });
        }
        None
    }
}

/// True for what should have been a branch, but has lost a part.
pub(crate) fn seems_branch(text: &[u8]) -> bool {
    let words: [&[u8]; 12] = [
        b"call", b"return", b"jmp", b"jcc", b"int", b"hw", b"syscall", b"sysret", b"iret", b"tx",
        b"tr", b"async",
    ];
    words.contains(&split_word(text).0) && text.contains(&b'(')
}

/// Reads words up to the address.
fn read_flags(mut text: &[u8]) -> (Flags, &[u8]) {
    let mut flags = Flags::default();
    let mut is_said = false;
    loop {
        let (word, rest) = split_word(text);
        if word.is_empty() || hexadecimal(word).is_some() {
            if !is_said {
                flags.kind = BranchKind::Unsaid;
            }
            return (flags, text);
        }
        is_said = true;
        flags.add(word);
        text = rest;
    }
}

impl Flags {
    fn add(&mut self, word: &[u8]) {
        // Such as `jcc/miss,not_taken/`.
        let plain = memchr::memchr(b'/', word).map_or(word, |slash| &word[..slash]);
        let kind = match plain {
            b"call" => BranchKind::Call,
            b"return" | b"ret" => BranchKind::Return,
            b"jmp" | b"jcc" => BranchKind::Jump,
            b"int" if self.kind == BranchKind::HardwareInterrupt => return,
            b"int" => BranchKind::Interrupt,
            b"hw" | b"vmentry" => BranchKind::HardwareInterrupt,
            b"syscall" => BranchKind::Syscall,
            b"sysret" => BranchKind::SyscallReturn,
            b"iret" | b"vmexit" => BranchKind::InterruptReturn,
            b"tx" | b"abrt" => BranchKind::TransactionAbort,
            b"async" => BranchKind::Asynchronous,
            // The first half of `tr strt` and `tr end`.
            b"tr" => return,
            b"strt" | b"end" => return self.add_edge(plain == b"strt"),
            [b'(', ..] => return self.is_in_transaction |= plain.contains(&b'x'),
            _ => {
                self.is_odd = true;
                BranchKind::Unsaid
            }
        };
        if self.kind == BranchKind::None {
            self.kind = kind;
        }
    }

    fn add_edge(&mut self, is_start: bool) {
        self.edge = match (self.edge, is_start) {
            (TraceEdge::Within, true) => TraceEdge::Start,
            (TraceEdge::Within, false) => TraceEdge::End,
            _ => TraceEdge::Blink,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(flags: &str, kind: BranchKind, edge: TraceEdge, is_in_transaction: bool) {
        let text = format!("   {flags}    40 f+0x1 (a.so) =>    50 g+0x0 (a.so)");
        let branch = BranchText::read(text.as_bytes()).expect("a branch");
        let expected = Flags { kind, edge, is_in_transaction, is_odd: false };
        assert_eq!(branch.flags, expected, "{flags}");
        assert_eq!((branch.from.name, branch.to.name), (&b"f"[..], &b"g"[..]), "{flags}");
    }

    #[test]
    fn all_kinds_are_known() {
        use {BranchKind as Kind, TraceEdge as Edge};
        check("call", Kind::Call, Edge::Within, false);
        check("return", Kind::Return, Edge::Within, false);
        check("jmp", Kind::Jump, Edge::Within, false);
        check("jcc", Kind::Jump, Edge::Within, false);
        check("jcc/not_taken/", Kind::Jump, Edge::Within, false);
        check("jmp (x)", Kind::Jump, Edge::Within, true);
        check("call (xD)", Kind::Call, Edge::Within, true);
        check("int", Kind::Interrupt, Edge::Within, false);
        check("hw int", Kind::HardwareInterrupt, Edge::Within, false);
        check("syscall", Kind::Syscall, Edge::Within, false);
        check("sysret", Kind::SyscallReturn, Edge::Within, false);
        check("iret", Kind::InterruptReturn, Edge::Within, false);
        check("tx abrt", Kind::TransactionAbort, Edge::Within, false);
        check("async", Kind::Asynchronous, Edge::Within, false);
        check("tr strt", Kind::None, Edge::Start, false);
        check("tr strt jmp", Kind::Jump, Edge::Start, false);
        check("tr end", Kind::None, Edge::End, false);
        check("tr end  call", Kind::Call, Edge::End, false);
        check("tr end  async", Kind::Asynchronous, Edge::End, false);
        check("tr end  hw int", Kind::HardwareInterrupt, Edge::End, false);
        check("tr strt tr end", Kind::None, Edge::Blink, false);
        check("", Kind::Unsaid, Edge::Within, false);
    }

    #[test]
    fn a_new_word_is_odd_and_no_reason_to_stop() {
        let text = b"leap 40 f+0x1 (a) => 50 g+0x0 (a)";
        let flags = BranchText::read(text).expect("a branch").flags;
        assert!(flags.is_odd);
        assert_eq!(flags.kind, BranchKind::Unsaid);
    }

    #[test]
    fn the_last_arrow_that_leads_somewhere_counts() {
        let text = b"call 40 a => 7+0x1 (a) => 50 map<int> => go+0x0 (b)";
        let branch = BranchText::read(text).expect("a branch");
        assert_eq!((branch.from.name, branch.to.name), (&b"a => 7"[..], &b"map<int> => go"[..]));
        assert_eq!(BranchText::read(b"cycles: no arrow"), None);
    }
}
