//! C++ function names, taken apart: path, template arguments, without return type and parameters.
//!
//! Not a parser of C++: brackets are matched and the rest is text, which is enough for names that
//! compilers and demanglers write. What does not match is not taken apart at all.

/// A function name in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Function<'a> {
    /// Namespaces and classes, outermost first, then the function itself.
    pub path: Vec<Component<'a>>,
}

/// One step of a path such as `at::native::add<float>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Component<'a> {
    pub name: &'a str,
    /// Between `<` and `>`; empty without.
    pub args: &'a str,
}

impl<'a> Function<'a> {
    /// The parts, or `None` if the text is not the name of a C++ function with parameters or
    /// template arguments: there is nothing to leave out of others.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        // `<T as Trait>::f` of Rust, and a qualified path of nothing else.
        if text.starts_with('<') || !text.contains(['<', '(']) {
            return None;
        }
        let name = without_signature(text)?;
        let before = text[..name.as_ptr() as usize - text.as_ptr() as usize].trim();
        let is_type = before.is_empty()
            || before == "void"
            || before.ends_with("::type")
            || scalar(before).is_some();
        is_type.then(|| Function::parse_path(name)).flatten()
    }

    /// The parts of a type or of a function, without searching for a signature first.
    pub(super) fn parse_path(text: &'a str) -> Option<Self> {
        let path = components(without_signature(text)?)?;
        (!path.is_empty()).then_some(Function { path })
    }

    pub(super) fn last(&self) -> Component<'a> {
        *self.path.last().expect("a path has a step")
    }

    /// The class and the function, with arguments in a word each; without namespaces.
    pub(super) fn short(&self) -> String {
        let mut first = self.path.len() - 1;
        while first > 0 && is_class_like(self.path[first - 1], self.path[first]) {
            first -= 1;
        }
        let steps: Vec<String> = self.path[first..].iter().map(|step| step.short()).collect();
        steps.join("::")
    }
}

/// Whether a function is unclear without what it is in: a class, not a namespace.
fn is_class_like(outer: Component<'_>, inner: Component<'_>) -> bool {
    !outer.args.is_empty()
        || outer.name.starts_with(char::is_uppercase)
        || inner.name.starts_with('{')
        || inner.name.starts_with("operator")
        || inner.name.starts_with('~')
        || matches!(inner.name, "kernel" | "Kernel" | "run" | "forward" | "backward")
}

impl Component<'_> {
    fn short(self) -> String {
        let args = arguments(self.args);
        if args.is_empty() {
            return self.name.to_owned();
        }
        let mut args: Vec<String> = args.into_iter().map(word).collect();
        // Types of operands, mostly all the same.
        args.dedup_by(|this, before| {
            this == before && !is_literal(this) && this != "false" && this != "true"
        });
        format!("{}<{}>", self.name, args.join(", "))
    }
}

/// An argument in a word: `bf16` for `c10::BFloat16`, `OpaqueType` for `at::OpaqueType<4u>`.
fn word(argument: &str) -> String {
    if let Some(kind) = scalar(argument) {
        return kind.to_owned();
    }
    // `(Mode)0`, and `4u`
    if let Some((_, value)) = argument.rsplit_once(')')
        && is_literal(value)
    {
        return value.to_owned();
    }
    let Some(path) = without_signature(argument).and_then(components) else {
        return argument.to_owned();
    };
    let named = path.iter().rev().find(|step| !step.name.starts_with('{'));
    match named {
        Some(step) if step.args.is_empty() => step.name.to_owned(),
        Some(step) if arguments(step.args).iter().all(|arg| is_literal(arg)) => {
            format!("{}<{}>", step.name, arguments(step.args).join(", "))
        }
        Some(step) => step.name.to_owned(),
        None => argument.to_owned(),
    }
}

fn is_literal(argument: &str) -> bool {
    argument.starts_with(|c: char| c.is_ascii_digit() || c == '-')
}

/// The short word for a type of numbers.
pub(super) fn scalar(argument: &str) -> Option<&'static str> {
    let plain = argument.trim_end_matches(['*', '&', ' ']).trim_end_matches(" const");
    Some(match plain {
        "float" => "f32",
        "double" => "f64",
        "c10::BFloat16" | "__nv_bfloat16" | "__hip_bfloat16" | "hip_bfloat16" => "bf16",
        "c10::Half" | "__half" | "half" | "_Float16" => "f16",
        "c10::Float8_e4m3fn" | "__nv_fp8_e4m3" => "f8e4m3",
        "c10::Float8_e5m2" | "__nv_fp8_e5m2" => "f8e5m2",
        "unsigned char" => "u8",
        "signed char" => "i8",
        "short" => "i16",
        "unsigned short" => "u16",
        "int" => "i32",
        "unsigned int" => "u32",
        "long" | "long long" => "i64",
        "unsigned long" | "unsigned long long" => "u64",
        _ => return None,
    })
}

