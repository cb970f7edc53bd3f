//! NVIDIA's management library, where it is installed.

use std::sync::OnceLock;

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

/// The library, opened at most once in a process.
pub(super) fn library() -> Option<&'static Nvml> {
    static LIBRARY: OnceLock<Option<Nvml>> = OnceLock::new();
    // A driver installs the versioned name; the plain one comes with the development files, or on other systems.
    let open = || Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init().or_else(|_| Nvml::init()).ok();
    LIBRARY.get_or_init(open).as_ref()
}

/// The GPUs with their indices. One that fell off the bus is left out.
pub(super) fn devices(library: &'static Nvml) -> impl Iterator<Item = (u32, Device<'static>)> {
    let count = library.device_count().unwrap_or(0);
    (0..count).filter_map(|index| library.device_by_index(index).ok().map(|device| (index, device)))
}

/// The MIG instances of a GPU; `None` if it is not in MIG mode.
pub(super) fn instances(device: &Device<'static>) -> Option<Vec<Device<'static>>> {
    let is_on = device.mig_mode().is_ok_and(|mode| mode.current == 1);
    // Instances that were deleted leave gaps.
    let at = |index| device.mig_device_by_index(index).ok();
    is_on.then(|| (0..device.mig_device_count().unwrap_or(0)).filter_map(at).collect())
}

/// Devices that a program can use separately: whole GPUs, and the instances of those in MIG mode.
pub(super) fn units(library: &'static Nvml) -> impl Iterator<Item = Device<'static>> {
    indexed_units(library).map(|(_, unit)| unit)
}

/// The same, each with the index of its GPU.
pub(super) fn indexed_units(library: &'static Nvml) -> impl Iterator<Item = (u32, Device<'static>)> {
    devices(library).flat_map(|(index, device)| {
        let units = instances(&device).unwrap_or_else(|| vec![device]);
        units.into_iter().map(move |unit| (index, unit))
    })
}

/// The processes that compute on a device, each with its memory in bytes where the driver reports it.
pub(super) fn processes(device: &Device) -> Result<Vec<(u32, Option<u64>)>, NvmlError> {
    let bytes = |memory| match memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    };
    let running = device.running_compute_processes()?;
    Ok(running.into_iter().map(|it| (it.pid, bytes(it.used_gpu_memory))).collect())
}
