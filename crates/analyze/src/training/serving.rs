//! What serving engines write into their annotations: the batch of a step.
//!
//! vLLM, in three spellings: `execute_context_1(512)_generation_0(0)`,
//! `execute_context_1(888_788544)_generation_0(0)` (tokens, then their square) and
//! `execute_8192_context_9(sq8155sk8430sqsq…sqsk…)_generation_37(sq37sk34489…)`.
//! SGLang: `step[EXTEND bs=15 toks=15360]`. ATOM: `prefill[bs=4 tok=4096 ctx=[…]]`,
//! `decode[bs=117/128 tok=117 d=…]`. Both of them and vLLM: `capture_<bs>_<mode>` while
//! graphs are recorded. Diffusion: `execute_diffusion_1_256x256`.

use crate::Phase;

/// The batch of one step, as far as its annotation describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    pub phase: Phase,
    /// Requests whose prompts are read, and the tokens read.
    pub context_requests: Option<u64>,
    pub context_tokens: Option<u64>,
    /// Requests that get a further token, and the tokens made.
    pub generation_requests: Option<u64>,
    pub generation_tokens: Option<u64>,
}

impl Batch {
    /// Requests of both kinds; `None` where the annotation has neither.
    pub fn requests(&self) -> Option<u64> {
        sum(self.context_requests, self.generation_requests)
    }

    pub fn tokens(&self) -> Option<u64> {
        sum(self.context_tokens, self.generation_tokens)
    }

    fn of_phase(phase: Phase) -> Self {
        Batch {
            phase,
            context_requests: None,
            context_tokens: None,
            generation_requests: None,
            generation_tokens: None,
        }
    }

    /// The batch that an annotation's name describes.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        vllm(name).or_else(|| sglang(name)).or_else(|| atom(name)).or_else(|| other(name))
    }
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
    }
}

fn vllm(name: &str) -> Option<Batch> {
    let rest = name.strip_prefix("execute_")?;
    // "8192_context_…": the tokens of both sorts, which the rest repeats.
    let rest = match rest.split_once('_') {
        Some((total, rest)) if total.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => rest,
    };
    let (context, generation) = rest.strip_prefix("context_")?.split_once("_generation_")?;
    let (context_requests, context_tokens) = requests_and_tokens(context)?;
    let (generation_requests, generation_tokens) = requests_and_tokens(generation)?;
    let phase = match (context_requests, generation_requests) {
        (0, 0) => Phase::Idle,
        (_, 0) => Phase::Prefill,
        (0, _) => Phase::Decode,
        _ => Phase::Mixed,
    };
    Some(Batch {
        phase,
        context_requests: Some(context_requests),
        context_tokens: Some(context_tokens),
        generation_requests: Some(generation_requests),
        generation_tokens: Some(generation_tokens),
    })
}

/// "9(sq8155sk…)", "1(888_788544)" or "1(512)": the first number inside is tokens.
fn requests_and_tokens(text: &str) -> Option<(u64, u64)> {
    let (requests, inside) = text.split_once('(')?;
    let inside = inside.split_once(')')?.0;
    let tokens = inside.strip_prefix("sq").unwrap_or(inside);
    Some((requests.parse().ok()?, leading_number(tokens)?))
}

fn leading_number(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..digits].parse().ok()
}

fn sglang(name: &str) -> Option<Batch> {
    let inside = name.strip_prefix("step[")?.strip_suffix(']')?;
    let mode = inside.split(' ').next()?;
    let value = |key: &str| field(inside, key);
    let (requests, tokens) = (value("bs"), value("toks"));
    let batch = match mode {
        "EXTEND" | "PREFILL" => Batch {
            context_requests: requests,
            context_tokens: tokens.or(value("c_sq")),
            ..Batch::of_phase(Phase::Prefill)
        },
        "DECODE" => Batch {
            generation_requests: requests,
            generation_tokens: tokens.or(value("g_sq")).or(requests),
            ..Batch::of_phase(Phase::Decode)
        },
        // How many requests are of which kind is not reported.
        "MIXED" => Batch {
            context_tokens: value("c_sq"),
            generation_tokens: value("g_sq"),
            ..Batch::of_phase(Phase::Mixed)
        },
        "IDLE" => Batch::of_phase(Phase::Idle),
        _ => return None,
    };
    Some(batch)
}

