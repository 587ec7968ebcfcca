//! The functions that a recording speaks of, each once.

use std::collections::HashMap;

use spanwise_model::{StrId, StringsBuilder};

/// Number of a function in its [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FunctionId(pub u32);

impl FunctionId {
    /// Nothing is known, not even the file.
    pub const UNKNOWN: FunctionId = FunctionId(0);
    /// Stands in for what ran while nothing was recorded.
    pub const UNTRACED: FunctionId = FunctionId(1);
    pub const SYSCALL: FunctionId = FunctionId(2);
    pub const RETURNED: FunctionId = FunctionId(3);

    /// The names of the functions above, in order.
    const BUILT_IN: [&str; 4] = ["[unknown]", "[untraced]", "[syscall]", "[returned]"];

    fn index(self) -> usize {
        self.0 as usize
    }

    /// True for a frame that stands for time outside the recording.
    pub fn is_outside(self) -> bool {
        matches!(self, FunctionId::UNTRACED | FunctionId::SYSCALL | FunctionId::RETURNED)
    }
}

#[derive(Debug, Clone, Copy)]
struct Function {
    name: StrId,
    file: StrId,
    /// The function that it is a part of: `f` of `f.cold`; otherwise itself.
    whole: FunctionId,
    is_unknown: bool,
    /// Goes on with an exception, and so never returns to who has called it.
    resumes: bool,
}

/// Texts and functions. A function is identified by its name and the file that holds it, so
/// that two of one name in two libraries stay two.
#[derive(Debug)]
pub struct Names {
    strings: StringsBuilder,
    functions: Vec<Function>,
    ids: HashMap<(StrId, StrId), FunctionId>,
    /// By file: code of which the function is not known.
    unknown: HashMap<StrId, FunctionId>,
}

impl Default for Names {
    fn default() -> Self {
        let strings = StringsBuilder::default();
        let (functions, ids, unknown) = (Vec::new(), HashMap::new(), HashMap::new());
        let mut names = Names { strings, functions, ids, unknown };
        for (index, name) in FunctionId::BUILT_IN.into_iter().enumerate() {
            let id = names.function(name, "");
            names.functions[id.index()].is_unknown = index == 0;
        }
        names
    }
}

impl Names {
    pub fn text(&self, id: StrId) -> &str {
        self.strings.get(id)
    }

    pub fn string(&mut self, text: &str) -> StrId {
        self.strings.intern(text)
    }

    /// The text's id, where it is there already.
    #[inline]
    pub fn find_string(&self, bytes: &[u8]) -> Option<StrId> {
        self.strings.find(bytes)
    }

    /// The function's id, where it is there already.
    #[inline]
    pub fn find(&self, name: &[u8], file: &[u8]) -> Option<FunctionId> {
        let key = (self.strings.find(name)?, self.strings.find(file)?);
        self.ids.get(&key).copied()
    }

    /// The function of this name in this file, new or known.
    pub fn function(&mut self, name: &str, file: &str) -> FunctionId {
        let key = (self.strings.intern(name), self.strings.intern(file));
        if let Some(&known) = self.ids.get(&key) {
            return known;
        }
        // Compilers move what is rarely run out of a function; control jumps there and back.
        let whole = cold_part_of(name).map(|whole| {
            let key = (self.strings.intern(whole), key.1);
            let known = self.ids.get(&key).copied();
            known.unwrap_or_else(|| self.add(key, None, false))
        });
        self.add(key, whole, false)
    }

    /// Code of a file, of which the function is not known.
    pub fn unknown(&mut self, file: &str) -> FunctionId {
        if file.is_empty() {
            return FunctionId::UNKNOWN;
        }
        let file_id = self.strings.intern(file);
        if let Some(&known) = self.unknown.get(&file_id) {
            return known;
        }
        let name = self.strings.intern(&format!("[unknown] ({file})"));
        let id = self.add((name, file_id), None, true);
        self.unknown.insert(file_id, id);
        id
    }

    /// A function without a symbol, by a name that its file and its address make.
    pub fn unnamed(&mut self, name: &str, file: &str) -> FunctionId {
        let key = (self.strings.intern(name), self.strings.intern(file));
        let known = self.ids.get(&key).copied();
        known.unwrap_or_else(|| self.add(key, None, true))
    }

    fn add(
        &mut self,
        key: (StrId, StrId),
        whole: Option<FunctionId>,
        is_unknown: bool,
    ) -> FunctionId {
        let (name, file) = key;
        let id = FunctionId(self.functions.len() as u32);
        let (whole, resumes) = (whole.unwrap_or(id), self.text(name) == RESUME);
        self.functions.push(Function { name, file, whole, is_unknown, resumes });
        self.ids.insert(key, id);
        id
    }

    pub fn name(&self, id: FunctionId) -> StrId {
        self.functions[id.index()].name
    }

