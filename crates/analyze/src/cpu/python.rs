//! What the name of a Python frame says about it.
//!
//! Recorders write `path.py(12): function`, `<built-in method …>` and
//! `nn.Module: Linear_3`. A reader of a report wants the line of their own code,
//! so frames are ranked by how much they say.

/// A frame's name, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// `file(line): function`, the path from the package root on.
    Code {
        file: &'a str,
        function: &'a str,
    },
    /// `<built-in …>`: a function without Python code.
    BuiltIn(&'a str),
    /// `nn.Module: …`: a marker, not a frame.
    Module,
    Unknown,
}

/// How much a frame says to the author of the program; more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FrameRank {
    BuiltIn,
    Module,
    Library,
    User,
}

/// Files whose frames run the program but are not what it is about: frameworks'
/// own layers, generated code and the standard library. Model libraries are
/// deliberately absent: `modeling_llama.py` is what a user wants to see.
const INTERNAL_FILES: &[&str] = &[
    "<",
    "torch/",
    "torch_",
    "numpy/",
    "triton/",
    "accelerate/hooks.py",
    "torchinductor_",
    "asyncio/",
    "collections/",
    "concurrent/",
    "contextlib.py",
    "copy.py",
    "ctypes/",
    "dataclasses.py",
    "enum.py",
    "functools.py",
    "importlib/",
    "inspect.py",
    "json/",
    "logging/",
    "multiprocessing/",
    "os.py",
    "pathlib.py",
    "pickle.py",
    "queue.py",
    "random.py",
    "re/",
    "runpy.py",
    "selectors.py",
    "socket.py",
    "subprocess.py",
    "tempfile.py",
    "threading.py",
    "traceback.py",
    "typing.py",
    "warnings.py",
    "weakref.py",
];

/// Names that decorators give to the function around the real one.
const INTERNAL_FUNCTIONS: &[&str] =
    &["_fn", "_wrapper", "decorator", "inner", "wrapped", "wrapper"];

impl<'a> Frame<'a> {
    pub(crate) fn parse(name: &'a str) -> Self {
        if let Some(function) = name.strip_prefix("<built-in ") {
            return Frame::BuiltIn(function.strip_suffix('>').unwrap_or(function));
        }
        if name.starts_with("nn.Module: ") {
            return Frame::Module;
        }
        let Some((place, function)) = name.split_once("): ") else { return Frame::Unknown };
        let Some((file, line)) = place.rsplit_once('(') else { return Frame::Unknown };
        match line.bytes().all(|byte| byte.is_ascii_digit()) {
            true => Frame::Code { file: from_package(file), function },
            false => Frame::Unknown,
        }
    }

    pub(crate) fn rank(self) -> FrameRank {
        match self {
            Frame::BuiltIn(_) => FrameRank::BuiltIn,
            Frame::Module => FrameRank::Module,
            Frame::Code { file, function } if is_internal(file, function) => FrameRank::Library,
            // A name in another style is the producer's own: better than none.
            Frame::Code { .. } | Frame::Unknown => FrameRank::User,
        }
    }
}

/// True for a file that came with Python or was installed, by its whole path.
pub(crate) fn is_library_file(path: &str) -> bool {
    path.starts_with('<') || path.contains("-packages/") || from_package(path) != path
}

/// True for a script that an installer made to call an installed package.
pub(crate) fn is_entry_script(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    folder.ends_with("/bin") && !name.ends_with(".py")
}

/// The path below `site-packages`, or below the standard library's folder.
pub(crate) fn from_package(path: &str) -> &str {
    if let Some((_, inside)) = path.rsplit_once("-packages/") {
        return inside;
    }
    // ".../lib/python3.12/threading.py"
    match path.rsplit_once("/lib/python3.") {
        Some((_, inside)) => inside.split_once('/').map_or(path, |(_, file)| file),
        None => path,
    }
}

fn is_internal(file: &str, function: &str) -> bool {
    INTERNAL_FUNCTIONS.contains(&function)
        || INTERNAL_FILES.iter().any(|internal| file.starts_with(internal))
        || file.contains("/torchinductor_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, rank: FrameRank) {
        assert_eq!(Frame::parse(name).rank(), rank, "{name}");
    }

    #[test]
    fn the_programs_own_files_rank_first() {
        check("train.py(12): <module>", FrameRank::User);
        check("transformers/models/llama/modeling_llama.py(243): forward", FrameRank::User);
        check("/home/me/(old)/train.py(3): step", FrameRank::User);
    }

    #[test]
    fn frameworks_and_the_standard_library_rank_below() {
        check("torch/nn/modules/linear.py(130): forward", FrameRank::Library);
        check("/opt/venv/lib/python3.12/site-packages/torch/x.py(1): f", FrameRank::Library);
        check("/usr/lib/python3.12/threading.py(355): wait", FrameRank::Library);
        check("<frozen os>(680): g", FrameRank::Library);
        check("transformers/utils/generic.py(933): wrapper", FrameRank::Library);
        check("/tmp/torchinductor_me/ab/cab.py(20): call", FrameRank::Library);
    }

    #[test]
    fn frames_without_code_rank_last() {
        check("nn.Module: Linear_12", FrameRank::Module);
        check("<built-in method run_backward of torch._C._EngineBase object>", FrameRank::BuiltIn);
    }

    #[test]
    fn file_and_function_are_separated() {
        let frame = Frame::parse("/usr/lib/python3.12/queue.py(171): get");
        assert_eq!(frame, Frame::Code { file: "queue.py", function: "get" });
        assert_eq!(Frame::parse("aten::mm"), Frame::Unknown);
        assert_eq!(Frame::parse("f(x): y"), Frame::Unknown);
    }
}
