//! How much arithmetic and how many bytes an operator needs, from its shapes.
//!
//! Bytes are those that must move at least: every input read once, every output
//! written once. Arithmetic is counted as usual: a multiplication and an addition are
//! two. What has no model here is not guessed.

use spanwise_model::ArgValue;

/// The least that an operator has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    pub flops: u128,
    pub bytes: u128,
    pub of: NumberType,
}

/// What an operator computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NumberType {
    Float64,
    Float32,
    /// 32 bits in memory, fewer in the matrix units.
    TensorFloat32,
    Float16,
    BFloat16,
    Float8,
    /// Of so many bytes.
    Integer(u8),
}

impl NumberType {
    pub fn text(self) -> &'static str {
        match self {
            NumberType::Float64 => "fp64",
            NumberType::Float32 => "fp32",
            NumberType::TensorFloat32 => "tf32",
            NumberType::Float16 => "fp16",
            NumberType::BFloat16 => "bf16",
            NumberType::Float8 => "fp8",
            NumberType::Integer(1) => "int8",
            NumberType::Integer(2) => "int16",
            NumberType::Integer(4) => "int32",
            NumberType::Integer(_) => "int64",
        }
    }

    fn bytes(self) -> u128 {
        match self {
            NumberType::Float64 => 8,
            NumberType::Float32 | NumberType::TensorFloat32 => 4,
            NumberType::Float16 | NumberType::BFloat16 => 2,
            NumberType::Float8 => 1,
            NumberType::Integer(bytes) => bytes.into(),
        }
    }

    /// From the type's name in C++, as PyTorch records it.
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "double" => NumberType::Float64,
            "float" => NumberType::Float32,
            "c10::Half" => NumberType::Float16,
            "c10::BFloat16" => NumberType::BFloat16,
            _ if name.starts_with("c10::Float8") => NumberType::Float8,
            "bool" | "unsigned char" | "signed char" | "c10::Byte" => NumberType::Integer(1),
            "short" | "short int" => NumberType::Integer(2),
            "int" => NumberType::Integer(4),
            "long" | "long int" => NumberType::Integer(8),
            _ => return None,
        })
    }
}

/// A tensor argument.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tensor {
    dims: Vec<u128>,
    of: NumberType,
}

impl Tensor {
    fn numbers(&self) -> u128 {
        self.dims.iter().fold(1, |product, &dim| product.saturating_mul(dim))
    }

    fn bytes(&self) -> u128 {
        self.numbers().saturating_mul(self.of.bytes())
    }
}

/// The recorded arguments of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inputs {
    /// By position; `None` for what is no tensor.
    tensors: Vec<Option<Tensor>>,
    /// Values that are no tensors, as text.
    values: Vec<String>,
}

/// The arguments that [`Inputs::new`] wants, in its order.
pub(crate) const INPUT_KEYS: [&str; 3] = ["Input Dims", "Input type", "Concrete Inputs"];

impl Inputs {
    /// `None` where shapes were not recorded.
    pub(crate) fn new(args: &[Option<ArgValue>]) -> Option<Self> {
        let list = |at: usize| match args.get(at)? {
            Some(ArgValue::List(list)) => Some(list.as_slice()),
            _ => None,
        };
        let (dims, types) = (list(0)?, list(1)?);
        let tensor = |(dims, of): (&ArgValue, &ArgValue)| {
            let of = NumberType::parse(of.as_text()?)?;
            let ArgValue::List(dims) = dims else { return None };
            let dims = dims.iter().map(|dim| u128::try_from(dim.as_i64()?).ok());
            Some(Tensor { dims: dims.collect::<Option<_>>()?, of })
        };
        let values = list(2).unwrap_or_default();
        let values = values.iter().map(|value| value.as_text().unwrap_or_default().to_owned());
        Some(Inputs {
            tensors: dims.iter().zip(types).map(tensor).collect(),
            values: values.collect(),
        })
    }