    pub fn name_text(&self, id: FunctionId) -> &str {
        self.text(self.name(id))
    }

    pub fn file_text(&self, id: FunctionId) -> &str {
        self.text(self.functions[id.index()].file)
    }

    pub fn is_unknown(&self, id: FunctionId) -> bool {
        self.functions[id.index()].is_unknown
    }

    /// True for code without a name that is in one file with a function that has one.
    #[inline]
    pub(crate) fn is_nameless_beside(&self, id: FunctionId, other: FunctionId) -> bool {
        let (function, other) = (self.functions[id.index()], self.functions[other.index()]);
        function.is_unknown && !other.is_unknown && function.file == other.file
    }

    /// The function that this one is a part of, or itself.
    #[inline]
    pub fn whole(&self, id: FunctionId) -> FunctionId {
        self.functions[id.index()].whole
    }

    /// True for the function with which an exception goes on after the cleaning up of a frame.
    #[inline]
    pub(crate) fn resumes(&self, id: FunctionId) -> bool {
        self.functions[id.index()].resumes
    }

    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Never true: the built-in ones are always there.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// What came since the last time, when the table was as long as `known` says.
    pub fn take_new(&self, known: &mut NamesLen) -> NewNames {
        let texts = (known.texts..self.strings.len())
            .map(|id| self.text(StrId(id as u32)).to_owned())
            .collect();
        let function = |function: &Function| (function.name, function.file, function.is_unknown);
        let functions = self.functions[known.functions..].iter().map(function).collect();
        *known = NamesLen { texts: self.strings.len(), functions: self.functions.len() };
        NewNames { texts, functions }
    }
}

/// How many texts and functions a table had at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NamesLen {
    texts: usize,
    functions: usize,
}

/// What was added to a table from one time to another, in its numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewNames {
    texts: Vec<String>,
    /// Name, file, and whether the function is not known.
    functions: Vec<(StrId, StrId, bool)>,
}

/// What the names of one table are called in another, as far as they were taken over.
#[derive(Debug, Clone, Default)]
pub struct NameTranslation {
    texts: Vec<StrId>,
    functions: Vec<FunctionId>,
}

impl NameTranslation {
    /// Takes over what came to the other table since the last time.
    pub fn extend(&mut self, names: &mut Names, new: &NewNames) {
        self.texts.extend(new.texts.iter().map(|text| names.strings.intern(text)));
        for &(name, file, is_unknown) in &new.functions {
            let file = names.text(self.text(file)).to_owned();
            self.functions.push(match is_unknown {
                true => names.unknown(&file),
                false => {
                    let name = names.text(self.text(name)).to_owned();
                    names.function(&name, &file)
                }
            });
        }
    }

    #[inline]
    pub fn text(&self, id: StrId) -> StrId {
        self.texts[id.index()]
    }

    #[inline]
    pub fn function(&self, id: FunctionId) -> FunctionId {
        self.functions[id.index()]
    }
}

/// As the unwinders of GCC and LLVM have it.
const RESUME: &str = "_Unwind_Resume";

/// `f` of `f.cold` and `f.cold.3`.
fn cold_part_of(name: &str) -> Option<&str> {
    let (whole, number) = name.split_once(".cold")?;
    let is_part = number.is_empty()
        || number.strip_prefix('.').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    (is_part && !whole.is_empty()).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_part_belongs_to_its_function() {
        let mut names = Names::default();
        let mut check = |part: &str, whole: &str| {
            let (part, whole) = (names.function(part, "a.so"), names.function(whole, "a.so"));
            assert_eq!(names.whole(part), whole);
        };
        check("f.cold", "f");
        check("f.cold.3", "f");
        check("f.colder", "f.colder");
        check(".cold", ".cold");
    }

    #[test]
    fn functions_of_one_name_in_two_files_stay_two() {
        let mut names = Names::default();
        let (here, there) = (names.function("init", "a.so"), names.function("init", "b.so"));
        assert_ne!(here, there);
        assert_eq!(names.name_text(here), names.name_text(there));
    }

    #[test]
    fn adopting_a_table_keeps_its_meaning() {
        let (mut one, mut other) = (Names::default(), Names::default());
        one.function("main", "prog");
        let ids =
            [other.function("f", "a.so"), other.unknown("b.so"), other.function("main", "prog")];
        let (mut adopted, mut known) = (NameTranslation::default(), NamesLen::default());
        adopted.extend(&mut one, &other.take_new(&mut known));
        let ids = [&ids[..], &[other.function("g.cold", "a.so")]].concat();
        adopted.extend(&mut one, &other.take_new(&mut known));
        assert_eq!(other.take_new(&mut known), NewNames::default());
        for id in ids {
            let new = adopted.function(id);
            assert_eq!(one.name_text(new), other.name_text(id));
            assert_eq!(one.is_unknown(new), other.is_unknown(id));
        }
    }
}
