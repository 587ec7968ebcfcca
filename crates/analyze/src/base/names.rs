//! Normalizes names by removing addresses of objects.
//!
//! `<built-in method copy of numpy.ndarray object at 0x7f3c006a0510>` is the same
//! function whatever the array; as a thousand rows they would hide what is hot.

use std::borrow::Cow;
use std::collections::HashMap;

use spanwise_model::{StrId, Strings, Trace};

const ADDRESS: &str = " at 0x";

/// For each string of a trace the first one that is equal except for addresses.
pub struct Names {
    strings: Strings,
    merged: Vec<u32>,
}

impl Names {
    pub fn new(trace: &Trace) -> Self {
        let strings = trace.strings();
        let ids = || (0..strings.len() as u32).map(StrId);
        let mut merged: Vec<u32> = (0..strings.len() as u32).collect();
        let mut first: HashMap<Cow<'_, str>, u32> = HashMap::new();
        for id in ids().filter(|&id| strings.get(id).contains(ADDRESS)) {
            merged[id.index()] = *first.entry(without_addresses(strings.get(id))).or_insert(id.0);
        }
        if !first.is_empty() {
            for id in ids() {
                if let Some(&same) = first.get(strings.get(id)) {
                    merged[id.index()] = same;
                }
            }
        }
        Names { strings: strings.clone(), merged }
    }

    /// The name that stands for this one and its likes.
    pub fn merged(&self, name: StrId) -> StrId {
        StrId(self.merged[name.index()])
    }

    pub fn text(&self, name: StrId) -> Cow<'_, str> {
        without_addresses(self.strings.get(name))
    }
}

/// Compilers number the kernels that they make: `triton_poi_fused_add_mul_12`.
pub(crate) fn unnumbered(name: &str) -> &str {
    if !name.starts_with("triton_") {
        return name;
    }
    match name.rsplit_once('_') {
        Some((start, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => start,
        _ => name,
    }
}

/// Leaves out every ` at 0x…`.
fn without_addresses(name: &str) -> Cow<'_, str> {
    if !name.contains(ADDRESS) {
        return Cow::Borrowed(name);
    }
    let mut pieces = name.split(ADDRESS);
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let after = piece.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        // " at 0x" without a digit is not an address.
        if after.len() == piece.len() {
            text.push_str(ADDRESS);
        }
        text.push_str(after);
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    #[track_caller]
    fn check(name: &str, expected: &str) {
        assert_eq!(without_addresses(name), expected);
    }

    #[test]
    fn addresses_are_left_out() {
        check(
            "<built-in method copy of A object at 0x7f3c00Aa>",
            "<built-in method copy of A object>",
        );
        check("<f at 0x1> and <g at 0xff>", "<f> and <g>");
    }

    #[test]
    fn other_text_stays() {
        check("load at 0xyz", "load at 0xyz");
        check("aten::mm", "aten::mm");
        check("", "");
    }

    #[test]
    fn numbers_of_compilers_do_not_count() {
        assert_eq!(unnumbered("triton_poi_fused_add_mul_12"), "triton_poi_fused_add_mul");
        assert_eq!(unnumbered("triton_poi_fused_add"), "triton_poi_fused_add");
        assert_eq!(unnumbered("gemm_128_64"), "gemm_128_64");
    }

    #[test]
    fn the_first_name_stands_for_its_likes() {
        let mut sample = Sample::default();
        for (at, name) in ["<f at 0x1>", "<g>", "<f at 0x2>", "<f>"].iter().enumerate() {
            sample.span("1", SpanKind::Python, name, at as i64, 1);
        }
        let trace = sample.finish();
        let names = Names::new(&trace);
        let texts: Vec<String> = trace
            .spans()
            .ids()
            .map(|span| names.text(names.merged(trace.spans().name(span))).into_owned())
            .collect();
        assert_eq!(texts, ["<f>", "<g>", "<f>", "<f>"]);
        let ids = trace.spans().ids().map(|span| names.merged(trace.spans().name(span)));
        assert_eq!(ids.collect::<std::collections::BTreeSet<_>>().len(), 2);
    }
}
