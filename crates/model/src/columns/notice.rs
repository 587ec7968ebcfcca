//! What a reader skipped or repaired: what, where, how often. Nothing is lost
//! silently (I6).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that a reader repaired, ignored or lost; [`NoticeKind`]'s `Display` says what.
#[expect(missing_docs, reason = "the sentences of `text` are the documentation")]
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeKind {
    // Text that had to be repaired; the event was kept.
    BareWord,
    ControlCharacter,
    ExtraComma,
    MissingComma,
    UnescapedQuote,
    InvalidEscape,
    InvalidUtf8,
    // Text that could not be used.
    EventSkipped,
    EventCut,
    FileCut,
    CompressedDataDamaged,
    MetadataSkipped,
    TrailingText,
    TooDamaged,
    // Events that say something odd.
    NoPhase,
    UnknownPhase,
    UnknownRecord,
    NoTime,
    TimeOutOfRange,
    NegativeDuration,
    NoDuration,
    UnmatchedEnd,
    UnfinishedSpan,
    UnmatchedFlow,
    UnlinkedGpuWork,
    LostTimestamp,
    PythonParentElsewhere,
    // More than a trace can hold.
    TooManyCategories,
    NamesLeftOut,
    // Recordings of control flow.
    DecodeError,
    EventsLost,
    UnknownBranch,
    TimeWentBack,
    AbortedTransaction,
    NoSymbols,
    SamplesNotDrawn,
    PythonFromNearby,
}

impl NoticeKind {
    /// True when something of the source is not in the trace.
    pub fn is_loss(self) -> bool {
        use NoticeKind::{
            CompressedDataDamaged, DecodeError, EventCut, EventSkipped, EventsLost, FileCut,
            NamesLeftOut, NoPhase, NoTime, TimeOutOfRange, TooDamaged, TooManyCategories,
            UnknownPhase, UnknownRecord, UnmatchedEnd,
        };
        matches!(
            self,
            EventSkipped
                | EventCut
                | FileCut
                | CompressedDataDamaged
                | TooDamaged
                | NoPhase
                | UnknownPhase
                | UnknownRecord
                | NoTime
                | TimeOutOfRange
                | UnmatchedEnd
                | TooManyCategories
                | NamesLeftOut
                | DecodeError
                | EventsLost
        )
    }

    fn text(self) -> &'static str {
        match self {
            NoticeKind::BareWord => "bare word where JSON wants a value; kept as text",
            NoticeKind::ControlCharacter => "control character inside a string; kept",
            NoticeKind::ExtraComma => "comma too many; ignored",
            NoticeKind::MissingComma => "comma missing; supplied",
            NoticeKind::UnescapedQuote => "unescaped quote inside a string; kept",
            NoticeKind::InvalidEscape => "invalid escape inside a string; kept as it stands",
            NoticeKind::InvalidUtf8 => "text is not UTF-8; odd bytes replaced",
            NoticeKind::EventSkipped => "event unreadable; skipped",
            NoticeKind::EventCut => "event cut off by the end of the file; skipped",
            NoticeKind::FileCut => "file ends early; read up to there",
            NoticeKind::CompressedDataDamaged => "compressed data damaged; read up to there",
            NoticeKind::MetadataSkipped => "metadata not kept",
            NoticeKind::TrailingText => "text after the end of the trace; ignored",
            NoticeKind::TooDamaged => "too damaged to repair piece by piece; skipped",
            NoticeKind::NoPhase => "event without a phase (`ph`); skipped",
            NoticeKind::UnknownPhase => "event of a phase that spanwise does not know; skipped",
            NoticeKind::UnknownRecord => "record of a kind that spanwise does not read; skipped",
            NoticeKind::NoTime => "event without a time (`ts`); skipped",
            NoticeKind::TimeOutOfRange => "time beyond 64-bit nanoseconds; event skipped",
            NoticeKind::NegativeDuration => "negative duration; taken as 0",
            NoticeKind::NoDuration => "complete event without a duration; taken as 0",
            NoticeKind::UnmatchedEnd => "end event without a begin; skipped",
            NoticeKind::UnfinishedSpan => "begin event without an end; closed at the trace's end",
            NoticeKind::UnmatchedFlow => "flow event without a counterpart or a span to stand on",
            NoticeKind::UnlinkedGpuWork => "GPU work whose launch is not in the trace",
            NoticeKind::LostTimestamp => "GPU work with time 0: the recorder lost its timestamp",
            NoticeKind::PythonParentElsewhere => {
                "Python frame whose recorded parent was not open when it began"
            }
            NoticeKind::TooManyCategories => {
                "category beyond the 65,522 that are distinguished; under `[other categories: …]`"
            }
            NoticeKind::NamesLeftOut => "name beyond 2 GiB of names; left empty",
            NoticeKind::DecodeError => "recorder lost its way; stacks begin anew there",
            NoticeKind::EventsLost => "events that the recorder had no room for",
            NoticeKind::UnknownBranch => {
                "branch of a kind that spanwise does not know; taken for what its target suggests"
            }
            NoticeKind::TimeWentBack => {
                "event before the one recorded before it; taken as of the same time"
            }
            NoticeKind::AbortedTransaction => {
                "branch inside a transaction that was aborted; left out"
            }
            NoticeKind::NoSymbols => "file whose functions have no names here",
            NoticeKind::SamplesNotDrawn => {
                "sample too many for the timeline; it counts, but is not drawn"
            }
            NoticeKind::PythonFromNearby => {
                "sample whose Python functions were read shortly before or after it"
            }
        }
    }
}

