//! Walking the fields of a message.

/// A message, and where it begins in the outermost one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    bytes: &'a [u8],
    offset: usize,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number of variable width.
    Number(u64),
    /// A number of four or eight bytes.
    Fixed(u64),
    /// A text, a message or packed numbers.
    Bytes(Message<'a>),
}

/// Where a message is damaged, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// The position in the outermost message.
    pub offset: usize,
    /// What is wrong there.
    pub kind: DamageKind,
}

/// What is wrong with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageKind {
    /// It ends inside a number, of which it has this many bytes.
    CutNumber(usize),
    /// It ends inside a field, of which it has this many bytes.
    CutField(usize),
    /// A number does not end within ten bytes.
    EndlessNumber,
    /// No field has this number.
    NoField(u64),
    /// There is no such kind of field.
    NoKind(u64),
}

impl Damage {
    /// Whether more bytes may help.
    pub fn is_cut(self) -> bool {
        matches!(self.kind, DamageKind::CutNumber(_) | DamageKind::CutField(_))
    }
}

impl<'a> Message<'a> {
    /// The outermost message.
    pub fn new(bytes: &'a [u8]) -> Self {
        Message { bytes, offset: 0 }
    }

    /// What is left of it.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Where what is left begins in the outermost message.
    pub fn offset(self) -> usize {
        self.offset
    }

    /// The next field: its number, and what it holds; `None` at the end. Nothing is passed over
    /// where the field is damaged.
    pub fn next_field(&mut self) -> Result<Option<(u32, Value<'a>)>, Damage> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let mut rest = *self;
        let tag = rest.varint()?;
        let Some(number) = u32::try_from(tag >> 3).ok().filter(|&number| number > 0) else {
            return Err(self.damage(DamageKind::NoField(tag >> 3)));
        };
        let value = match tag & 7 {
            0 => Value::Number(rest.varint()?),
            1 => Value::Fixed(rest.fixed(8)?),
            2 => {
                let len = rest.varint()?;
                Value::Bytes(rest.take(len)?)
            }
            5 => Value::Fixed(rest.fixed(4)?),
            kind => return Err(self.damage(DamageKind::NoKind(kind))),
        };
        *self = rest;
        Ok(Some((number, value)))
    }

