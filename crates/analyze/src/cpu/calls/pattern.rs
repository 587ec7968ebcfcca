//! Names as people ask for them.

use spanwise_glob::Glob;

/// A name, or a pattern over names: `*` is any text, `?` any one character. Case does not
/// count in a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    text: String,
    glob: Option<Glob>,
}

impl NamePattern {
    pub fn new(text: &str) -> Self {
        let glob = text.contains(['*', '?']).then(|| Glob::in_small_letters(text));
        NamePattern { text: text.to_owned(), glob }
    }

    pub fn fits(&self, name: &str) -> bool {
        match &self.glob {
            // Names may hold stars themselves, such as `operator*`.
            Some(glob) => self.text == name || glob.fits(&name.to_lowercase()),
            None => self.text == name,
        }
    }

    /// As it was asked for.
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_whole() {
        let check = |pattern: &str, name: &str, fits| {
            assert_eq!(NamePattern::new(pattern).fits(name), fits, "{pattern} {name}");
        };
        check("main", "main", true);
        check("main", "dl_main", false);
        check("*main", "dl_main", true);
        check("_dl_?ain", "_DL_MAIN", true);
        check("operator*", "operator*", true);
        check("a.b", "axb", false);
    }
}
