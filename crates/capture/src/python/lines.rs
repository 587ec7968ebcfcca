//! Which line of its file an instruction of a code object is of.

use super::layout::Lines;

/// The line of an instruction, by its distance in bytes from the first; the first line of the
/// code object where its table says none.
pub(crate) fn line_at(lines: Lines, table: &[u8], first_line: i32, at: i64) -> i32 {
    let found = match lines {
        Lines::Steps => by_steps(table, first_line, at),
        Lines::Ranges => by_ranges(table, first_line, at),
        Lines::Locations => by_locations(table, first_line, at),
    };
    found.unwrap_or(first_line)
}

fn by_steps(table: &[u8], first_line: i32, at: i64) -> Option<i32> {
    let (mut address, mut line) = (0_i64, first_line);
    for step in table.chunks_exact(2) {
        address += i64::from(step[0]);
        if address > at {
            break;
        }
        line = line.wrapping_add(i32::from(step[1] as i8));
    }
    Some(line)
}

fn by_ranges(table: &[u8], first_line: i32, at: i64) -> Option<i32> {
    const NO_LINE: i8 = -128;
    let (mut end, mut line) = (0_i64, first_line);
    for range in table.chunks_exact(2) {
        end += i64::from(range[0]);
        let delta = range[1] as i8;
        if delta != NO_LINE {
            line = line.wrapping_add(delta.into());
        }
        if at < end {
            return (delta != NO_LINE).then_some(line);
        }
    }
    None
}

fn by_locations(table: &[u8], first_line: i32, at: i64) -> Option<i32> {
    let (mut end, mut line) = (0_i64, first_line);
    let mut bytes = table.iter().copied();
    while let Some(head) = bytes.next() {
        let units = i64::from(head & 7) + 1;
        let form = (head >> 3) & 15;
        let delta = match form {
            15 => None,
            14 => {
                let delta = signed(&mut bytes);
                for _ in 0..3 {
                    unsigned(&mut bytes);
                }
                Some(delta)
            }
            13 => Some(signed(&mut bytes)),
            10..=12 => {
                bytes.next();
                bytes.next();
                Some(i32::from(form) - 10)
            }
            _ => {
                bytes.next();
                Some(0)
            }
        };
        line = line.wrapping_add(delta.unwrap_or(0));
        end += 2 * units;
        if at < end {
            return delta.map(|_| line);
        }
    }
    None
}

/// Six bits a byte, the lowest first; the seventh says that more follow.
fn unsigned(bytes: &mut impl Iterator<Item = u8>) -> u32 {
    let (mut value, mut shift) = (0_u32, 0);
    for byte in bytes {
        value |= u32::from(byte & 63).checked_shl(shift).unwrap_or(0);
        shift += 6;
        if byte & 64 == 0 {
            break;
        }
    }
    value
}

fn signed(bytes: &mut impl Iterator<Item = u8>) -> i32 {
    let value = unsigned(bytes);
    let size = (value >> 1) as i32;
    if value & 1 == 1 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lines: Lines, table: &[u8], expected: &[(i64, i32)]) {
        for &(at, line) in expected {
            assert_eq!(line_at(lines, table, 10, at), line, "at {at}");
        }
    }

    #[test]
    fn steps_lead_to_lines() {
        check(Lines::Steps, &[0, 1, 8, 1, 6, 255], &[(0, 11), (7, 11), (8, 12), (14, 11)]);
        check(Lines::Steps, &[], &[(0, 10), (100, 10)]);
    }

    #[test]
    fn ranges_have_lines_or_none() {
        let table = [8, 1, 4, 128, 6, 255];
        check(Lines::Ranges, &table, &[(0, 11), (8, 10), (12, 10), (17, 10), (18, 10)]);
        check(Lines::Ranges, &[2, 5, 2, 1], &[(0, 15), (2, 16)]);
    }

    #[test]
    fn locations_have_several_forms() {
        // One unit with a line delta of 1, two of form 11, three without, two short ones.
        let table = [0x80 | 13 << 3, 2, 0x80 | 11 << 3 | 1, 0, 0, 0x80 | 15 << 3 | 2, 0x81, 7];
        check(
            Lines::Locations,
            &table,
            &[(0, 11), (2, 12), (5, 12), (6, 10), (12, 12), (16, 10), (-2, 11)],
        );
        // The long form: a delta of -70, and three numbers that are passed over.
        let long = [0x80 | 14 << 3, 64 | 13, 2, 0, 1, 64, 1];
        check(Lines::Locations, &long, &[(0, 10 - 70)]);
    }

    #[test]
    fn nonsense_gives_some_line() {
        for byte in 0..=255_u8 {
            for lines in [Lines::Steps, Lines::Ranges, Lines::Locations] {
                let _ = line_at(lines, &[byte; 64], i32::MAX, 1 << 40);
            }
        }
    }
}
