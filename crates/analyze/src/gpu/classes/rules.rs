//! Which class a piece of GPU work belongs to: rules, first match wins.
//!
//! The rules are data (`tables/classes.toml`), so that whoever knows another kernel
//! adds a line; a user's own rules go first.

use serde::Deserialize;
use spanwise_glob::Glob;
use spanwise_model::SpanKind;
use toml::Spanned;

use crate::Phase;
use crate::base::tables::{TableError, TablesText, parse};

/// Our own table.
const STANDARD: &str = include_str!("../../../tables/classes.toml");

/// What no rule fits.
pub const OTHER: &str = "other";

/// Rules with `under` have a bit each.
pub(crate) const UNDER_MAX: usize = 128;

/// All rules, in order.
#[derive(Debug, Clone)]
pub struct ClassRules {
    rules: Vec<Rule>,
    /// The patterns of rules that ask for what is around a launch, by bit.
    under: Vec<Vec<Glob>>,
}

#[derive(Debug, Clone)]
struct Rule {
    class: String,
    kernel: Vec<Glob>,
    operator: Vec<Glob>,
    /// Its bit among the rules with `under`.
    under: Option<usize>,
    work: Vec<Work>,
    phase: Vec<Phase>,
}

/// What decides a class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Described<'a> {
    /// Both names in small letters; empty where there is no operator.
    pub(crate) kernel: &'a str,
    pub(crate) operator: &'a str,
    pub(crate) kind: SpanKind,
    pub(crate) phase: Option<Phase>,
    /// Bits of [`ClassRules::under_bits`] of everything around the launch.
    pub(crate) under: u128,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleText {
    class: Spanned<String>,
    #[serde(default)]
    kernel: Vec<String>,
    #[serde(default)]
    operator: Vec<String>,
    #[serde(default)]
    under: Vec<String>,
    #[serde(default)]
    work: Vec<Work>,
    #[serde(default)]
    phase: Vec<Phase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Work {
    Kernel,
    Memcpy,
    Memset,
}

impl ClassRules {
    /// The rules that come with the project.
    pub fn standard() -> Self {
        ClassRules::parse(STANDARD).expect("a test reads the table")
    }

    /// Every class that a rule gives, and [`OTHER`].
    pub fn class_names(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.class.as_str()).chain([OTHER])
    }

    /// A user's rules, then the project's.
    pub fn with_own(text: &str) -> Result<Self, TableError> {
        let mut rules = ClassRules::parse(text)?;
        let standard = ClassRules::standard();
        if rules.under.len() + standard.under.len() > UNDER_MAX {
            let most = UNDER_MAX - standard.under.len();
            let what = format!("more than {most} rules with `under`");
            return Err(TableError::at(text, 0..0, what));
        }
        let before = rules.under.len();
        rules.under.extend(standard.under);
        rules.rules.extend(standard.rules.into_iter().map(|mut rule| {
            rule.under = rule.under.map(|bit| bit + before);
            rule
        }));
        Ok(rules)
    }

    fn parse(text: &str) -> Result<Self, TableError> {
        let file: TablesText = parse(text)?;
        let mut rules = ClassRules { rules: Vec::new(), under: Vec::new() };
        for rule in file.rule {
            let place = rule.span();
            rules.push(text, place, rule.into_inner())?;
        }
        Ok(rules)
    }

    fn push(
        &mut self,
        text: &str,
        place: std::ops::Range<usize>,
        rule: RuleText,
    ) -> Result<(), TableError> {
        if rule.class.get_ref().trim().is_empty() {
            return Err(TableError::at(text, rule.class.span(), "a class without a name"));
        }
        let RuleText { class, kernel, operator, under, work, phase } = rule;
        let patterns = [&kernel, &operator, &under];
        if patterns.iter().all(|list| list.is_empty()) && work.is_empty() && phase.is_empty() {
            return Err(TableError::at(text, place, "a rule without a condition"));
        }
        let globs =
            |list: Vec<String>| list.iter().map(|text| Glob::in_small_letters(text)).collect();
        let under: Vec<Glob> = globs(under);
        let bit = (!under.is_empty()).then_some(self.under.len());
        if bit.is_some() {
            self.under.push(under);
        }
        if self.under.len() > UNDER_MAX {
            let what = format!("more than {UNDER_MAX} rules with `under`");
            return Err(TableError::at(text, place, what));
        }
        let (kernel, operator) = (globs(kernel), globs(operator));
        let class = class.into_inner();
        self.rules.push(Rule { class, kernel, operator, under: bit, work, phase });
        Ok(())
    }

    /// Which rules with `under` a name around a launch satisfies; in small letters.
    pub(crate) fn under_bits(&self, name: &str) -> u128 {
        let fitting =
            self.under.iter().enumerate().filter(|(_, list)| list.iter().any(|p| p.fits(name)));
        fitting.fold(0, |bits, (bit, _)| bits | 1 << bit)
    }

    /// The class of a kernel by its name and that of the operator around its launch, which may
    /// be empty.
    pub fn class_of(&self, kernel: &str, operator: &str) -> &str {
        let (kernel, operator) = (&*kernel.to_lowercase(), &*operator.to_lowercase());
        let (kind, under) = (SpanKind::Kernel, self.under_bits(operator));
        self.class(&Described { kernel, operator, kind, phase: None, under })
    }

    /// The class of the first rule that fits.
    pub(crate) fn class(&self, what: &Described<'_>) -> &str {
        self.rules.iter().find(|rule| rule.fits(what)).map_or(OTHER, |rule| &rule.class)
    }
}