    /// "64x512 512x128": the tensors' dimensions.
    pub(crate) fn shape_text(&self) -> String {
        let text = |tensor: &Tensor| {
            let dims: Vec<String> = tensor.dims.iter().map(u128::to_string).collect();
            dims.join("x")
        };
        let tensors = self.tensors.iter().flatten().filter(|tensor| !tensor.dims.is_empty());
        tensors.map(text).collect::<Vec<_>>().join(" ")
    }

    fn tensor(&self, at: usize) -> Option<&Tensor> {
        self.tensors.get(at)?.as_ref().filter(|tensor| !tensor.dims.is_empty())
    }

    fn value(&self, at: usize) -> &str {
        self.values.get(at).map_or("", String::as_str)
    }

    /// "[2, 2]" as numbers; one number counts for every dimension.
    fn numbers(&self, at: usize, count: usize) -> Option<Vec<u128>> {
        let text = self.value(at).strip_prefix('[')?.strip_suffix(']')?;
        let numbers: Option<Vec<u128>> =
            text.split(',').map(|number| number.trim().parse().ok()).collect();
        match numbers?.as_slice() {
            [one] => Some(vec![*one; count]),
            several if several.len() == count => Some(several.to_vec()),
            _ => None,
        }
    }
}

/// How an operator's cost follows from its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Model {
    /// The two factors' positions.
    Product(usize, usize),
    /// Input, then weight with the inner dimension last.
    Linear,
    /// Positions of stride, padding and dilation, and of "transposed" where there is one.
    Convolution {
        places: [usize; 3],
        transposed: Option<usize>,
    },
    ConvolutionBackward,
    Attention {
        layout: Layout,
        causal: usize,
    },
    /// Rows of a table, and which: positions of both.
    Gather(usize, usize),
    /// Reads the first tensor and writes as much, with so many operations a number.
    Map(u128),
    /// Reads the first tensor and writes little.
    Reduce,
    /// Reads all tensors, writes one of the common shape.
    Elementwise,
    /// Writes the first tensor, reads the second.
    Copy,
    /// Writes the first tensor.
    Fill,
}

/// In which order attention has its dimensions; the batch is first, the width last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    HeadsThenTokens,
    TokensThenHeads,
}

const ELEMENTWISE: &[&str] = &[
    "add",
    "add_",
    "sub",
    "sub_",
    "mul",
    "mul_",
    "div",
    "div_",
    "neg",
    "pow",
    "rsqrt",
    "sqrt",
    "exp",
    "log",
    "cos",
    "sin",
    "abs",
    "sigmoid",
    "sigmoid_",
    "tanh",
    "silu",
    "silu_",
    "gelu",
    "relu",
    "relu_",
    "clamp",
    "clamp_min",
    "clamp_min_",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "where",
    "reciprocal",
    "bitwise_and",
    "bitwise_or",
    "bitwise_not",
    "threshold_backward",
    "silu_backward",
    "gelu_backward",
    "sigmoid_backward",
    "tanh_backward",
    "masked_fill_",
    "addcmul",
    "addcdiv",
    "logical_not",
    "erf",
    "maximum",
    "minimum",
    "softplus",
];

