//! What a tracepoint recorded: the recording carries the description of its fields.

use std::collections::HashMap;

use spanwise_callstack::{LeftAs, SchedEvent};

use super::bytes::{Bytes, text_of};

/// Descriptions by the number that samples begin with.
#[derive(Debug, Default)]
pub(crate) struct Formats {
    by_id: HashMap<u16, Format>,
    is_big_endian: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Format {
    id: Option<u16>,
    fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    name: String,
    offset: usize,
    size: usize,
    is_signed: bool,
}

/// The content of one sample with its description.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Content<'a> {
    format: &'a Format,
    raw: &'a [u8],
    is_big_endian: bool,
}

impl Formats {
    /// Reads the section as far as it makes sense.
    pub(crate) fn read(section: &[u8]) -> Formats {
        let mut formats = Formats::default();
        formats.read_systems(section).unwrap_or(());
        formats
    }

    fn read_systems(&mut self, section: &[u8]) -> Option<()> {
        const MAGIC: &[u8] = b"\x17\x08\x44tracing";
        let mut bytes = Bytes::new(section.strip_prefix(MAGIC)?, false);
        zero_ended(&mut bytes)?;
        self.is_big_endian = bytes.take(1)? == [1];
        bytes = bytes.with_order(self.is_big_endian);
        // Size of a long, size of a page; how pages and events of the ring begin.
        bytes.skip(1 + 4)?;
        for _ in 0..2 {
            zero_ended(&mut bytes)?;
            let len = bytes.u64()?;
            bytes.skip(usize::try_from(len).ok()?)?;
        }
        let of_ftrace = bytes.u32()?;
        self.read_events(&mut bytes, of_ftrace)?;
        for _ in 0..bytes.u32()? {
            zero_ended(&mut bytes)?;
            let count = bytes.u32()?;
            self.read_events(&mut bytes, count)?;
        }
        Some(())
    }

    fn read_events(&mut self, bytes: &mut Bytes<'_>, count: u32) -> Option<()> {
        for _ in 0..count {
            let len = bytes.u64()?;
            let text = text_of(bytes.take(usize::try_from(len).ok()?)?);
            let format = Format::read(&text);
            if let Some(id) = format.id {
                self.by_id.insert(id, format);
            }
        }
        Some(())
    }

    /// What a sample recorded, where its description is there.
    pub(crate) fn content<'a>(&'a self, raw: &'a [u8]) -> Option<Content<'a>> {
        let id = Bytes::new(raw, self.is_big_endian).u16()?;
        let format = self.by_id.get(&id)?;
        Some(Content { format, raw, is_big_endian: self.is_big_endian })
    }
}

fn zero_ended<'a>(bytes: &mut Bytes<'a>) -> Option<&'a [u8]> {
    let len = memchr::memchr(0, bytes.all())?;
    let text = bytes.take(len)?;
    bytes.skip(1)?;
    Some(text)
}

impl Format {
    /// The text that the kernel gives of an event.
    fn read(text: &str) -> Format {
        let mut format = Format::default();
        for line in text.lines() {
            let line = line.trim();
            if let Some(id) = line.strip_prefix("ID:") {
                format.id = id.trim().parse().ok();
            } else if line.starts_with("field:") {
                format.fields.extend(Field::read(line));
            }
        }
        format
    }
}

impl Field {
    /// `field:pid_t next_pid; offset:56; size:4; signed:1;`
    fn read(line: &str) -> Option<Field> {
        let part = |key: &str| {
            let parts = line.split(';').map(str::trim);
            parts.filter_map(|part| part.strip_prefix(key)).next()
        };
        let declared = part("field:")?;
        let declared = declared.split('[').next()?.trim_end();
        let name = declared.rsplit([' ', '*']).next()?.to_owned();
        let (offset, size) = (part("offset:")?.parse().ok()?, part("size:")?.parse().ok()?);
        let is_signed = part("signed:") == Some("1");
        Some(Field { name, offset, size, is_signed })
    }
}

