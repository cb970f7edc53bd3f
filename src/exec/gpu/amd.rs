//! GPUs of AMD, as the kernel's driver shows them.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::domain::Gpu;
use crate::fs::read_at_most;

/// The folder with a numbered folder for each processor and GPU.
pub(super) const TOPOLOGY: &str = "/sys/class/kfd/kfd/topology/nodes";

/// The largest description of a node, in bytes: they have about fifty short lines.
const LARGEST: u64 = 64 << 10;

/// The GPUs below `nodes`, in the order in which ROCm counts them. It skips those that the user may not read, and so does this.
pub(super) fn amd_gpus(nodes: &Path) -> Vec<Gpu> {
    let entries = fs::read_dir(nodes).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    let properties = numbers.iter().filter_map(|number| {
        let text = read_at_most(&nodes.join(number.to_string()).join("properties"), LARGEST).ok()?;
        let text = String::from_utf8_lossy(&text);
        let value = |line: &str| {
            line.split_once(' ').and_then(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?)))
        };
        Some(text.lines().filter_map(value).collect::<HashMap<String, u64>>())
    });
    // A processor has no SIMD units.
    let gpus = properties.filter(|properties| properties.get("simd_count").is_some_and(|count| *count > 0));
    (0..).zip(gpus).map(|(index, properties)| gpu(index, &properties)).collect()
}

fn gpu(index: u32, properties: &HashMap<String, u64>) -> Gpu {
    let known = |name: &str| properties.get(name).copied().unwrap_or(0);
    let uuid = match known("unique_id") {
        0 => index.to_string(),
        id => format!("GPU-{id:016x}"),
    };
    // 90402 is gfx942, and 90010 is gfx90a.
    let version = known("gfx_target_version");
    let target = format!("gfx{}{:x}{:x}", version / 10_000, version / 100 % 100, version % 100);
    Gpu { index, uuid, model: format!("AMD {target} ({:04x})", known("device_id")), memory: None, parent: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_the_nodes_with_simd_units_that_can_be_read() {
        let nodes = tempfile::tempdir().unwrap();
        let node = |number: &str, properties: &str| {
            fs::create_dir(nodes.path().join(number)).unwrap();
            fs::write(nodes.path().join(number).join("properties"), properties).unwrap();
        };
        let mi300 = "cpu_cores_count 0\nsimd_count 1216\ngfx_target_version 90402\ndevice_id 29857\n";
        node("0", "cpu_cores_count 64\nsimd_count 0\nunique_id 0\n");
        node("10", "simd_count 440\ngfx_target_version 90010\ndevice_id 29704\nunique_id 0\n");
        node("9", &format!("{mi300}unique_id 17390432871365406117\n"));
        node("2", &format!("{mi300}unique_id 255\n"));
        fs::create_dir(nodes.path().join("3")).unwrap();
        let gpu = |index, uuid: &str, model: &str| Gpu {
            index,
            uuid: uuid.into(),
            model: model.into(),
            memory: None,
            parent: None,
        };
        assert_eq!(
            amd_gpus(nodes.path()),
            [
                gpu(0, "GPU-00000000000000ff", "AMD gfx942 (74a1)"),
                gpu(1, "GPU-f1573a8edc02eda5", "AMD gfx942 (74a1)"),
                gpu(2, "2", "AMD gfx90a (7408)"),
            ]
        );
        assert_eq!(amd_gpus(Path::new("/nowhere")), []);
    }
}