/// The model of an operator, by name; positions are those of its arguments.
pub(crate) fn model_of(operator: &str) -> Option<Model> {
    use Layout::{HeadsThenTokens, TokensThenHeads};
    let name = operator.strip_prefix("aten::")?;
    let attention = |layout, causal| Model::Attention { layout, causal };
    let convolution = |places, transposed| Model::Convolution { places, transposed };
    Some(match name {
        "mm" | "bmm" | "matmul" => Model::Product(0, 1),
        "addmm" | "baddbmm" | "addmm_" | "_addmm_activation" => Model::Product(1, 2),
        "linear" => Model::Linear,
        "conv1d" | "conv2d" | "conv3d" => convolution([3, 4, 5], None),
        "convolution" | "_convolution" => convolution([3, 4, 5], Some(6)),
        "cudnn_convolution" => convolution([3, 2, 4], None),
        "miopen_convolution" => convolution([4, 3, 5], None),
        "convolution_backward" => Model::ConvolutionBackward,
        "scaled_dot_product_attention" => attention(HeadsThenTokens, 5),
        "_scaled_dot_product_flash_attention" => attention(HeadsThenTokens, 4),
        "_scaled_dot_product_efficient_attention" | "_scaled_dot_product_cudnn_attention" => {
            attention(HeadsThenTokens, 6)
        }
        "_cudnn_attention_forward" => attention(HeadsThenTokens, 10),
        "_flash_attention_forward" => attention(TokensThenHeads, 8),
        "_efficient_attention_forward" => attention(TokensThenHeads, 9),
        "embedding" => Model::Gather(0, 1),
        "index_select" => Model::Gather(0, 2),
        "native_layer_norm" | "native_batch_norm" | "cudnn_batch_norm" | "miopen_batch_norm"
        | "native_group_norm" | "_fused_rms_norm" | "rms_norm" => Model::Map(8),
        "_softmax" | "_log_softmax" => Model::Map(5),
        "sum" | "mean" | "argmax" | "argmin" | "max" | "min" | "any" | "all" => Model::Reduce,
        "copy_" => Model::Copy,
        "fill_" | "zero_" => Model::Fill,
        name if ELEMENTWISE.contains(&name) => Model::Elementwise,
        _ => return None,
    })
}

impl Model {
    /// `None` where the recorded shapes do not fit the model.
    pub(crate) fn cost(self, inputs: &Inputs) -> Option<Cost> {
        match self {
            Model::Product(a, b) => product(inputs.tensor(a)?, inputs.tensor(b)?),
            Model::Linear => {
                let (input, weight) = (inputs.tensor(0)?, inputs.tensor(1)?);
                let [.., inner] = *input.dims.as_slice() else { return None };
                let [outer, same] = *weight.dims.as_slice() else { return None };
                let rows = input.numbers().checked_div(inner)?;
                (inner == same).then(|| gemm(1, [rows, inner, outer], input.of))
            }
            // Transposed convolutions have their sizes the other way round.
            Model::Convolution { transposed: Some(at), .. } if inputs.value(at) == "True" => None,
            Model::Convolution { places, .. } => convolution(inputs, places),
            Model::ConvolutionBackward => convolution_backward(inputs),
            Model::Attention { layout, causal } => attention(inputs, layout, causal),
            Model::Gather(table, index) => {
                let (table, index) = (inputs.tensor(table)?, inputs.tensor(index)?);
                let row = table.numbers().checked_div(*table.dims.first()?)?;
                let moved = index.numbers().saturating_mul(row).saturating_mul(table.of.bytes());
                let bytes = moved.saturating_mul(2).saturating_add(index.bytes());
                Some(Cost { flops: 0, bytes, of: table.of })
            }
            Model::Map(each) => {
                let tensor = inputs.tensor(0)?;
                let flops = tensor.numbers().saturating_mul(each);
                Some(Cost { flops, bytes: tensor.bytes().saturating_mul(2), of: tensor.of })
            }
            Model::Reduce => {
                let tensor = inputs.tensor(0)?;
                Some(Cost { flops: tensor.numbers(), bytes: tensor.bytes(), of: tensor.of })
            }
            Model::Elementwise => elementwise(inputs),
            Model::Copy => {
                let (to, from) = (inputs.tensor(0)?, inputs.tensor(1)?);
                let bytes = to.bytes().saturating_add(from.bytes());
                Some(Cost { flops: 0, bytes, of: to.of })
            }
            Model::Fill => {
                let to = inputs.tensor(0)?;
                Some(Cost { flops: 0, bytes: to.bytes(), of: to.of })
            }
        }
    }
}