fn atom(name: &str) -> Option<Batch> {
    let (mode, inside) = name.split_once('[')?;
    let inside = inside.strip_suffix(']')?;
    // "117/128": filled up to 128 for the sake of the graph.
    let (requests, tokens) = (field(inside, "bs")?, field(inside, "tok"));
    match mode {
        "prefill" => Some(Batch {
            context_requests: Some(requests),
            context_tokens: tokens,
            ..Batch::of_phase(Phase::Prefill)
        }),
        "decode" => Some(Batch {
            generation_requests: Some(requests),
            generation_tokens: tokens,
            ..Batch::of_phase(Phase::Decode)
        }),
        _ => None,
    }
}

fn other(name: &str) -> Option<Batch> {
    let has_number = |rest: &str| leading_number(rest).is_some() && rest.contains('_');
    if name.strip_prefix("execute_diffusion_").is_some_and(has_number) {
        return Some(Batch::of_phase(Phase::Diffusion));
    }
    let is_capture = name.strip_prefix("capture_").is_some_and(has_number);
    is_capture.then(|| Batch::of_phase(Phase::Capture))
}

/// The number after `key=` in words apart from one another.
fn field(text: &str, key: &str) -> Option<u64> {
    let of_key = |word: &str| leading_number(word.strip_prefix(key)?.strip_prefix('=')?);
    text.split(' ').find_map(of_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected`: phase, requests and tokens of the context, then of the generation.
    #[track_caller]
    fn check(name: &str, expected: Option<(Phase, [Option<u64>; 4])>) {
        let found = Batch::parse(name).map(|batch| {
            let Batch { context_requests, context_tokens, .. } = batch;
            let Batch { generation_requests, generation_tokens, .. } = batch;
            let numbers =
                [context_requests, context_tokens, generation_requests, generation_tokens];
            (batch.phase, numbers)
        });
        assert_eq!(found, expected, "{name}");
    }

    const fn known(a: u64, b: u64, c: u64, d: u64) -> [Option<u64>; 4] {
        [Some(a), Some(b), Some(c), Some(d)]
    }

    #[test]
    fn vllm_in_all_spellings() {
        use Phase::{Decode, Idle, Mixed, Prefill};
        check("execute_context_1(512)_generation_0(0)", Some((Prefill, known(1, 512, 0, 0))));
        check("execute_context_0(0)_generation_32(32)", Some((Decode, known(0, 0, 32, 32))));
        check(
            "execute_context_1(888_788544)_generation_0(0)",
            Some((Prefill, known(1, 888, 0, 0))),
        );
        check(
            "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)\
             _generation_37(sq37sk34489sqsq37sqsk34489)",
            Some((Mixed, known(9, 8155, 37, 37))),
        );
        check("execute_context_0(0)_generation_0(0)", Some((Idle, known(0, 0, 0, 0))));
    }

    #[test]
    fn sglang_and_atom() {
        let extend = [Some(15), Some(15360), None, None];
        check("step[EXTEND bs=15 toks=15360]", Some((Phase::Prefill, extend)));
        let decode = [None, None, Some(32), Some(32)];
        check("step[DECODE bs=32]", Some((Phase::Decode, decode)));
        let mixed = [None, Some(4096), None, Some(20)];
        check("step[MIXED bs=21 toks=4116 c_sq=4096 g_sq=20]", Some((Phase::Mixed, mixed)));
        let prefill = [Some(4), Some(4096), None, None];
        check("prefill[bs=4 tok=4096 ctx=[1, 2]]", Some((Phase::Prefill, prefill)));
        let padded = [None, None, Some(117), Some(117)];
        check("decode[bs=117/128 tok=117 d=1]", Some((Phase::Decode, padded)));
    }

    #[test]
    fn capture_and_diffusion() {
        check("capture_64_FULL", Some((Phase::Capture, [None; 4])));
        check("execute_diffusion_1_256x256", Some((Phase::Diffusion, [None; 4])));
    }

    #[test]
    fn other_names_say_nothing() {
        for name in ["", "execute_", "execute_context_1", "execute_context_x(1)_generation_0(0)"] {
            check(name, None);
        }
        for name in ["step[", "step[]", "step[TRAIN bs=1]", "prefill[]", "capture_me", "execute_1_"]
        {
            check(name, None);
        }
        check("execute_context_99999999999999999999(1)_generation_0(0)", None);
    }
}
