//! Fork and join over independent pieces of work.
//!
//! Scoped threads and one atomic counter: the pieces here are few and large, so
//! a work-stealing pool would add a dependency and no speed.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

thread_local! {
    static IS_ALONE: Cell<bool> = const { Cell::new(false) };
}

/// How many threads are worth starting.
pub fn threads_available() -> usize {
    if IS_ALONE.get() {
        return 1;
    }
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does work for which no thread is started beside this one: others do the same at the same
/// time, on the other cores.
pub fn on_one_thread<T>(work: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            IS_ALONE.set(self.0);
        }
    }
    let _before = Before(IS_ALONE.replace(true));
    work()
}

/// Calls `work` once for each of `0..count`, on up to `threads` threads.
pub fn for_each_index(count: usize, threads: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let run = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return;
            }
            work(index);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(run);
        }
        run();
    });
}

/// Like [`for_each_index`], with the results in order.
pub fn map_indices<T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let results: Vec<Mutex<Option<T>>> = (0..count).map(|_| Mutex::new(None)).collect();
    for_each_index(count, threads, |index| {
        let result = work(index);
        *results[index].lock().expect("no other holder") = Some(result);
    });
    let taken = results.into_iter().map(|slot| slot.into_inner().expect("no panic inside"));
    taken.map(|result| result.expect("every index was visited")).collect()
}

/// The results of two pieces of work that do not need one another, done at once where
/// there is more than one core.
pub fn both<A: Send, B>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B) -> (A, B) {
    if threads_available() < 2 {
        return (a(), b());
    }
    thread::scope(|scope| {
        let a = scope.spawn(a);
        let b = b();
        (a.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), b)
    })
}

/// What `work` makes of each item, in order, on all cores: for items that are many and
/// each worth about a microsecond, such as arguments to be read.
pub fn map_items<I: Sync, T: Send>(items: &[I], work: impl Fn(&I) -> T + Sync) -> Vec<T> {
    const ITEMS_A_PIECE: usize = 1024;
    let pieces: Vec<&[I]> = items.chunks(ITEMS_A_PIECE).collect();
    let done = map_indices(pieces.len(), threads_available(), |piece| {
        pieces[piece].iter().map(&work).collect::<Vec<_>>()
    });
    done.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_in_order() {
        let items: Vec<usize> = (0..10_000).collect();
        assert_eq!(map_items(&items, |i| i + 1), (1..10_001).collect::<Vec<_>>());
        assert_eq!(map_items(&[], |i: &usize| i + 1), []);
    }

    #[test]
    fn results_come_in_order() {
        assert_eq!(map_indices(100, 7, |i| i * i), (0..100).map(|i| i * i).collect::<Vec<_>>());
    }

    #[test]
    fn both_give_their_result() {
        let text = String::from("a");
        assert_eq!(both(|| text.len(), || text.clone()), (1, "a".to_owned()));
    }

    #[test]
    fn work_for_one_thread_starts_no_other() {
        let own = thread::current().id();
        let everywhere = || {
            let (a, b) = both(|| thread::current().id(), || thread::current().id());
            let mut ids = map_items(&[(); 5000], |()| thread::current().id());
            ids.extend([a, b]);
            ids
        };
        let inside = on_one_thread(|| {
            on_one_thread(|| ());
            (threads_available(), everywhere())
        });
        assert_eq!(inside.0, 1);
        assert!(inside.1.iter().all(|&id| id == own));
        let all = thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(threads_available(), all);
    }

    #[test]
    fn nothing_to_do_is_fine() {
        assert_eq!(map_indices(0, 4, |i| i), []);
    }
}
