//! Trait objects, closures, and a panic that is caught.
trait Grow {
    fn grow(&self, n: u64) -> u64;
}
struct Twice;
struct Plus(u64);
impl Grow for Twice {
    fn grow(&self, n: u64) -> u64 {
        n * 2
    }
}
impl Grow for Plus {
    fn grow(&self, n: u64) -> u64 {
        n + self.0
    }
}
fn main() {
    let ways: Vec<Box<dyn Grow>> = vec![Box::new(Twice), Box::new(Plus(3)), Box::new(Twice)];
    let mut words: Vec<String> = (0..12_u64)
        .map(|n| format!("{:x}", ways.iter().fold(n, |sum, way| way.grow(sum))))
        .collect();
    words.sort_by_key(|word| word.len());
    std::panic::set_hook(Box::new(|_| {}));
    let caught = std::panic::catch_unwind(|| {
        if std::env::args().count() > 0 {
            panic!("on purpose")
        }
    });
    println!("{} {}", words.join(","), caught.is_err());
}
