//! Protobuf's wire format: fields of a message, one after the other.

use super::NotAProfile;

/// A message, and where in the file it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    bytes: &'a [u8],
    offset: usize,
}

/// What a field holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Number(u64),
    /// A text, a message or packed numbers.
    Bytes(Message<'a>),
    /// Of a fixed width; no field of a profile is.
    Fixed,
}

/// A field: its number, and what it holds.
pub(super) type Field<'a> = (u32, Value<'a>);

impl<'a> Message<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Message { bytes, offset: 0 }
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Where the message begins in the file.
    pub(super) fn offset(self) -> u64 {
        self.offset as u64
    }

    /// An error at the place where the message begins.
    pub(super) fn error(self, what: &'static str, found: impl ToString) -> NotAProfile {
        NotAProfile { offset: self.offset(), what, found: found.to_string() }
    }

    /// The next field; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Field<'a>>, NotAProfile> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let start = *self;
        let tag = self.varint()?;
        let Some(field) = u32::try_from(tag >> 3).ok().filter(|&field| field > 0) else {
            return Err(start.error("a field number out of range", tag >> 3));
        };
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let len = self.varint()?;
                Value::Bytes(self.take(len)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            kind => return Err(start.error("no such kind of field", kind)),
        };
        Ok(Some((field, value)))
    }

    pub(super) fn varint(&mut self) -> Result<u64, NotAProfile> {
        let mut value = 0;
        for (at, &byte) in self.bytes.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f).checked_shl(7 * at as u32).unwrap_or(0);
            if byte < 0x80 {
                self.skip(at + 1);
                return Ok(value);
            }
        }
        match self.bytes.len() {
            0..10 => Err(self.error("ends inside a number", self.bytes.len())),
            _ => Err(self.error("a number of more than ten bytes", "no end")),
        }
    }

    fn take(&mut self, len: u64) -> Result<Message<'a>, NotAProfile> {
        let len = usize::try_from(len).ok().filter(|&len| len <= self.bytes.len());
        let Some(len) = len else {
            return Err(self.error("ends inside a field", self.bytes.len()));
        };
        let taken = Message { bytes: &self.bytes[..len], offset: self.offset };
        self.skip(len);
        Ok(taken)
    }

    fn skip(&mut self, len: usize) {
        self.bytes = &self.bytes[len..];
        self.offset += len;
    }
}

impl Value<'_> {
    /// A number that stands alone; others count as not there.
    pub(super) fn number(self) -> u64 {
        match self {
            Value::Number(number) => number,
            Value::Bytes(_) | Value::Fixed => 0,
        }
    }

    /// Adds a repeated number, be it packed or alone.
    pub(super) fn push_numbers(self, numbers: &mut Vec<u64>) -> Result<(), NotAProfile> {
        match self {
            Value::Number(number) => numbers.push(number),
            Value::Bytes(mut packed) => {
                while !packed.bytes.is_empty() {
                    numbers.push(packed.varint()?);
                }
            }
            Value::Fixed => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Result<Vec<String>, String> {
        let mut message = Message::new(bytes);
        let mut shown = Vec::new();
        while let Some((field, value)) = message.next().map_err(|error| error.to_string())? {
            shown.push(match value {
                Value::Number(number) => format!("{field}={number}"),
                Value::Bytes(bytes) => format!("{field}={:?}@{}", bytes.bytes, bytes.offset),
                Value::Fixed => format!("{field}=fixed"),
            });
        }
        Ok(shown)
    }

    #[track_caller]
    fn check_error(bytes: &[u8], expected: &str) {
        assert_eq!(fields(bytes), Err(format!("byte {expected}")));
    }

    #[test]
    fn fields_of_every_kind_are_walked() {
        let bytes = [8, 0x96, 1, 0x12, 2, 7, 8, 0x1d, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0, 0, 0, 0];
        let expected = ["1=150", "2=[7, 8]@5", "3=fixed", "4=fixed"];
        assert_eq!(fields(&bytes), Ok(expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn damage_is_said_with_its_place() {
        check_error(&[8], "1: not a profile: ends inside a number (0)");
        check_error(&[8, 0x80], "1: not a profile: ends inside a number (1)");
        check_error(&[0x12, 3, 1], "2: not a profile: ends inside a field (1)");
        check_error(&[8, 1, 0x0b], "2: not a profile: no such kind of field (3)");
        check_error(&[0, 1], "0: not a profile: a field number out of range (0)");
        let endless = [[8].as_slice(), &[0xff; 11]].concat();
        check_error(&endless, "1: not a profile: a number of more than ten bytes (no end)");
        let long = [0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        check_error(&long, "11: not a profile: ends inside a field (0)");
    }
}
