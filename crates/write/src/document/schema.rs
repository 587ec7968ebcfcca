//! What programs can rely on in the JSON of a document, as a JSON schema.
//!
//! It is made from the columns of the document, so that it cannot promise what is not written.

use std::io;

use crate::document::escape::write_json_string;
use crate::document::sectioned::{Body, Document, Section};
use crate::document::table::Unit;

/// Goes up when a key disappears or changes its meaning; new keys may come at any time.
const VERSION: u32 = 1;

impl Document {
    /// Writes the schema of a document with these sections, under a name.
    pub fn write_json_schema(&self, name: &str, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(out, "{{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",")?;
        writeln!(out, "  \"$id\": \"spanwise:{name}:{VERSION}\",\n  \"type\": \"object\",")?;
        out.write_all(b"  \"properties\": {")?;
        for (at, section) in self.sections.iter().enumerate() {
            out.write_all(if at == 0 { b"\n    " } else { b",\n    " })?;
            write_json_string(section.key, out)?;
            out.write_all(b": {")?;
            section.write_json_schema(out)?;
            out.write_all(b"\n    }")?;
        }
        out.write_all(b"\n  }\n}\n")
    }
}

impl Section {
    fn write_json_schema(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let is_list = !matches!(self.body, Body::Record(_));
        if is_list {
            out.write_all(b"\n      \"type\": \"array\",\n      \"items\": {")?;
        }
        out.write_all(b"\n      \"type\": \"object\",\n      \"properties\": {")?;
        for (at, column) in self.table().columns().iter().enumerate() {
            out.write_all(if at == 0 { b"\n        " } else { b",\n        " })?;
            write_json_string(&column.full_key(), out)?;
            write!(out, ": {{\"type\": [\"{}\", \"null\"]}}", json_type(column.unit))?;
        }
        out.write_all(b"\n      }")?;
        out.write_all(if is_list { b"}" } else { b"" })
    }
}

/// Counts may be means, which have decimals.
fn json_type(unit: Unit) -> &'static str {
    match unit {
        Unit::Text | Unit::Status => "string",
        Unit::Flag => "boolean",
        Unit::Nanos | Unit::Bytes => "integer",
        Unit::Count | Unit::Percent => "number",
    }
}