/// The top-level arguments of a list.
pub(super) fn arguments(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, depth, c) in depths(list) {
        if depth == 0 && c == b',' {
            parts.push(list[start..at].trim());
            start = at + 1;
        }
    }
    let last = list[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

/// The name without the return type before it and the parameters behind it; `None` where
/// brackets do not match.
fn without_signature(text: &str) -> Option<&str> {
    let mut depth_at_end = 0;
    let mut start = 0;
    let mut end = text.len();
    for (at, depth, c) in depths(text) {
        depth_at_end = depth;
        if depth != 0 {
            continue;
        }
        let (before, rest) = text.as_bytes().split_at(at);
        match c {
            b' ' if !before.ends_with(b"operator") && !rest.starts_with(b" const") => {
                start = at + 1;
            }
            b'(' if !rest.starts_with(b"(anonymous namespace)")
                && !before.ends_with(b"operator")
                && !is_followed_by_path(text, at) =>
            {
                end = at;
                break;
            }
            _ => {}
        }
    }
    let name = text.get(start..end)?.trim();
    (depth_at_end >= 0 && !name.is_empty()).then_some(name)
}

/// Whether the group that opens here is a part of the path: `f(int)::{lambda()#1}`.
fn is_followed_by_path(text: &str, open: usize) -> bool {
    let Some(close) = closing(text, open) else { return false };
    let rest = text[close + 1..].trim_start_matches(" const");
    rest.starts_with("::")
}

/// Where the bracket that opens here closes.
fn closing(text: &str, open: usize) -> Option<usize> {
    let inner = &text[open + 1..];
    depths(inner).find(|&(_, depth, c)| depth < 0 && c == b')').map(|(at, ..)| open + 1 + at)
}

/// The steps of a path.
fn components(path: &str) -> Option<Vec<Component<'_>>> {
    let mut steps = Vec::new();
    let mut start = 0;
    let bytes = path.as_bytes();
    for (at, depth, c) in depths(path) {
        if depth == 0 && c == b':' && bytes.get(at + 1) == Some(&b':') && at >= start {
            steps.push(&path[start..at]);
            start = at + 2;
        }
    }
    steps.push(path.get(start..)?);
    let named =
        steps.into_iter().filter(|step| !step.is_empty() && *step != "(anonymous namespace)");
    Some(named.map(component).collect())
}

fn component(step: &str) -> Component<'_> {
    let opening = match step.starts_with('{') || step.starts_with("operator") {
        true => None,
        false => step.find(['<', '(']),
    };
    match opening {
        Some(at) if step.as_bytes()[at] == b'<' => {
            let close = matching(step, at).unwrap_or(step.len());
            Component { name: &step[..at], args: step[at + 1..close].trim() }
        }
        Some(at) => Component { name: &step[..at], args: "" },
        None => Component { name: step, args: "" },
    }
}

/// Where the `<` that opens here closes.
fn matching(text: &str, open: usize) -> Option<usize> {
    let inner = &text[open + 1..];
    depths(inner).find(|&(_, depth, c)| depth < 0 && c == b'>').map(|(at, ..)| open + 1 + at)
}

/// Every byte with its position and how many brackets are open around it; of a bracket, without
/// itself. Where one closes that never opened, the depth is below 0.
fn depths(text: &str) -> impl Iterator<Item = (usize, i32, u8)> {
    let bytes = text.as_bytes();
    let mut depth = 0;
    bytes.iter().enumerate().map(move |(at, &c)| {
        let before = &bytes[..at];
        let is_operator = ["operator", "operator<", "operator>", "operator-", "-"]
            .iter()
            .any(|end| before.ends_with(end.as_bytes()));
        match c {
            b'<' | b'(' | b'{' | b'[' if !(is_operator && c == b'<') => {
                depth += 1;
                (at, depth - 1, c)
            }
            b'>' | b')' | b'}' | b']' if !(is_operator && c == b'>') => {
                depth -= 1;
                (at, depth, c)
            }
            _ => (at, depth, c),
        }
    })
}
