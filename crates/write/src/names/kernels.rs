//! Phrases for kernels of well-known libraries, whose names say what they do in a fixed place.
//!
//! The operation is searched among the template arguments: PyTorch's elementwise kernels are all
//! `vectorized_elementwise_kernel`, and what they compute is the functor that they are given.

use super::cpp::{Component, Function, arguments, scalar};

/// Kernels that take what they do as an argument: their name, the word for people, and what
/// distinguishes them from others of the same word.
const GENERIC: [[&str; 3]; 12] = [
    ["vectorized_elementwise_kernel", "elementwise", "vec"],
    ["vectorized_templated_elementwise_kernel", "elementwise", "vec templated"],
    ["unrolled_elementwise_kernel", "elementwise", "unrolled"],
    ["elementwise_kernel", "elementwise", "strided"],
    ["elementwise_kernel_manual_unroll", "elementwise", "strided unrolled"],
    ["elementwise_kernel_with_index", "elementwise", ""],
    ["legacy_elementwise_kernel", "elementwise", "legacy"],
    ["index_elementwise_kernel", "index", ""],
    ["reduce_kernel", "reduce", ""],
    ["multi_tensor_apply_kernel", "foreach", "lists"],
    ["distribution_elementwise_grid_stride_kernel", "random", ""],
    ["tensor_kernel_scan_innermost_dim", "scan", ""],
];

/// What stands around an operation and is none; so are functors such as `BinaryOpListFunctor`.
const WRAPPERS: [&str; 18] = [
    "gpu_kernel_impl",
    "gpu_kernel_impl_nocast",
    "gpu_index_kernel",
    "opmath_gpu_kernel_with_scalars",
    "opmath_symmetric_gpu_kernel_with_scalars",
    "BinaryFunctor",
    "BUnaryFunctor",
    "AUnaryFunctor",
    "ReduceOp",
    "func_wrapper_t",
    "TensorListMetadata",
    "TensorListScalarListMetadata",
    "FusedOptimizerTensorListMetadata",
    "array",
    "OpaqueType",
    "TrivialOffsetCalculator",
    "OffsetCalculator",
    "complex",
];

/// Kernels that are named by their first argument alone.
const NAMED_BY_ARGUMENT: [&str; 4] = ["Kernel", "Kernel2", "device_kernel", "kernel_launcher"];

/// The phrase for a kernel that takes its operation as an argument.
pub(super) fn phrase(function: &Function<'_>) -> Option<String> {
    let last = function.last();
    if NAMED_BY_ARGUMENT.contains(&last.name) {
        return named_by_argument(last);
    }
    let [_, word, how] = GENERIC.iter().find(|[name, ..]| *name == last.name)?;
    let args = arguments(last.args);
    let mut phrase = operation(last.args)?;
    if !phrase.starts_with(word) {
        phrase = format!("{word} {phrase}");
    }
    // A scalar is the second operand.
    if ["BUnaryFunctor", "AUnaryFunctor", "OnSelf_"].iter().any(|mark| last.args.contains(mark)) {
        phrase.push_str(" scalar");
    }
    let kind = args.iter().find_map(|arg| element_type(arg)).filter(|kind| *kind != "f32");
    if let Some(kind) = kind {
        phrase.push(' ');
        phrase.push_str(kind);
    }
    let how = match *how {
        "vec" => format!("vec{}", args.first()?),
        "lists" => number_of_lists(last.args)?,
        how => how.to_owned(),
    };
    if !how.is_empty() {
        phrase.push_str(&format!(" ({how})"));
    }
    Some(phrase)
}

/// "2 lists", of tensors.
fn number_of_lists(list: &str) -> Option<String> {
    let (_, rest) = list.split_once("Metadata<")?;
    let number = rest.split('>').next()?.rsplit(',').next()?.trim();
    Some(format!("{number} {}", if number == "1" { "list" } else { "lists" }))
}

/// The first argument, with the size of its tile where it states one.
fn named_by_argument(kernel: Component<'_>) -> Option<String> {
    let mut name = Function::parse_path(arguments(kernel.args).first()?)?.last();
    while name.name.starts_with("enable_") {
        name = Function::parse_path(arguments(name.args).first()?)?.last();
    }
    let tile = kernel.args.split_once("GemmShape<").map(|(_, rest)| {
        let sizes: Vec<&str> = rest.split('>').next().unwrap_or_default().split(',').collect();
        let sizes: Vec<&str> = sizes.into_iter().map(str::trim).collect();
        format!(" {}", sizes.join("x"))
    });
    Some(format!("{}{}", name.name, tile.unwrap_or_default()))
}