impl Rule {
    fn fits(&self, what: &Described<'_>) -> bool {
        let work = match what.kind {
            SpanKind::Memcpy => Work::Memcpy,
            SpanKind::Memset => Work::Memset,
            _ => Work::Kernel,
        };
        let any = |list: &[Glob], name: &str| list.is_empty() || list.iter().any(|p| p.fits(name));
        (self.work.is_empty() || self.work.contains(&work))
            && (self.phase.is_empty() || what.phase.is_some_and(|is| self.phase.contains(&is)))
            && self.under.is_none_or(|bit| what.under & (1 << bit) != 0)
            && any(&self.operator, what.operator)
            && any(&self.kernel, what.kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `around`: operators around the launch, the innermost first.
    #[track_caller]
    fn check(kernel: &str, around: &[&str], phase: Option<Phase>, expected: &str) {
        let rules = ClassRules::standard();
        let around: Vec<String> = around.iter().map(|name| name.to_lowercase()).collect();
        let what = Described {
            kernel: &kernel.to_lowercase(),
            operator: around.first().map_or("", String::as_str),
            kind: SpanKind::Kernel,
            phase,
            under: around.iter().fold(0, |bits, name| bits | rules.under_bits(name)),
        };
        assert_eq!(rules.class(&what), expected, "{kernel} under {around:?}");
        if let ([operator], None) = (&*around, phase) {
            assert_eq!(rules.class_of(kernel, operator), expected, "{kernel} by names");
        }
    }

    #[test]
    fn names_of_matrix_products() {
        for kernel in [
            "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT",
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
            "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x256x32",
            "wvSplitK_hf_sml_<__hip_bfloat16, 64, 2, 16, 8, 2, 2>",
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>",
        ] {
            check(kernel, &["aten::mm"], None, "gemm");
        }
        check(
            "void cutlass::Kernel2<cutlass_80_tensorop>",
            &["aten::_grouped_mm"],
            None,
            "moe gemm",
        );
    }

    #[test]
    fn the_operator_shows_what_a_general_kernel_is_for() {
        let kernel = "void at::native::vectorized_elementwise_kernel<4, MulFunctor<float>>";
        check(kernel, &["aten::mul"], None, "elementwise");
        check(kernel, &["aten::mul", "aten::softmax"], None, "softmax");
        check(kernel, &["aten::mul", "aten::layer_norm"], None, "norm");
        check(kernel, &["aten::mul", "aten::scaled_dot_product_attention"], None, "attention");
        check(kernel, &["aten::mul", "Optimizer.step#AdamW.step"], None, "optimizer");
        check(kernel, &["aten::mul"], Some(Phase::Optimizer), "optimizer");
        check("volta_scudnn_128x64_relu", &["aten::cudnn_convolution"], None, "convolution");
    }

    #[test]
    fn attention_by_name_and_by_phase() {
        let flash = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>";
        check(flash, &["aten::_flash_attention_forward"], None, "attention");
        check(flash, &[], Some(Phase::Decode), "attention decode");
        check(flash, &[], Some(Phase::Prefill), "attention prefill");
        check(flash, &[], Some(Phase::Mixed), "attention");
        check("fmhaSm100aKernel_QkvE4m3PersistentContext", &[], None, "attention prefill");
        check("kernel_unified_attention_3d", &[], None, "attention decode");
        check("kernel_unified_attention_2d", &[], Some(Phase::Mixed), "attention");
    }

    #[test]
    fn a_scan_is_not_the_projections_beside_it() {
        let (product, frame) = ("nvjet_sm90_tst_64x8", "modeling_mamba.py(173): selective_scan");
        check(product, &["aten::bmm", "aten::matmul", frame], None, "ssm");
        check("elementwise_kernel", &["aten::mul", frame], None, "ssm");
        check(product, &["aten::mm", "aten::linear", "MambaInnerFn"], None, "gemm");
        check("selective_scan_fwd_kernel", &["MambaInnerFn"], None, "ssm");
        check(product, &["aten::mm", "nn.Module: MambaMixer_0"], None, "gemm");
    }

    #[test]
    fn a_name_that_says_nothing_stays_other() {
        check("void at::native::something_new<float>", &["aten::something"], None, OTHER);
        check("my_kernel", &[], None, OTHER);
        check("", &[], None, OTHER);
    }

    #[track_caller]
    fn check_error(text: &str, line: usize, what: &str, found: &str) {
        let error = ClassRules::with_own(text).expect_err("a mistake");
        assert_eq!((error.line, error.what.as_str(), error.found.as_str()), (line, what, found));
    }

    #[test]
    fn mistakes_are_reported_with_line_and_value() {
        check_error("[[rule]]\nclass = \"\"\n", 2, "a class without a name", "\"\"");
        check_error("\n[[rule]]\nclass = \"x\"\n", 2, "a rule without a condition", "[[rule]]");
        let expected = "unknown variant `cpu`, expected one of `kernel`, `memcpy`, `memset`";
        check_error("[[rule]]\nclass = \"x\"\nwork = [\"cpu\"]\n", 3, expected, "\"cpu\"");
        let expected = "invalid type: string \"a\", expected a sequence";
        check_error("[[rule]]\nclass = \"x\"\nkernel = \"a\"\n", 3, expected, "\"a\"");
    }

    #[test]
    fn own_rules_go_first() {
        let own = "[[rule]]\nclass = \"mine\"\nunder = [\"my::*\"]\nkernel = [\"*gemm*\"]\n";
        let rules = ClassRules::with_own(own).expect("a good table");
        let class = |operator: &str| {
            let under = rules.under_bits(operator);
            let (kind, phase) = (SpanKind::Kernel, None);
            let kernel = "sgemm";
            rules.class(&Described { kernel, operator, kind, phase, under }).to_owned()
        };
        assert_eq!((class("my::op").as_str(), class("aten::mm").as_str()), ("mine", "gemm"));
    }
}
