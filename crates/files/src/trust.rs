//! Who may have put something where it is.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FileType, Mode, Stat, fstat};

/// The numbers of users, as the system knows them.
pub type Owner = u32;

const ROOT: Owner = 0;

/// The user that this process acts for.
pub(crate) fn own() -> Owner {
    rustix::process::geteuid().as_raw()
}

pub fn is_own(owner: Owner) -> bool {
    owner == own()
}

/// Root may do everything anyway.
pub fn is_own_or_root(owner: Owner) -> bool {
    owner == ROOT || is_own(owner)
}

/// Why somebody else may have written what is open here; `None` where nobody could.
pub(crate) fn stranger(file: impl AsFd) -> io::Result<Option<String>> {
    let stat = fstat(file)?;
    Ok(if !is_own_or_root(stat.st_uid) {
        Some(format!("it belongs to user {}", stat.st_uid))
    } else if mode(&stat).intersects(Mode::WGRP | Mode::WOTH) {
        Some(format!("others may write it (mode {:03o})", mode(&stat).as_raw_mode()))
    } else {
        None
    })
}

pub(crate) fn mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO)
}

pub(crate) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}
