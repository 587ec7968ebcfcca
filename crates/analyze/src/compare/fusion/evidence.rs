//! What kernels say about what they were made of.
//!
//! A compiler names a kernel after the operators that it fused
//! (`triton_red_fused_add_mean_mul_pow_rsqrt`), and attention in one kernel replaces
//! products and a softmax. Where work of the other side is among that, the two belong
//! together.

use super::items::Item;

/// Whether a kernel's name lists the operators that it was made of.
pub(super) fn is_made_by_compiler(item: &Item) -> bool {
    item.name.starts_with("triton_") && item.name.contains("_fused_")
}

/// Whether the name of one kernel lists an operator of the other.
pub(super) fn names(fused: &Item, part: &Item) -> bool {
    if !is_made_by_compiler(fused) {
        return false;
    }
    let Some((_, list)) = fused.name.split_once("_fused") else { return false };
    let list = format!("{list}_");
    part.operators.iter().any(|operator| {
        let operator = operator.rsplit("::").next().unwrap_or(operator);
        // An operator that writes in place is listed without its underscore.
        let operator = operator.strip_suffix('_').unwrap_or(operator);
        !operator.is_empty() && list.contains(&format!("_{operator}_"))
    })
}

/// Of `parts`, in thousandths, those that some kernel of the other side names.
pub(super) fn named_share(fused: &[&Item], parts: &[&Item]) -> usize {
    let named = parts.iter().filter(|part| fused.iter().any(|fused| names(fused, part))).count();
    (named * 1000).checked_div(parts.len()).unwrap_or(0)
}

/// Whether one side is attention in one piece and the other attention in parts.
pub(super) fn is_whole_attention(whole: &[&Item], parts: &[&Item]) -> bool {
    let has = |items: &[&Item], class: &str| items.iter().any(|item| item.class.starts_with(class));
    has(whole, "attention")
        && !has(parts, "attention")
        && has(parts, "gemm")
        && has(parts, "softmax")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, operators: &[&str], class: &str) -> Item {
        let operators = operators.iter().map(|&operator| operator.to_owned()).collect();
        let (name, class) = (name.to_owned(), class.to_owned());
        Item { name, operators, class, is_kernel: true, keys: [0; 3] }
    }

    #[track_caller]
    fn check(fused: &str, operators: &[&str], expected: bool) {
        assert_eq!(names(&item(fused, &[], "fused"), &item("k", operators, "copy")), expected);
    }

    #[test]
    fn names_of_compilers_list_operators() {
        let fused = "triton_red_fused__to_copy__unsafe_view_add_mean_rsqrt";
        check(fused, &["aten::mean"], true);
        check(fused, &["aten::rsqrt"], true);
        check(fused, &["aten::copy_", "aten::_to_copy", "aten::to"], true);
        check(fused, &["aten::add_"], true);
        check(fused, &["aten::sqrt"], false);
        check(fused, &["aten::mul"], false);
        check(fused, &[], false);
        check("my_fused_mean_kernel", &["aten::mean"], false);
    }

    #[test]
    fn attention_in_one_piece_replaces_products_and_a_softmax() {
        let flash = item("flash_fwd", &[], "attention");
        let parts = [item("a", &[], "gemm"), item("b", &[], "softmax"), item("c", &[], "gemm")];
        let parts: Vec<&Item> = parts.iter().collect();
        assert!(is_whole_attention(&[&flash], &parts));
        assert!(!is_whole_attention(&parts, &[&flash]));
        assert!(!is_whole_attention(&[&flash], &parts[..1]));
    }
}