    /// All fields; those behind damage are missing, and `false` says so.
    pub fn each(mut self, mut take: impl FnMut(u32, Value<'a>)) -> bool {
        loop {
            match self.next_field() {
                Ok(Some((number, value))) => take(number, value),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn damage(self, kind: DamageKind) -> Damage {
        Damage { offset: self.offset, kind }
    }

    fn varint(&mut self) -> Result<u64, Damage> {
        let mut value = 0;
        for (at, &byte) in self.bytes.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f).checked_shl(7 * at as u32).unwrap_or(0);
            if byte < 0x80 {
                self.skip(at + 1);
                return Ok(value);
            }
        }
        Err(self.damage(match self.bytes.len() {
            len @ 0..10 => DamageKind::CutNumber(len),
            _ => DamageKind::EndlessNumber,
        }))
    }

    fn fixed(&mut self, len: u64) -> Result<u64, Damage> {
        let bytes = self.take(len)?.bytes;
        Ok(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    fn take(&mut self, len: u64) -> Result<Message<'a>, Damage> {
        let len = usize::try_from(len).ok().filter(|&len| len <= self.bytes.len());
        let Some(len) = len else {
            return Err(self.damage(DamageKind::CutField(self.bytes.len())));
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

impl<'a> Value<'a> {
    /// A number of any width that stands alone; 0 for bytes.
    pub fn number(self) -> u64 {
        match self {
            Value::Number(value) | Value::Fixed(value) => value,
            Value::Bytes(_) => 0,
        }
    }

    /// A number of variable width that stands alone; 0 for anything else.
    pub fn varint(self) -> u64 {
        match self {
            Value::Number(value) => value,
            Value::Fixed(_) | Value::Bytes(_) => 0,
        }
    }

    /// The bytes; none of a number.
    pub fn bytes(self) -> &'a [u8] {
        self.message().bytes
    }

    /// The message that the bytes are; without fields for a number.
    pub fn message(self) -> Message<'a> {
        match self {
            Value::Bytes(message) => message,
            Value::Number(_) | Value::Fixed(_) => Message::new(&[]),
        }
    }

    /// The text that the bytes are, damaged ones replaced.
    pub fn text(self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// Adds a repeated number of variable width, be it packed or alone. One of fixed width is of
    /// another field.
    pub fn add_varints(self, numbers: &mut Vec<u64>) -> Result<(), Damage> {
        match self {
            Value::Number(number) => numbers.push(number),
            Value::Fixed(_) => {}
            Value::Bytes(mut packed) => {
                while !packed.bytes.is_empty() {
                    numbers.push(packed.varint()?);
                }
            }
        }
        Ok(())
    }

    /// Adds a repeated number of eight bytes, be it packed or alone.
    pub fn add_fixed64(self, numbers: &mut Vec<u64>) -> Result<(), Damage> {
        match self {
            Value::Number(number) | Value::Fixed(number) => numbers.push(number),
            Value::Bytes(mut packed) => {
                while !packed.bytes.is_empty() {
                    numbers.push(packed.fixed(8)?);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Result<Vec<String>, Damage> {
        let mut message = Message::new(bytes);
        let mut shown = Vec::new();
        while let Some((field, value)) = message.next_field()? {
            shown.push(match value {
                Value::Number(number) => format!("{field}={number}"),
                Value::Bytes(bytes) => format!("{field}={:?}@{}", bytes.bytes, bytes.offset),
                Value::Fixed(number) => format!("{field}=fixed {number}"),
            });
        }
        Ok(shown)
    }

    #[test]
    fn fields_of_every_kind_are_walked() {
        let bytes = [8, 0x96, 1, 0x12, 2, 7, 8, 0x1d, 1, 0, 0, 0, 0x21, 2, 0, 0, 0, 0, 0, 0, 1];
        let last = format!("4=fixed {}", 1_u64 << 56 | 2);
        let expected = ["1=150", "2=[7, 8]@5", "3=fixed 1", &last];
        assert_eq!(fields(&bytes), Ok(expected.map(str::to_owned).to_vec()));
    }

    #[track_caller]
    fn check_damage(bytes: &[u8], offset: usize, kind: DamageKind, is_cut: bool) {
        let damage = fields(bytes).expect_err("damage");
        assert_eq!(damage, Damage { offset, kind });
        assert_eq!(damage.is_cut(), is_cut);
        let mut message = Message::new(bytes);
        while let Ok(Some(_)) = message.next_field() {}
        let before = message;
        assert!(message.next_field().is_err());
        assert_eq!(message, before, "a damaged field is not passed over");
    }

    #[test]
    fn damage_is_named_with_its_place() {
        check_damage(&[8], 1, DamageKind::CutNumber(0), true);
        check_damage(&[8, 0x80], 1, DamageKind::CutNumber(1), true);
        check_damage(&[0x12, 3, 1], 2, DamageKind::CutField(1), true);
        check_damage(&[0x21, 3, 1], 1, DamageKind::CutField(2), true);
        check_damage(&[8, 1, 0x0b], 2, DamageKind::NoKind(3), false);
        check_damage(&[0, 1], 0, DamageKind::NoField(0), false);
        let endless = [[8].as_slice(), &[0xff; 11]].concat();
        check_damage(&endless, 1, DamageKind::EndlessNumber, false);
        let long = [0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        check_damage(&long, 11, DamageKind::CutField(0), true);
    }

    #[test]
    fn repeated_numbers_are_packed_or_alone() {
        let packed = Value::Bytes(Message::new(&[1, 0x96, 1]));
        let mut numbers = Vec::new();
        assert_eq!(packed.add_varints(&mut numbers), Ok(()));
        assert_eq!(Value::Number(7).add_varints(&mut numbers), Ok(()));
        assert_eq!(Value::Fixed(8).add_varints(&mut numbers), Ok(()));
        let fixed = Value::Bytes(Message::new(&[3, 0, 0, 0, 0, 0, 0, 0, 9]));
        assert!(fixed.add_fixed64(&mut numbers).is_err());
        assert_eq!(Value::Fixed(4).add_fixed64(&mut numbers), Ok(()));
        assert_eq!(numbers, [1, 150, 7, 3, 4]);
    }
}
