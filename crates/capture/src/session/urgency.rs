//! The recorder comes before the programs that it records, where it may.
//!
//! On a machine with more threads than processors it would wait for its turn among them, while
//! samples are lost in rings that nobody empties. It is awake for a few milliseconds a second.

use crate::system::sys;

/// How much more urgent than others: the kernel's least is 19, its most -20.
const NICENESS: i32 = -15;

/// As long as this lives, the thread that made it is urgent.
#[derive(Debug)]
pub(crate) struct Urgency {
    before: i32,
}

impl Urgency {
    /// Who may not stays as it is.
    pub(crate) fn begin() -> Urgency {
        let before = sys::niceness();
        sys::set_niceness(NICENESS.min(before));
        Urgency { before }
    }
}

impl Drop for Urgency {
    fn drop(&mut self) {
        sys::set_niceness(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_urgent_for_a_while() {
        let before = sys::niceness();
        let urgency = Urgency::begin();
        assert!(sys::niceness() <= before);
        drop(urgency);
        assert_eq!(sys::niceness(), before);
    }
}
