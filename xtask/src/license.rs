//! Whether a license expression lets us use and ship a crate.

/// Licenses that ask for no more than a notice.
const ALLOWED: [&str; 10] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Reads an SPDX expression; `/` is how old manifests write OR.
pub(crate) fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any_of(&mut words) && words.next().is_none()
}

type Words<'a, 'b> = &'a mut std::iter::Peekable<std::str::SplitWhitespace<'b>>;

fn any_of(words: Words<'_, '_>) -> bool {
    let mut allowed = all_of(words);
    while words.next_if_eq(&"OR").is_some() {
        allowed |= all_of(words);
    }
    allowed
}

fn all_of(words: Words<'_, '_>) -> bool {
    let mut allowed = one(words);
    while words.next_if_eq(&"AND").is_some() {
        allowed &= one(words);
    }
    allowed
}

fn one(words: Words<'_, '_>) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let allowed = any_of(words);
        return words.next() == Some(")") && allowed;
    }
    let Some(name) = words.next() else { return false };
    // An exception only ever permits more.
    if words.next_if_eq(&"WITH").is_some() {
        words.next();
    }
    ALLOWED.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expression: &str, expected: bool) {
        assert_eq!(is_allowed(expression), expected, "{expression}");
    }

    #[test]
    fn or_needs_one_and_needs_all() {
        check("MIT", true);
        check("MIT/Apache-2.0", true);
        check("LGPL-2.1-or-later OR MIT", true);
        check("MIT AND LGPL-2.1-or-later", false);
        check("(MIT OR GPL-3.0) AND Unicode-3.0", true);
        check("GPL-3.0 OR MIT AND MPL-2.0", false);
    }

    #[test]
    fn exceptions_change_nothing() {
        check("Apache-2.0 WITH LLVM-exception", true);
        check("GPL-2.0 WITH Classpath-exception-2.0", false);
    }

    #[test]
    fn nonsense_is_refused() {
        check("", false);
        check("MIT MIT", false);
        check("(MIT", false);
    }
}