/// The operation among template arguments: the first name, from outside to inside, that is
/// neither a wrapper nor a type.
fn operation(list: &str) -> Option<String> {
    let mut waiting: Vec<&str> = arguments(list);
    waiting.reverse();
    while let Some(argument) = waiting.pop() {
        if scalar(argument).is_some() {
            continue;
        }
        let Some(path) = Function::parse_path(argument) else { continue };
        let is_lambda = |step: &&Component<'_>| step.name.starts_with(['{', '(']);
        let Some(step) = path
            .path
            .iter()
            .rev()
            .find(|step| !is_lambda(step) && !step.name.starts_with("operator"))
        else {
            continue;
        };
        if is_operation(step.name) {
            return Some(operation_word(step.name));
        }
        let mut inner = arguments(step.args);
        inner.reverse();
        waiting.extend(inner);
    }
    None
}

fn is_operation(name: &str) -> bool {
    let is_shape = ["UnaryOp", "BinaryOp", "TernaryOp", "PointwiseOp"]
        .iter()
        .any(|start| name.starts_with(start) && name.ends_with("Functor"));
    let is_word = matches!(name, "true" | "false" | "bool" | "char" | "void");
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    is_name && !(is_shape || is_word || WRAPPERS.contains(&name))
}

/// `MulFunctor`, `sin_kernel_cuda`, `CUDAFunctor_add`: the operation alone.
fn operation_word(name: &str) -> String {
    const BEFORE: [&str; 3] = ["CUDAFunctorOnSelf_", "CUDAFunctor_", "launch_"];
    const BEHIND: [&str; 13] = [
        "_cuda_out",
        "_kernel_cuda",
        "_kernel_impl",
        "_cuda_kernel",
        "CUDAKernelImpl",
        "KernelImpl",
        "_kernel",
        "_cuda",
        "_functor",
        "Functor",
        "_impl",
        "Ops",
        "Op",
    ];
    let mut word = name;
    for before in BEFORE {
        word = word.strip_prefix(before).unwrap_or(word);
    }
    for behind in BEHIND {
        word = word.strip_suffix(behind).filter(|word| !word.is_empty()).unwrap_or(word);
    }
    match word {
        "plus" => "add".to_owned(),
        "minus" => "sub".to_owned(),
        "multiplies" => "mul".to_owned(),
        "divides" => "div".to_owned(),
        _ => snake_case(word),
    }
}

/// `ArgMax` is `arg_max`; `GELU` is `gelu`.
fn snake_case(word: &str) -> String {
    let mut snake = String::with_capacity(word.len() + 4);
    let mut was_lower = false;
    for c in word.chars() {
        if c.is_ascii_uppercase() && was_lower {
            snake.push('_');
        }
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// The first type of numbers in an argument, outside first.
fn element_type(argument: &str) -> Option<&'static str> {
    if let Some(kind) = scalar(argument) {
        return Some(kind);
    }
    let inner = |open: char, close: char| {
        let at = argument.find(open)?;
        let end = argument.rfind(close)?;
        argument.get(at + 1..end)
    };
    // The parameter of the innermost lambda is what an element is; that of the outermost may be
    // an index.
    let argument = argument.strip_suffix("::{lambda(int)#1}").unwrap_or(argument);
    if let Some(at) = argument.rfind("{lambda(") {
        let rest = &argument[at + "{lambda(".len()..];
        return arguments(rest.split(')').next()?).first().and_then(|arg| scalar(arg));
    }
    arguments(inner('<', '>')?).into_iter().find_map(element_type)
}

/// Names that are a sentence of abbreviations: the operation and its types and tile sizes stay.
pub(super) fn library_kernel(name: &str) -> Option<String> {
    if let Some((before, rest)) = name.split_once("_tilesize")
        && name.contains("_xmma_")
    {
        let tile = rest.split('_').next().unwrap_or_default();
        return Some(format!("{before} {tile}"));
    }
    if name.starts_with("Cijk_") {
        let at = name.find("_MT")?;
        let (before, rest) = name.split_at(at);
        let tile = rest["_MT".len()..].split('_').next().unwrap_or_default();
        let plain: Vec<&str> = before.split('_').take(4).collect();
        return Some(format!("{} {tile}", plain.join("_")));
    }
    None
}