impl fmt::Display for NoticeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// All notices of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// What happened.
    pub kind: NoticeKind,
    /// How often.
    pub count: u64,
    /// Byte offset of the first one in the (uncompressed) source.
    pub first_offset: u64,
    /// What stood there, shortened; empty where nothing helps.
    pub example: String,
}

/// Notices by kind, one entry each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notices(BTreeMap<NoticeKind, Notice>);

impl Notices {
    const EXAMPLE_CHARS_MAX: usize = 60;

    /// Counts one more, at an offset of the source, with an example of its text.
    pub fn add(&mut self, kind: NoticeKind, offset: u64, example: &[u8]) {
        match self.0.get_mut(&kind) {
            // The example is only made for the first: damage may come in millions.
            Some(notice) if notice.first_offset <= offset => notice.count += 1,
            _ => self.merge_one(Notice {
                kind,
                count: 1,
                first_offset: offset,
                example: shortened(example),
            }),
        }
    }

    /// Adds notices that have no single place, `count` at a time.
    pub fn add_count(&mut self, kind: NoticeKind, count: u64, first_offset: u64) {
        if count > 0 {
            self.merge_one(Notice { kind, count, first_offset, example: String::new() });
        }
    }

    /// Adds those of another piece of the source.
    pub fn merge(&mut self, other: &Notices) {
        for notice in other.0.values() {
            self.merge_one(notice.clone());
        }
    }

    fn merge_one(&mut self, new: Notice) {
        let Some(known) = self.0.get_mut(&new.kind) else {
            self.0.insert(new.kind, new);
            return;
        };
        // Counts of an index may be anything.
        let count = known.count.saturating_add(new.count);
        if new.first_offset < known.first_offset {
            *known = new;
        }
        known.count = count;
    }

    /// All notices, by kind.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Notice> {
        self.0.values()
    }

    /// How often one kind happened.
    pub fn count(&self, kind: NoticeKind) -> u64 {
        self.0.get(&kind).map_or(0, |notice| notice.count)
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Notice> for Notices {
    fn from_iter<I: IntoIterator<Item = Notice>>(notices: I) -> Self {
        let mut all = Notices::default();
        notices.into_iter().for_each(|notice| all.merge_one(notice));
        all
    }
}

fn shortened(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * Notices::EXAMPLE_CHARS_MAX)]);
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    printable.take(Notices::EXAMPLE_CHARS_MAX).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_keeps_the_first_place_and_adds_the_counts() {
        let mut late = Notices::default();
        late.add(NoticeKind::BareWord, 90, b"N/A");
        late.add(NoticeKind::BareWord, 95, b"nan");
        let mut early = Notices::default();
        early.add(NoticeKind::BareWord, 7, b"None\n");
        late.merge(&early);
        let expected = Notice {
            kind: NoticeKind::BareWord,
            count: 3,
            first_offset: 7,
            example: "None".into(),
        };
        assert_eq!(late.iter().collect::<Vec<_>>(), [&expected]);
    }
}
