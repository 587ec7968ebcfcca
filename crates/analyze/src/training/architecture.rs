//! What sort of model ran: by its kernels and its modules, with the evidence.

use spanwise_model::StrId;

use crate::{ClassUse, Facts, TotalNanos};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Architecture {
    Transformer,
    MoeTransformer,
    StateSpace,
    /// Attention and state spaces.
    Hybrid,
    Convolutional,
    Unknown,
}

impl Architecture {
    pub fn text(self) -> &'static str {
        match self {
            Architecture::Transformer => "transformer",
            Architecture::MoeTransformer => "transformer with a mixture of experts",
            Architecture::StateSpace => "state space model",
            Architecture::Hybrid => "hybrid of attention and state spaces",
            Architecture::Convolutional => "convolutional",
            Architecture::Unknown => "unknown",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchitectureUse {
    pub architecture: Architecture,
    pub evidence: Vec<Evidence>,
    pub work_ns: TotalNanos,
}

/// Something that only such models have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// What it is evidence of: "attention", "state space", "experts", "convolution".
    pub of: &'static str,
    /// A module, or a kernel.
    pub name: String,
    /// GPU time of the class, where kernels show it.
    pub gpu_ns: Option<TotalNanos>,
}

/// Traits, the classes of kernels that show them, and parts of names of modules.
const TRAITS: [(&str, &[&str], &[&str]); 4] = [
    (
        ATTENTION,
        &["attention", "attention prefill", "attention decode", "kv cache"],
        &["Attention"],
    ),
    (STATE_SPACE, &["ssm"], &["Mamba", "SelectiveScan", "SSM", "RWKV", "GatedDeltaNet"]),
    (EXPERTS, &["moe gemm", "moe routing"], &["SparseMoe", "Experts", "MoE", "MoeBlock"]),
    (CONVOLUTION, &["convolution"], &["Conv2d", "Conv3d"]),
];
const ATTENTION: &str = "attention";
const STATE_SPACE: &str = "state space";
const EXPERTS: &str = "experts";
const CONVOLUTION: &str = "convolution";

pub fn architecture(facts: &Facts, classes: &ClassUse) -> ArchitectureUse {
    let mut evidence = Vec::new();
    for (of, of_classes, _) in TRAITS {
        let rows = classes.rows.iter().filter(|row| of_classes.contains(&row.class.as_str()));
        evidence.extend(rows.map(|row| Evidence {
            of,
            name: row.top_kernel.clone(),
            gpu_ns: Some(row.total_ns),
        }));
    }
    let strings = facts.trace().strings();
    for (of, _, parts) in TRAITS {
        // The first will do: layers are many.
        let names = (0..strings.len() as u32).map(|id| strings.get(StrId(id)));
        let mut modules = names.filter_map(|name| name.strip_prefix("nn.Module: "));
        let found = modules.find(|name| parts.iter().any(|part| name.contains(part)));
        let name = found.map(|name| crate::training::modules::class_of(name).to_owned());
        evidence.extend(name.map(|name| Evidence { of, name, gpu_ns: None }));
    }
    let has = |of: &str| evidence.iter().any(|row| row.of == of);
    let architecture = match (has(ATTENTION), has(STATE_SPACE)) {
        (true, true) => Architecture::Hybrid,
        (false, true) => Architecture::StateSpace,
        (true, false) if has(EXPERTS) => Architecture::MoeTransformer,
        (true, false) => Architecture::Transformer,
        (false, false) if has(CONVOLUTION) => Architecture::Convolutional,
        (false, false) => Architecture::Unknown,
    };
    ArchitectureUse { architecture, evidence, work_ns: classes.work_ns }
}

#[cfg(test)]
mod tests {
    use spanwise_model::SpanKind;

    use super::*;
    use crate::base::sample::Sample;

    #[track_caller]
    fn check(kernels: &[&str], modules: &[&str], expected: Architecture) {
        let mut sample = Sample::default();
        for (at, name) in kernels.iter().enumerate() {
            sample.work("7", SpanKind::Kernel, name, (10 * at as i64, 5), 90 + at as u64);
        }
        for name in modules {
            sample.span("1", SpanKind::Python, &format!("nn.Module: {name}"), 0, 5);
        }
        let trace = sample.finish();
        let facts = Facts::new(&trace);
        let classes = facts.class_use();
        assert_eq!(architecture(&facts, classes).architecture, expected);
    }

    #[test]
    fn kernels_or_modules_show_it() {
        check(&["flash_fwd_kernel", "nvjet_x"], &[], Architecture::Transformer);
        check(&["flash_fwd_kernel", "_matmul_ogs_x"], &[], Architecture::MoeTransformer);
        check(&["selective_scan_fwd_kernel"], &[], Architecture::StateSpace);
        check(&["nvjet_x"], &["MambaMixer_0", "LlamaAttention_3"], Architecture::Hybrid);
        check(&["volta_scudnn_128x64"], &["Conv2d_0"], Architecture::Convolutional);
        check(&["nvjet_x"], &["Linear_0"], Architecture::Unknown);
        check(&[], &[], Architecture::Unknown);
    }
}
