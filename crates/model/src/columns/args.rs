//! Arguments of events, read from the source only when someone asks.
//!
//! They make up most of a trace's bytes and few questions need them, so a trace
//! keeps the offset of each event and a reader gives the arguments on request.

/// One argument value. Integers of any size survive.
#[derive(Debug, Clone, PartialEq)]
pub enum ArgValue {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number that is no `i64`, as its source wrote it.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<ArgValue>),
    /// A map, in the order of the source.
    Map(Vec<(String, ArgValue)>),
}

impl ArgValue {
    /// The value as an integer, if it is one.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            ArgValue::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The value as a text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            ArgValue::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Gives the arguments of the event at an offset of the source.
///
/// Implemented by readers; the model itself never touches a file.
pub trait ArgsSource: Send + Sync {
    /// The arguments in the order of the source; empty where there are none.
    fn args(&self, offset: u64) -> Result<Vec<(String, ArgValue)>, String>;

    /// The values of some arguments, in the order of `keys`; of a key that comes
    /// twice the first. A reader that can pass over the others does so.
    fn pick(&self, offset: u64, keys: &[&str]) -> Result<Vec<Option<ArgValue>>, String> {
        Ok(pick_from(&self.args(offset)?, keys))
    }
}

/// The values of some arguments, in the order of `keys`.
pub fn pick_from(args: &[(String, ArgValue)], keys: &[&str]) -> Vec<Option<ArgValue>> {
    let value = |key: &&str| args.iter().find(|(name, _)| name == key);
    keys.iter().map(|key| value(key).map(|(_, value)| value.clone())).collect()
}
