//! Putting messages together.

use std::io;

/// The bytes of a message while it is put together.
#[derive(Debug, Clone, Default)]
pub struct MessageWriter(Vec<u8>);

impl MessageWriter {
    /// The message as it is so far.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Begins a new message in the memory of this one.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A number of variable width.
    pub fn uint(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    /// A number of variable width that is left out where it is 0, which is what a missing one is.
    pub fn nonzero(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.uint(field, value);
        }
    }

    /// A number of eight bytes.
    pub fn fixed64(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A text.
    pub fn text(&mut self, field: u32, text: &str) {
        self.add_bytes(field, text.as_bytes());
    }

    /// A message in the message.
    pub fn message(&mut self, field: u32, message: &MessageWriter) {
        self.add_bytes(field, &message.0);
    }

    /// The fields of another message, as if they were of this one.
    pub fn fields(&mut self, message: &MessageWriter) {
        self.0.extend_from_slice(&message.0);
    }

    /// Packed numbers of variable width; nothing where there are none.
    pub fn packed(&mut self, field: u32, values: impl Iterator<Item = u64> + Clone) {
        let len: usize = values.clone().map(varint_len).sum();
        if len == 0 {
            return;
        }
        self.varint(u64::from(field) << 3 | 2);
        self.varint(len as u64);
        for value in values {
            self.varint(value);
        }
    }

    fn add_bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Writes the message as a field of the outermost one.
    pub fn write(&self, field: u32, out: &mut dyn io::Write) -> io::Result<()> {
        write_bytes(field, &self.0, out)
    }

    /// Writes a text as a field of the outermost message.
    pub fn write_text(field: u32, text: &str, out: &mut dyn io::Write) -> io::Result<()> {
        write_bytes(field, text.as_bytes(), out)
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

fn write_bytes(field: u32, bytes: &[u8], out: &mut dyn io::Write) -> io::Result<()> {
    let (head, len) = head(field, bytes.len());
    out.write_all(&head[..len])?;
    out.write_all(bytes)
}

/// What stands before the bytes of a field, and how much of it counts. There is one for
/// each of many thousand samples: no place for a buffer of its own.
fn head(field: u32, len: usize) -> ([u8; 15], usize) {
    let mut bytes = [0; 15];
    let mut at = 0;
    for mut value in [u64::from(field) << 3 | 2, len as u64] {
        while value >= 0x80 {
            bytes[at] = value as u8 | 0x80;
            value >>= 7;
            at += 1;
        }
        bytes[at] = value as u8;
        at += 1;
    }
    (bytes, at)
}

fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Message, Value};

    #[track_caller]
    fn check_varint(value: u64, expected: &[u8]) {
        let mut message = MessageWriter::default();
        message.varint(value);
        assert_eq!(message.0, expected);
        assert_eq!(varint_len(value), expected.len());
    }

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        check_varint(0, &[0]);
        check_varint(127, &[0x7f]);
        check_varint(128, &[0x80, 1]);
        check_varint(-1i64 as u64, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut inner = MessageWriter::default();
        inner.nonzero(1, 0);
        assert!(inner.is_empty());
        inner.nonzero(1, u64::MAX);
        inner.packed(2, [].into_iter());
        inner.packed(2, [1, 300].into_iter());
        let mut outer = MessageWriter::default();
        outer.fixed64(536_870_911, 1 << 63);
        outer.message(2, &inner);
        outer.fields(&inner);
        outer.text(3, &"long ".repeat(40));
        let mut file = Vec::new();
        outer.write(1, &mut file).expect("to memory");
        MessageWriter::write_text(2, "end", &mut file).expect("to memory");

        let mut message = Message::new(&file);
        let Ok(Some((1, outer))) = message.next_field() else { panic!("{message:?}") };
        let Ok(Some((2, end))) = message.next_field() else { panic!("{message:?}") };
        assert_eq!((end.text().as_str(), message.next_field()), ("end", Ok(None)));
        let mut fields = Vec::new();
        assert!(outer.message().each(|number, value| fields.push((number, value))));
        let numbers: Vec<u32> = fields.iter().map(|field| field.0).collect();
        assert_eq!(numbers, [536_870_911, 2, 1, 2, 3]);
        assert_eq!(fields[0].1, Value::Fixed(1 << 63));
        assert_eq!(fields[2].1.varint(), u64::MAX);
        let mut packed = Vec::new();
        assert_eq!(fields[3].1.add_varints(&mut packed), Ok(()));
        assert_eq!(packed, [1, 300]);
        assert_eq!(fields[4].1.bytes().len(), 200);
    }
}
