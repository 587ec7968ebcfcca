//! `jit-PID.dump`: code that a runtime made, with its bytes. Here are only its names and limits.

/// What is read of a dump at most, and copied: those of browsers are some 200 MB.
pub const JIT_DUMP_BYTES_MAX: u64 = 512 << 20;

/// How the dump of a process is called in recordings.
pub fn jit_dump_name(pid: i32) -> String {
    format!("jit-{pid}.dump")
}

/// True for the mapping by which a runtime announces its dump to recorders.
pub fn is_jit_dump(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let number = name.strip_prefix("jit-").and_then(|rest| rest.strip_suffix(".dump"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_are_known_by_their_names() {
        for path in ["/tmp/jit-12.dump", "jit-1.dump", &jit_dump_name(7)] {
            assert!(is_jit_dump(path), "{path}");
        }
        for path in ["/tmp/jit-.dump", "/tmp/jit-a.dump", "x.dump", "/tmp/jit-1.dump (deleted)"] {
            assert!(!is_jit_dump(path), "{path}");
        }
    }
}
