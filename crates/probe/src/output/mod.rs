//! Session files: created safely, written by one thread.

pub(crate) mod create;
pub(crate) mod file;
#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    )),
    path = "folder_by_name.rs"
)]
mod folder;
pub(crate) mod writer;