/// `batch` products of m × k and k × n.
fn gemm(batch: u128, [m, k, n]: [u128; 3], of: NumberType) -> Cost {
    let times = |factors: &[u128]| factors.iter().fold(1_u128, |a, &b| a.saturating_mul(b));
    let moved = times(&[m, k]).saturating_add(times(&[k, n])).saturating_add(times(&[m, n]));
    Cost { flops: times(&[2, batch, m, k, n]), bytes: times(&[batch, moved, of.bytes()]), of }
}

/// A product of matrices, or of stacks of them.
fn product(a: &Tensor, b: &Tensor) -> Option<Cost> {
    let [batch @ .., m, k] = a.dims.as_slice() else { return None };
    let [other @ .., same, n] = b.dims.as_slice() else { return None };
    let stack = batch.iter().fold(1_u128, |product, &dim| product.saturating_mul(dim));
    // One matrix for the whole stack is one product of more rows.
    if other.is_empty() {
        return (k == same).then(|| gemm(1, [stack.saturating_mul(*m), *k, *n], a.of));
    }
    (k == same && other == batch).then(|| gemm(stack, [*m, *k, *n], a.of))
}

/// `places`: the positions of stride, padding and dilation.
fn convolution(inputs: &Inputs, places: [usize; 3]) -> Option<Cost> {
    let (input, weight) = (inputs.tensor(0)?, inputs.tensor(1)?);
    let [batch, _, sides @ ..] = input.dims.as_slice() else { return None };
    let [channels_out, channels_in, kernel @ ..] = weight.dims.as_slice() else { return None };
    let count = sides.len();
    let [stride, padding, dilation] = places.map(|at| inputs.numbers(at, count));
    let (stride, padding, dilation) = (stride?, padding?, dilation?);
    if kernel.len() != count || count == 0 {
        return None;
    }
    let mut out = batch.saturating_mul(*channels_out);
    for at in 0..count {
        let reach = dilation[at].checked_mul(kernel[at].checked_sub(1)?)?.checked_add(1)?;
        let room = sides[at].checked_add(padding[at].checked_mul(2)?)?.checked_sub(reach)?;
        out = out.saturating_mul(room.checked_div(stride[at])?.checked_add(1)?);
    }
    let taps = kernel.iter().fold(*channels_in, |product, &side| product.saturating_mul(side));
    let moved = input.bytes().saturating_add(weight.bytes());
    Some(Cost {
        flops: out.saturating_mul(taps).saturating_mul(2),
        bytes: moved.saturating_add(out.saturating_mul(input.of.bytes())),
        of: input.of,
    })
}

/// Gradients of the input and of the weight each cost what the forward pass did.
fn convolution_backward(inputs: &Inputs) -> Option<Cost> {
    let (grad, input, weight) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
    if inputs.value(7) == "True" {
        return None;
    }
    let mask = inputs.value(10).strip_prefix('[')?.strip_suffix(']')?;
    let wanted: Vec<bool> = mask.split(',').map(|flag| flag.trim() == "True").collect();
    let [wants_input, wants_weight, ..] = *wanted.as_slice() else { return None };
    let passes = u128::from(wants_input) + u128::from(wants_weight);
    let taps = weight.numbers().checked_div(*weight.dims.first()?)?;
    let flops = grad.numbers().saturating_mul(taps).saturating_mul(2 * passes);
    let each = grad.bytes().saturating_add(input.bytes()).saturating_add(weight.bytes());
    Some(Cost { flops, bytes: each.saturating_mul(passes), of: grad.of })
}

