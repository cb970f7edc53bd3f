//! The GPUs of a machine.

use std::collections::BTreeMap;

use nvml_wrapper::Device;

use super::library::{devices, instances, library};
use crate::domain::{Gpu, bytes_text};

/// The NVIDIA GPUs of this machine, in the order of their indices. A GPU in MIG mode is listed as its instances. Asks the
/// driver, which takes seconds where it first has to wake the GPUs.
pub fn gpu_inventory() -> Vec<Gpu> {
    library().into_iter().flat_map(devices).flat_map(|(index, device)| usable(index, &device)).collect()
}

/// A GPU, or its instances if it is in MIG mode. One that does not tell its UUID cannot be given to a run.
fn usable(index: u32, device: &Device<'static>) -> Vec<Gpu> {
    let (Ok(uuid), model) = (device.uuid(), device.name().unwrap_or_default()) else { return Vec::new() };
    let memory = |device: &Device| device.memory_info().ok().map(|memory| memory.total);
    let Some(instances) = instances(device) else {
        return vec![Gpu { index, uuid, model, memory: memory(device), parent: None }];
    };
    let instance = |device: &Device| {
        let memory = memory(device);
        let name = device.name().ok().filter(|name| name.contains(" MIG "));
        // Without a profile in the name, the size tells instances apart.
        let model = name.unwrap_or_else(|| format!("{model} MIG {}", memory.map(bytes_text).unwrap_or_default()));
        Some(Gpu { index, uuid: device.uuid().ok()?, model, memory, parent: Some(uuid.clone()) })
    };
    instances.iter().filter_map(instance).collect()
}

/// The GPU part of a record's environment.
pub(in crate::exec) struct Models {
    /// The model names, as [`model_list`] gives them.
    pub(in crate::exec) models: String,
    pub(in crate::exec) count: u32,
    /// The driver's version.
    pub(in crate::exec) driver: Option<String>,
}

/// The NVIDIA GPUs of this machine; `None` without any.
pub(in crate::exec) fn models() -> Option<Models> {
    let library = library()?;
    let names: Vec<String> = devices(library).map(|(_, device)| device.name().unwrap_or_default()).collect();
    let count = u32::try_from(names.len()).ok().filter(|count| *count > 0)?;
    Some(Models { models: model_list(&names), count, driver: library.sys_driver_version().ok() })
}

/// `2 x NVIDIA H100, NVIDIA T4`: each model once, with its number when there are several.
fn model_list(names: &[String]) -> String {
    let mut models: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        *models.entry(name).or_default() += 1;
    }
    let list =
        models.iter().map(|(name, count)| if *count == 1 { (*name).to_owned() } else { format!("{count} x {name}") });
    list.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::model_list;

    #[test]
    fn models_are_counted() {
        let names = ["NVIDIA H100", "NVIDIA A100", "NVIDIA H100"].map(str::to_owned);
        assert_eq!(model_list(&names), "NVIDIA A100, 2 x NVIDIA H100");
    }
}
