//! Names of functions as the source has them.

/// The name as the source has it.
pub(crate) fn demangled(name: &str) -> String {
    // What is rarely run stands apart from its function; demanglers would bury the mark.
    if let Some((whole, number)) = name.split_once(".cold")
        && number.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit())
    {
        return format!("{}.cold{number}", demangled(whole));
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // Without the hash at the end.
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    // `read@@GLIBC_2.2.5`: the version says nothing here.
    name.split_once('@').map_or(name, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_in_the_source() {
        let check = |name: &str, expected: &str| assert_eq!(demangled(name), expected);
        check("main", "main");
        check("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write");
        check(
            "_ZNSt6vectorIiSaIiEE9push_backERKi",
            "std::vector<int, std::allocator<int> >::push_back(int const&)",
        );
        check("pthread_mutex_lock@@GLIBC_2.2.5", "pthread_mutex_lock");
        check("_Znot_a_name", "_Znot_a_name");
        check("_ZL4diveiPi.cold", "dive(int, int*).cold");
        check("run.cold.12", "run.cold.12");
    }
}