fn attention(inputs: &Inputs, layout: Layout, causal: usize) -> Option<Cost> {
    let (query, key, value) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
    // Sequences of several lengths in one tensor: how long each is was not recorded.
    if layout == Layout::TokensThenHeads && inputs.tensors.iter().skip(3).take(2).any(is_tensor) {
        return None;
    }
    let sizes = |tensor: &Tensor| match (layout, tensor.dims.as_slice()) {
        (Layout::HeadsThenTokens, &[batch, heads, tokens, width]) => {
            Some([batch, heads, tokens, width])
        }
        (Layout::TokensThenHeads, &[batch, tokens, heads, width]) => {
            Some([batch, heads, tokens, width])
        }
        _ => None,
    };
    let [batch, heads, asking, width] = sizes(query)?;
    let [_, _, asked, _] = sizes(key)?;
    let [_, _, _, width_out] = sizes(value)?;
    let pairs = [batch, heads, asking, asked].iter().fold(1_u128, |a, &b| a.saturating_mul(b));
    let mut flops = pairs.saturating_mul(2 * (width.saturating_add(width_out)));
    let is_causal = matches!(inputs.value(causal), "True" | "1" | "2");
    if is_causal && asking == asked {
        flops /= 2;
    }
    let out = query.bytes().checked_div(width.max(1))?.saturating_mul(width_out);
    let moved = query.bytes().saturating_add(key.bytes()).saturating_add(value.bytes());
    Some(Cost { flops, bytes: moved.saturating_add(out), of: query.of })
}

fn is_tensor(tensor: &Option<Tensor>) -> bool {
    tensor.as_ref().is_some_and(|tensor| !tensor.dims.is_empty())
}