impl<'a> Content<'a> {
    fn bytes(&self, name: &str) -> Option<(&'a [u8], &'a Field)> {
        let field = self.format.fields.iter().find(|field| field.name == name)?;
        let bytes = self.raw.get(field.offset..field.offset.checked_add(field.size)?)?;
        Some((bytes, field))
    }

    /// The value of a number.
    fn number(&self, name: &str) -> Option<i64> {
        let (bytes, field) = self.bytes(name)?;
        let mut wide = [0_u8; 8];
        let len = bytes.len();
        if len == 0 || len > 8 {
            return None;
        }
        wide[..len].copy_from_slice(bytes);
        if self.is_big_endian {
            wide[..len].reverse();
        }
        let shift = 64 - 8 * len as u32;
        let value = i64::from_le_bytes(wide) << shift;
        Some(if field.is_signed { value >> shift } else { (value as u64 >> shift) as i64 })
    }

    /// An interrupt was served: the thread that ran has nothing to do with it.
    pub(crate) fn is_of_interrupt(&self) -> bool {
        const IN_INTERRUPT: i64 = 0x08;
        const UNMASKABLE: i64 = 0x40;
        let flags = self.number("common_flags").unwrap_or(0);
        flags & (IN_INTERRUPT | UNMASKABLE) != 0
    }

    /// What a tracepoint of the scheduler or of a lock says.
    pub(crate) fn scheduled(&self, event: &str) -> Option<SchedEvent> {
        match event {
            "sched:sched_switch" => Some(SchedEvent::Switch {
                prev: self.number("prev_pid")?,
                left: LeftAs::from_bits(self.number("prev_state")?.cast_unsigned()),
                next: self.number("next_pid")?,
            }),
            "sched:sched_waking" | "sched:sched_wakeup" => {
                Some(SchedEvent::Wake { woken: self.number("pid")? })
            }
            "syscalls:sys_enter_futex" => Some(SchedEvent::FutexEnter {
                address: self.number("uaddr")?.cast_unsigned(),
                // Arguments of system calls are kept as wide as registers.
                op: self.number("op")? as u32,
                value: self.number("val")?.cast_unsigned() & u64::from(u32::MAX),
            }),
            "syscalls:sys_exit_futex" => {
                Some(SchedEvent::FutexExit { result: self.number("ret")? })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 314\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \n\
        \tfield:char prev_comm[4];\toffset:2;\tsize:4;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:6;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:10;\tsize:8;\tsigned:1;\n\
        \tfield:const char * ptr;\toffset:18;\tsize:8;\tsigned:0;\n\
        print fmt: \"prev_comm=%s\"\n";

    fn section() -> Vec<u8> {
        let mut section = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0".to_vec();
        for name in ["header_page", "header_event"] {
            section.extend([name.as_bytes(), b"\0", &2_u64.to_le_bytes(), b"xx"].concat());
        }
        section.extend(0_u32.to_le_bytes());
        section.extend([&1_u32.to_le_bytes()[..], b"sched\0", &1_u32.to_le_bytes()].concat());
        section.extend((SWITCH.len() as u64).to_le_bytes());
        section.extend(SWITCH.as_bytes());
        section
    }

    #[test]
    fn fields_are_found_by_name() {
        let formats = Formats::read(&section());
        let raw = [&314_u16.to_le_bytes()[..], b"ab\0c", &(-1_i32).to_le_bytes(), &[2; 8]].concat();
        let content = formats.content(&raw).expect("described");
        assert_eq!(content.number("prev_pid"), Some(-1));
        assert_eq!(content.number("prev_state"), Some(0x0202_0202_0202_0202));
        assert_eq!(content.number("common_type"), Some(314));
        assert_eq!(content.number("ptr"), None, "the sample is shorter than that");
        assert_eq!(content.number("absent"), None);
        assert!(formats.content(&[1, 0]).is_none());
    }

    #[test]
    fn a_section_that_is_cut_keeps_what_came_before() {
        let section = section();
        for len in 0..section.len() {
            Formats::read(&section[..len]);
        }
    }
}
