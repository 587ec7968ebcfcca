//! What PyTorch's Kineto (and its relatives) mean by their categories and by the
//! properties beside the events.
//!
//! One table for torch 1.8 to 2.11, NVIDIA, ROCm, MTIA, XPU and Gaudi: the names
//! changed over the years, their meaning did not. Names not listed here are
//! [`SpanKind::Other`] and take part in everything that needs no meaning.

use spanwise_model::{ArgValue, Device, SourceInfo, SpanKind};

/// The meaning of an event's category.
pub(crate) fn span_kind(category: &[u8]) -> SpanKind {
    match category {
        b"python_function" => SpanKind::Python,
        b"cpu_op" | b"Operator" => SpanKind::Operator,
        b"user_annotation" => SpanKind::Annotation,
        b"cuda_runtime"
        | b"cuda_driver"
        | b"Runtime"
        | b"mtia_runtime"
        | b"xpu_runtime"
        | b"xpu_driver"
        | b"glow_runtime"
        | b"hip_runtime"
        | b"hip_driver"
        | b"hpu_runtime"
        | b"privateuse1_runtime"
        | b"privateuse1_driver" => SpanKind::Runtime,
        b"kernel"
        | b"Kernel"
        | b"mtia_ccp_events"
        | b"hpu_op"
        | b"concurrent_kernel"
        | b"privateuse1_kernel"
        | b"collective_comm" => SpanKind::Kernel,
        b"gpu_memcpy" | b"Memcpy" | b"privateuse1_memcpy" => SpanKind::Memcpy,
        b"gpu_memset" | b"Memset" | b"privateuse1_memset" => SpanKind::Memset,
        b"cuda_sync" | b"xpu_sync" | b"cuda_event" => SpanKind::Sync,
        b"gpu_user_annotation" => SpanKind::GpuAnnotation,
        b"overhead" => SpanKind::Overhead,
        b"Trace" => SpanKind::Window,
        // What we write ourselves for recordings of the scheduler.
        b"off_cpu_blocked" | b"off_cpu_runnable" | b"off_cpu_unrecorded" => SpanKind::OffCpu,
        b"lock_wait" => SpanKind::LockWait,
        b"sampled" | b"sampled_python" | b"sampled_kernel" | b"sampled_inlined" | b"wakeup" => {
            SpanKind::Sampled
        }
        _ => SpanKind::Other,
    }
}

/// Whether flows of this category draw launches, with correlation ids as ids.
pub(crate) fn is_launch_flow(category: &[u8]) -> bool {
    matches!(category, b"ac2g" | b"async_cpu_to_gpu" | b"async" | b"async_gpu")
}

/// Takes what the properties beside the events say into `info`.
pub(crate) fn describe(info: &mut SourceInfo, properties: &[(String, ArgValue)]) {
    for (key, value) in properties {
        match (key.as_str(), value) {
            ("deviceProperties", ArgValue::List(devices)) => {
                info.devices = devices.iter().filter_map(device).collect();
            }
            ("distributedInfo", ArgValue::Map(members)) => distributed(info, members),
            ("baseTimeNanoseconds", value) => info.base_time_ns = value.as_i64(),
            (_, ArgValue::List(_) | ArgValue::Map(_)) => {}
            (key, value) => {
                info.properties.insert(key.to_owned(), scalar_text(value));
            }
        }
    }
    let is_kineto = ["schemaVersion", "traceName", "trace_id"]
        .iter()
        .any(|key| info.properties.contains_key(*key))
        || !info.devices.is_empty();
    info.format = if is_kineto { "PyTorch (Kineto)" } else { "Chrome trace events" }.to_owned();
}

fn device(value: &ArgValue) -> Option<Device> {
    let ArgValue::Map(members) = value else { return None };
    let unsigned = |key| member(members, key)?.as_i64().and_then(|value| u64::try_from(value).ok());
    let capability = unsigned("computeMajor").zip(unsigned("computeMinor"));
    Some(Device {
        id: member(members, "id").and_then(ArgValue::as_i64).unwrap_or(0),
        name: member(members, "name").and_then(ArgValue::as_text).unwrap_or("").to_owned(),
        memory_bytes: unsigned("totalGlobalMem"),
        multiprocessors: unsigned("numSms"),
        compute_capability: capability.map(|(major, minor)| format!("{major}.{minor}")),
        warp_size: unsigned("warpSize"),
    })
}

fn distributed(info: &mut SourceInfo, members: &[(String, ArgValue)]) {
    info.rank = member(members, "rank").and_then(ArgValue::as_i64);
    info.world_size = member(members, "world_size").and_then(ArgValue::as_i64);
    info.backend = member(members, "backend").and_then(ArgValue::as_text).map(str::to_owned);
}

fn member<'a>(members: &'a [(String, ArgValue)], key: &str) -> Option<&'a ArgValue> {
    members.iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

fn scalar_text(value: &ArgValue) -> String {
    match value {
        ArgValue::Null | ArgValue::List(_) | ArgValue::Map(_) => String::new(),
        ArgValue::Bool(value) => value.to_string(),
        ArgValue::Int(value) => value.to_string(),
        ArgValue::Number(text) | ArgValue::Text(text) => text.clone(),
    }
}
