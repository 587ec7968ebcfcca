//! SHA-256, for the one thing that needs it: a page names the script that it may run, and the
//! styles that it may use.
//!
//! A page of code instead of a dependency; what it is used for is no secret, so it need not be
//! fast or hide its timing.

/// What a policy of a page calls a script or a style: `sha256-` and the digest in base 64.
pub(crate) fn policy_source(script: &str) -> String {
    format!("sha256-{}", base64(&sha256(script.as_bytes())))
}

/// The first 32 bits behind the point of a root: the standard takes its constants from them.
fn fraction(prime: u64, power: u32) -> u32 {
    // The integer root of prime · 2^(32·power), whose low 32 bits are the fraction.
    let wanted = u128::from(prime) << (32 * power);
    let (mut low, mut high) = (0_u128, 1_u128 << 40);
    while high - low > 1 {
        let middle = (low + high) / 2;
        match middle.checked_pow(power).is_some_and(|product| product <= wanted) {
            true => low = middle,
            false => high = middle,
        }
    }
    low as u32
}

fn primes(count: usize) -> Vec<u64> {
    let is_prime = |number: &u64| {
        (2..*number).take_while(|d| d * d <= *number).all(|d| !number.is_multiple_of(d))
    };
    (2..).filter(is_prime).take(count).collect()
}

fn sha256(message: &[u8]) -> [u8; 32] {
    let primes = primes(64);
    let constants: Vec<u32> = primes.iter().map(|&prime| fraction(prime, 3)).collect();
    let mut state: Vec<u32> = primes[..8].iter().map(|&prime| fraction(prime, 2)).collect();
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - message.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len();
    padded[end - 8..].copy_from_slice(&(message.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        mix(&mut state, block, &constants);
    }
    let mut digest = [0; 32];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

/// Takes one block of 64 bytes into the state.
fn mix(state: &mut [u32], block: &[u8], constants: &[u32]) {
    let words = block
        .chunks_exact(4)
        .map(|word| word.iter().fold(0, |sum, &byte| (sum << 8) | u32::from(byte)));
    let mut schedule: Vec<u32> = words.collect();
    for at in 16..64 {
        let (a, b) = (schedule[at - 15], schedule[at - 2]);
        let near = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
        let far = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
        let sum = schedule[at - 16].wrapping_add(near).wrapping_add(schedule[at - 7]);
        schedule.push(sum.wrapping_add(far));
    }
    let mut now: [u32; 8] = std::array::from_fn(|at| state[at]);
    for (word, constant) in schedule.iter().zip(constants) {
        let [a, b, c, d, e, f, g, h] = now;
        let upper = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let first =
            [upper, choice, *constant, *word].iter().fold(h, |sum, &part| sum.wrapping_add(part));
        let lower = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let second = lower.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        now = [first.wrapping_add(second), a, b, c, d.wrapping_add(first), e, f, g];
    }
    for (word, part) in state.iter_mut().zip(now) {
        *word = word.wrapping_add(part);
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits =
            (0..3).fold(0_u32, |sum, at| (sum << 8) | u32::from(*group.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let digit = DIGITS[((bits >> (18 - 6 * at)) & 63) as usize];
            text.push(if at <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// What every page of ours must be: each of its styles and scripts is named by its digest, and
/// nothing else may be run or used, such as attributes with a style or an action.
#[cfg(test)]
#[track_caller]
pub(crate) fn check_policy(page: &str) {
    let policy = page.split("Content-Security-Policy\" content=\"").nth(1).expect("a policy");
    let policy = policy.split('"').next().unwrap_or_default();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let directive = |name: &str| policy.split("; ").find(|part| part.starts_with(name));
    for (tag, name) in [("style", "style-src "), ("script", "script-src ")] {
        for element in page.split(&format!("<{tag}>")).skip(1) {
            let content = element.split(&format!("</{tag}>")).next().unwrap_or_default();
            let source = format!("'{}'", policy_source(content));
            assert!(directive(name).is_some_and(|all| all.contains(&source)), "{tag}: {policy}");
        }
    }
    for attribute in [" style=", " onclick=", " onload=", " onerror="] {
        assert!(!page.contains(attribute), "{attribute}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        let hex = |text: &str| -> String {
            sha256(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let check = |text: &str, expected: &str| assert_eq!(hex(text), expected, "{text}");
        check("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        check("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        check(
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        );
        assert_eq!(
            policy_source("alert('Hello, world.');"),
            "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng="
        );
    }

    #[test]
    fn base_64_ends_as_it_should() {
        let check = |text: &str, expected: &str| assert_eq!(base64(text.as_bytes()), expected);
        check("", "");
        check("f", "Zg==");
        check("fo", "Zm8=");
        check("foo", "Zm9v");
        check("foob", "Zm9vYg==");
    }
}
