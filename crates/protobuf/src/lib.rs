//! The wire format of protobuf: fields of messages, read and written.
//!
//! Perfetto's traces and pprof's profiles are made of it. Their schemas are small and have not
//! changed in years, so no code is generated from them: readers and writers name the fields that
//! they need by number, and this crate knows the encoding of a field.
//!
//! ```
//! use spanwise_protobuf::{Message, MessageWriter, Value};
//!
//! let mut writer = MessageWriter::default();
//! writer.uint(1, 150);
//! writer.text(2, "a name");
//! let mut message = Message::new(writer.bytes());
//! assert_eq!(message.next_field(), Ok(Some((1, Value::Number(150)))));
//! let Ok(Some((2, name))) = message.next_field() else { panic!("there are two fields") };
//! assert_eq!(name.text(), "a name");
//! assert_eq!(message.next_field(), Ok(None));
//! ```

#![warn(missing_docs)]

mod read;
mod write;

pub use read::{Damage, DamageKind, Message, Value};
pub use write::MessageWriter;