/// Inputs are broadcast to a common shape, which the output has.
fn elementwise(inputs: &Inputs) -> Option<Cost> {
    let tensors: Vec<&Tensor> = inputs.tensors.iter().flatten().collect();
    let rank = tensors.iter().map(|tensor| tensor.dims.len()).max()?;
    let side = |at: usize| {
        let of = |tensor: &&Tensor| {
            let skip = rank - tensor.dims.len();
            at.checked_sub(skip).map_or(1, |at| tensor.dims[at])
        };
        tensors.iter().map(of).max().unwrap_or(1)
    };
    let numbers = (0..rank).fold(1_u128, |product, at| product.saturating_mul(side(at)));
    let first = tensors.iter().find(|tensor| !tensor.dims.is_empty())?;
    let read = tensors.iter().filter(|tensor| !tensor.dims.is_empty());
    let read = read.fold(0_u128, |sum, tensor| sum.saturating_add(tensor.bytes()));
    let written = numbers.saturating_mul(first.of.bytes());
    Some(Cost { flops: numbers, bytes: read.saturating_add(written), of: first.of })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(tensors: &[(&[i64], &str)], values: &[&str]) -> Inputs {
        let int = |&dim: &i64| ArgValue::Int(dim);
        let text = |text: &str| ArgValue::Text(text.to_owned());
        let dims = tensors.iter().map(|(dims, _)| ArgValue::List(dims.iter().map(int).collect()));
        let args = [
            Some(ArgValue::List(dims.collect())),
            Some(ArgValue::List(tensors.iter().map(|(_, of)| text(of)).collect())),
            Some(ArgValue::List(values.iter().map(|value| text(value)).collect())),
        ];
        Inputs::new(&args).expect("shapes")
    }

    /// `expected`: operations and bytes.
    #[track_caller]
    fn check(
        operator: &str,
        tensors: &[(&[i64], &str)],
        values: &[&str],
        expected: Option<(u128, u128)>,
    ) {
        let model = model_of(operator).expect("a model");
        let cost = model.cost(&inputs(tensors, values)).map(|cost| (cost.flops, cost.bytes));
        assert_eq!(cost, expected, "{operator} {tensors:?}");
    }

    const BF16: &str = "c10::BFloat16";

    #[test]
    fn products_cost_two_operations_a_term() {
        let bytes = (64 * 512 + 512 * 128 + 64 * 128) * 2;
        let flops = 2 * 64 * 512 * 128;
        check("aten::mm", &[(&[64, 512], BF16), (&[512, 128], BF16)], &[], Some((flops, bytes)));
        let with_bias = [(&[128_i64] as &[i64], BF16), (&[64, 512], BF16), (&[512, 128], BF16)];
        check("aten::addmm", &with_bias, &[], Some((flops, bytes)));
        let stacks = [(&[8_i64, 64, 512] as &[i64], BF16), (&[8, 512, 128], BF16)];
        check("aten::bmm", &stacks, &[], Some((8 * flops, 8 * bytes)));
        let weight = [(&[1_i64, 64, 512] as &[i64], BF16), (&[128, 512], BF16)];
        check("aten::linear", &weight, &[], Some((flops, bytes)));
        check("aten::mm", &[(&[64, 512], BF16), (&[511, 128], BF16)], &[], None);
    }

    #[test]
    fn convolutions_count_their_taps() {
        let tensors = [(&[32_i64, 3, 160, 160] as &[i64], "float"), (&[64, 3, 7, 7], "float")];
        let out = 32 * 64 * 80 * 80;
        let bytes = (32 * 3 * 160 * 160 + 64 * 3 * 7 * 7 + out) * 4;
        let expected = Some((2 * out * 3 * 7 * 7, bytes));
        let values = ["", "", "[3, 3]", "[2, 2]", "[1, 1]", "1", "True"];
        check("aten::cudnn_convolution", &tensors, &values, expected);
        let values = ["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1"];
        check("aten::convolution", &tensors, &values, expected);
        let values = ["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "True", "[0, 0]", "1"];
        check("aten::convolution", &tensors, &values, None);
    }

    #[test]
    fn attention_counts_pairs_and_half_of_them_when_causal() {
        let tensors: [(&[i64], &str); 3] =
            [(&[1, 8, 64, 64], BF16), (&[1, 2, 64, 64], BF16), (&[1, 2, 64, 64], BF16)];
        let flops = 2 * 8 * 64 * 64 * 128;
        let bytes = (2 * 8 * 64 * 64 + 2 * 2 * 64 * 64) * 2;
        let open = ["", "", "", "", "0.", "False"];
        check("aten::scaled_dot_product_attention", &tensors, &open, Some((flops, bytes)));
        let causal = ["", "", "", "", "0.", "True"];
        check("aten::scaled_dot_product_attention", &tensors, &causal, Some((flops / 2, bytes)));
    }

    #[test]
    fn the_rest_moves_bytes() {
        check("aten::add", &[(&[4, 8], "float"), (&[8], "float")], &[], Some((32, 72 * 4)));
        check("aten::mul", &[(&[4, 8], BF16), (&[], "double")], &[], Some((32, 128)));
        check("aten::copy_", &[(&[16], "float"), (&[16], BF16)], &[], Some((0, 96)));
        let lookup = [(&[1000_i64, 64] as &[i64], BF16), (&[10], "long int")];
        check("aten::embedding", &lookup, &[], Some((0, 10 * 64 * 2 * 2 + 80)));
        check("aten::_softmax", &[(&[2, 4], "float")], &[], Some((40, 64)));
        check("aten::sum", &[(&[10], "float")], &[], Some((10, 40)));
    }

    #[test]
    fn what_is_unknown_or_odd_has_no_cost() {
        assert_eq!(model_of("aten::grid_sampler"), None);
        assert_eq!(model_of("vllm::moe"), None);
        assert_eq!(Inputs::new(&[None, None, None]), None);
        check("aten::mm", &[(&[i64::MAX, -1], BF16), (&[1, 1], BF16)], &[], None);
        check("aten::mm", &[], &[], None);
        check("aten::sum", &[(&[], "float")], &[], None);
        check("aten::sum", &[(&[i64::MAX, i64::MAX, i64::MAX], "c10::QInt8")], &[], None);
    }
}
