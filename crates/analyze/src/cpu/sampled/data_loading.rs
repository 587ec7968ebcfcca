//! Python functions of a program's own that load data, known by what people call them.
//!
//! PyTorch's `DataLoader` has a row in the table of [`super::spending`]. Programs have their own:
//! classes that end in `Dataset` or `DataLoader`, whose items and batches are asked for by
//! `__getitem__` and iteration, and functions such as `load_batch`. Up to Python 3.10 code does not
//! say which class it belongs to: there `__getitem__` counts inside of an iteration.

use crate::cpu::python::is_library_file;

/// What a Python function says about loading data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataLoadingSign {
    None,
    Loads,
    /// It iterates over something of the program.
    Iterates,
    /// It loads if something of the program iterates around it.
    LoadsInIteration,
}

const CLASSES: &[&str] = &["dataset", "dataloader", "loader", "datapipe"];

const METHODS: &[&str] = &["__getitem__", "__getitems__", "__iter__", "__next__"];

const FUNCTIONS: &[&str] = &[
    "collate",
    "collate_fn",
    "fetch_batch",
    "fetch_data",
    "get_batch",
    "load_batch",
    "load_data",
    "load_dataset",
    "load_image",
    "load_images",
    "load_item",
    "load_sample",
    "load_samples",
    "next_batch",
    "read_batch",
    "read_data",
    "read_image",
    "read_sample",
];

/// What a function is: by its file, and its name with the names around it where they are known.
pub(super) fn loads_data(file: &str, function: &str) -> DataLoadingSign {
    if is_library_file(file) {
        return DataLoadingSign::None;
    }
    let (around, name) = function.rsplit_once('.').unwrap_or(("", function));
    if FUNCTIONS.contains(&name) {
        return DataLoadingSign::Loads;
    }
    let is_method = METHODS.contains(&name);
    let class = around.rsplit('.').next().unwrap_or(around).to_ascii_lowercase();
    match (is_method, class.is_empty(), name) {
        (false, ..) => DataLoadingSign::None,
        (true, false, _) if CLASSES.iter().any(|end| class.ends_with(end)) => {
            DataLoadingSign::Loads
        }
        (true, false, _) => DataLoadingSign::None,
        (true, true, "__iter__" | "__next__") => DataLoadingSign::Iterates,
        (true, true, _) => DataLoadingSign::LoadsInIteration,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_functions_load_data_by_their_names() {
        let check = |file: &str, function: &str, expected| {
            assert_eq!(loads_data(file, function), expected, "{function}");
        };
        check("/a/x.py", "ImageDataset.__getitem__", DataLoadingSign::Loads);
        check("/a/x.py", "train.<locals>.DataLoader.__iter__", DataLoadingSign::Loads);
        check("/a/x.py", "load_batch", DataLoadingSign::Loads);
        check("/a/x.py", "Matrix.__getitem__", DataLoadingSign::None);
        check("/a/x.py", "ImageDataset.resize", DataLoadingSign::None);
        check("/a/x.py", "__getitem__", DataLoadingSign::LoadsInIteration);
        check("/a/x.py", "__iter__", DataLoadingSign::Iterates);
        let library = "/usr/lib/python3/dist-packages/x.py";
        check(library, "ImageDataset.__getitem__", DataLoadingSign::None);
    }
}
