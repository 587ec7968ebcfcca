//! Protobuf's wire format, with the values of fixed width.

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

/// Why there is no field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireError {
    /// The bytes end inside the field: more of them may help.
    Cut,
    /// No message looks like this.
    Broken,
}

/// Walks the fields of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Fields { bytes, at: 0 }
    }

    /// The next field; `None` at the end. After a trouble `at` stands where it stood.
    pub(super) fn next_field(&mut self) -> Result<Option<(u32, Value<'a>)>, WireError> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let mut at = self.at;
        let tag = varint(self.bytes, &mut at)?;
        let number = u32::try_from(tag >> 3).ok().filter(|&number| number > 0);
        let number = number.ok_or(WireError::Broken)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(self.bytes, &mut at)?),
            1 => Value::Fixed(fixed::<8>(self.bytes, &mut at)?),
            2 => {
                let len = varint(self.bytes, &mut at)?;
                let end = usize::try_from(len).ok().and_then(|len| at.checked_add(len));
                let bytes = end.and_then(|end| self.bytes.get(at..end)).ok_or(WireError::Cut)?;
                at += bytes.len();
                Value::Bytes(bytes)
            }
            5 => Value::Fixed(fixed::<4>(self.bytes, &mut at)?),
            _ => return Err(WireError::Broken),
        };
        self.at = at;
        Ok(Some((number, value)))
    }

    /// All fields; those behind damage are missing, and `false` says so.
    pub(super) fn each(mut self, mut take: impl FnMut(u32, Value<'a>)) -> bool {
        loop {
            match self.next_field() {
                Ok(Some((number, value))) => take(number, value),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }
}

fn varint(bytes: &[u8], at: &mut usize) -> Result<u64, WireError> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let byte = *bytes.get(*at).ok_or(WireError::Cut)?;
        *at += 1;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(WireError::Broken)
}

fn fixed<const N: usize>(bytes: &[u8], at: &mut usize) -> Result<u64, WireError> {
    let found = bytes[*at..].first_chunk::<N>().ok_or(WireError::Cut)?;
    *at += N;
    Ok(found.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

impl<'a> Value<'a> {
    pub(super) fn number(self) -> u64 {
        match self {
            Value::Number(value) | Value::Fixed(value) => value,
            Value::Bytes(_) => 0,
        }
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            Value::Number(_) | Value::Fixed(_) => &[],
        }
    }

    pub(super) fn fields(self) -> Fields<'a> {
        Fields::new(self.bytes())
    }

    pub(super) fn text(self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// A repeated number, be it packed or alone, of variable or of fixed width.
    pub(super) fn numbers(self, is_fixed: bool, numbers: &mut Vec<u64>) {
        let Value::Bytes(bytes) = self else { return numbers.push(self.number()) };
        let mut at = 0;
        while at < bytes.len() {
            let number = if is_fixed { fixed::<8>(bytes, &mut at) } else { varint(bytes, &mut at) };
            let Ok(number) = number else { return };
            numbers.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_kind_are_walked() {
        let bytes = [8, 0x96, 1, 0x12, 1, 7, 0x1d, 1, 0, 0, 0, 0x21, 2, 0, 0, 0, 0, 0, 0, 1];
        let mut found = Vec::new();
        assert!(Fields::new(&bytes).each(|number, value| found.push((number, value))));
        let expected = [
            (1, Value::Number(150)),
            (2, Value::Bytes(&[7])),
            (3, Value::Fixed(1)),
            (4, Value::Fixed(1 << 56 | 2)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_cut_is_told_from_what_is_broken() {
        let check = |bytes: &[u8], expected| {
            assert_eq!(Fields::new(bytes).next_field().expect_err("damage"), expected);
        };
        check(&[8], WireError::Cut);
        check(&[8, 0x80], WireError::Cut);
        check(&[0x12, 3, 1], WireError::Cut);
        check(&[0x21, 3, 1], WireError::Cut);
        check(&[0x0b], WireError::Broken);
        check(&[0, 1], WireError::Broken);
        check(&[8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255], WireError::Broken);
    }
}
