//! What was measured before and after an operation.

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Quantity {
    /// Memory of the process, in MiB.
    Memory = 0,
    /// Memory that tensors hold on the GPU, in MiB.
    GpuMemory = 1,
    /// How busy the GPU is, in percent.
    GpuBusy = 2,
    /// Time of the thread on a processor, in nanoseconds.
    CpuTime = 3,
    /// Bytes read by the thread.
    BytesRead = 4,
    /// Bytes written by the thread.
    BytesWritten = 5,
}

pub(crate) const QUANTITIES: [Quantity; 6] = [
    Quantity::Memory,
    Quantity::GpuMemory,
    Quantity::GpuBusy,
    Quantity::CpuTime,
    Quantity::BytesRead,
    Quantity::BytesWritten,
];

impl Quantity {
    /// Its name as a counter in files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Quantity::Memory => "memory of the process (MiB)",
            Quantity::GpuMemory => "GPU memory of tensors (MiB)",
            Quantity::GpuBusy => "GPU utilization (%)",
            Quantity::CpuTime => "CPU time of a thread (ns)",
            Quantity::BytesRead => "bytes read by the thread",
            Quantity::BytesWritten => "bytes written by the thread",
        }
    }
}

/// Each quantity before and after; what was not measured is not a number.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    measured: [[f64; 2]; QUANTITIES.len()],
    peak: f64,
}

impl Default for Values {
    fn default() -> Self {
        Values { measured: [[f64::NAN; 2]; QUANTITIES.len()], peak: f64::NAN }
    }
}

impl Values {
    pub(crate) fn set(&mut self, quantity: Quantity, is_after: bool, value: f64) {
        self.measured[quantity as usize][usize::from(is_after)] = value;
    }

    pub(crate) fn set_peak(&mut self, mebibytes: f64) {
        self.peak = mebibytes;
    }

    /// At least what was there before and after: samples may miss both.
    pub(crate) fn peak(&self) -> Option<f64> {
        let ends = self.measured[Quantity::Memory as usize];
        known(ends[0].max(ends[1]).max(self.peak))
    }

    pub(crate) fn before(&self, quantity: Quantity) -> Option<f64> {
        known(self.measured[quantity as usize][0])
    }

    pub(crate) fn after(&self, quantity: Quantity) -> Option<f64> {
        known(self.measured[quantity as usize][1])
    }

    pub(crate) fn delta(&self, quantity: Quantity) -> Option<f64> {
        Some(self.after(quantity)? - self.before(quantity)?)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.measured.iter().flatten().all(|value| value.is_nan())
    }
}

fn known(value: f64) -> Option<f64> {
    (!value.is_nan()).then_some(value)
}
