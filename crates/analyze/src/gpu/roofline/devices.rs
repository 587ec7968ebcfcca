//! What a GPU can do at most: a table by device name.

use spanwise_glob::Glob;

use serde::Deserialize;

use super::costs::NumberType;
use crate::base::tables::{TableError, TablesText, parse};

/// Our own table.
const STANDARD: &str = include_str!("../../../tables/devices.toml");

/// All devices, in order; the first that fits counts.
#[derive(Debug, Clone)]
pub struct DevicePeaks(Vec<(Vec<Glob>, Peaks)>);

/// The limits of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peaks {
    memory_gb_s: u64,
    fp64_gflops: Option<u64>,
    fp32_gflops: Option<u64>,
    tf32_gflops: Option<u64>,
    fp16_gflops: Option<u64>,
    bf16_gflops: Option<u64>,
    fp8_gflops: Option<u64>,
}

/// A row of the table as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceText {
    name: Vec<String>,
    memory_gb_s: u64,
    fp64_gflops: Option<u64>,
    fp32_gflops: Option<u64>,
    tf32_gflops: Option<u64>,
    fp16_gflops: Option<u64>,
    bf16_gflops: Option<u64>,
    fp8_gflops: Option<u64>,
}

impl Peaks {
    /// Bytes a nanosecond.
    pub fn bytes_per_ns(&self) -> u64 {
        self.memory_gb_s
    }

    /// Operations a nanosecond.
    pub fn flops_per_ns(&self, of: NumberType) -> Option<u64> {
        match of {
            NumberType::Float64 => self.fp64_gflops,
            NumberType::Float32 => self.fp32_gflops,
            NumberType::TensorFloat32 => self.tf32_gflops,
            NumberType::Float16 => self.fp16_gflops,
            NumberType::BFloat16 => self.bf16_gflops,
            NumberType::Float8 => self.fp8_gflops,
            NumberType::Integer(_) => None,
        }
    }
}

impl DevicePeaks {
    pub fn standard() -> Self {
        DevicePeaks::parse(STANDARD).expect("a test reads the table")
    }

    /// A user's devices, then the project's.
    pub fn with_own(text: &str) -> Result<Self, TableError> {
        let mut devices = DevicePeaks::parse(text)?;
        devices.0.extend(DevicePeaks::standard().0);
        Ok(devices)
    }

    fn parse(text: &str) -> Result<Self, TableError> {
        let tables: TablesText = parse(text)?;
        let mut devices = Vec::new();
        for row in tables.device {
            let place = row.span();
            let DeviceText { name, memory_gb_s, .. } = row.get_ref();
            if name.is_empty() || *memory_gb_s == 0 {
                let what = "a device without a name or a bandwidth";
                return Err(TableError::at(text, place, what));
            }
            let globs = name.iter().map(|pattern| Glob::in_small_letters(pattern)).collect();
            let DeviceText { fp64_gflops, fp32_gflops, tf32_gflops, .. } = *row.get_ref();
            let DeviceText { memory_gb_s, fp16_gflops, bf16_gflops, fp8_gflops, .. } =
                *row.get_ref();
            devices.push((
                globs,
                Peaks {
                    memory_gb_s,
                    fp64_gflops,
                    fp32_gflops,
                    tf32_gflops,
                    fp16_gflops,
                    bf16_gflops,
                    fp8_gflops,
                },
            ));
        }
        Ok(DevicePeaks(devices))
    }

    /// The limits of the device of that name, where it is known.
    pub fn of(&self, name: &str) -> Option<Peaks> {
        let name = name.to_lowercase();
        let fits = |(globs, _): &&(Vec<Glob>, Peaks)| globs.iter().any(|glob| glob.fits(&name));
        self.0.iter().find(fits).map(|(_, peaks)| *peaks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: Option<(u64, Option<u64>)>) {
        let peaks = DevicePeaks::standard().of(name);
        let found = peaks.map(|peaks| (peaks.memory_gb_s, peaks.bf16_gflops));
        assert_eq!(found, expected, "{name}");
    }

    #[test]
    fn devices_are_known_by_the_names_in_traces() {
        check("NVIDIA H200", Some((4_800, Some(989_400))));
        check("NVIDIA H100 80GB HBM3", Some((3_352, Some(989_400))));
        check("NVIDIA H100 PCIe", Some((2_039, Some(756_000))));
        check("NVIDIA A100-SXM4-40GB", Some((1_555, Some(312_000))));
        check("NVIDIA A100-SXM4-80GB", Some((2_039, Some(312_000))));
        check("Tesla V100-SXM2-32GB", Some((900, None)));
        check("NVIDIA B200", Some((8_000, Some(2_250_000))));
        check("AMD Instinct MI300X VF", Some((5_300, Some(1_307_400))));
        check("AMD Instinct MI210", Some((1_638, Some(181_000))));
        check("AMD Radeon Graphics", None);
        check("", None);
    }

    #[test]
    fn own_devices_go_first() {
        let own = "[[device]]\nname = [\"*H200*\"]\nmemory_gb_s = 1\n";
        let devices = DevicePeaks::with_own(own).expect("a good table");
        assert_eq!(devices.of("NVIDIA H200").map(|peaks| peaks.memory_gb_s), Some(1));
        let error = DevicePeaks::with_own("[[device]]\nname = []\nmemory_gb_s = 1\n");
        assert_eq!(error.expect_err("a mistake").line, 1);
    }
}
