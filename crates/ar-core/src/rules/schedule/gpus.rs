//! Which GPUs each slot has, and whether a run waits for other processes on its GPU.

use std::time::Duration;

use crate::domain::{ErrorKind, Gpu, GpuChoice, GpuCrowd, GpuName, GpuUse, UserError, count_of, refuse};

/// The longest that a run waits for others to leave its GPU: long enough for an agent that tries something, and short beside
/// a night.
pub const GPU_PATIENCE: Duration = Duration::from_secs(600);

const CUDA: &str = "CUDA_VISIBLE_DEVICES";

/// The variables that show programs some GPUs only. The first one that is set names them as the driver does.
pub const GPU_MASKS: [&str; 3] = ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", CUDA];

/// The GPUs of one slot, all of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuSlot {
    /// The GPUs, at least one.
    pub gpus: Vec<Gpu>,
}

impl GpuSlot {
    /// The model of its GPUs: values are comparable within a model only.
    pub fn model(&self) -> &str {
        self.gpus.first().map_or("", |gpu| gpu.model.as_str())
    }

    /// The UUIDs of its GPUs, as the driver reads them.
    fn uuids(&self) -> String {
        self.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect::<Vec<_>>().join(",")
    }
}

/// Slots and what they leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuPlan {
    /// The slots, at least one.
    pub slots: Vec<GpuSlot>,
    /// The GPUs that no slot uses, because too few are left for one.
    pub unused: Vec<Gpu>,
}

/// A GPU with its name for `--gpus`: the index among those that `ar` may use, for an instance its UUID.
#[derive(Debug, Clone)]
struct NamedGpu {
    index: u32,
    gpu: Gpu,
}

impl NamedGpu {
    fn name(&self) -> String {
        if self.gpu.parent.is_some() { self.gpu.uuid.clone() } else { self.index.to_string() }
    }
}

/// Divides the GPUs of a machine among slots. Each run uses `per_run` of them, at least 1. `variable` looks up the
/// environment of `ar`, where a mask may hide GPUs: indices in the choice count what the mask leaves. The index of a GPU
/// in MIG mode stands for all its instances.
///
/// # Errors
///
/// Some of the wanted GPUs are not available.
pub fn gpu_plan(
    machine: &[Gpu],
    variable: impl Fn(&str) -> Option<String>,
    choice: &GpuChoice,
    per_run: usize,
) -> Result<GpuPlan, UserError> {
    let Visible { gpus, mask } = visible(machine, variable)?;
    let chosen = match choice {
        GpuChoice::All => gpus,
        GpuChoice::Listed(names) => listed(&gpus, names, mask.as_deref())?,
    };
    let models = by_model(&chosen);
    if models.len() > 1 {
        return Err(mixed(&models));
    }
    if per_run > 1 && chosen.iter().any(|named| named.gpu.parent.is_some()) {
        let text = format!("a run cannot use {per_run} MIG instances: CUDA shows a program only one");
        return Err(refused(text, "omit --gpus-per-run, or turn MIG off on these GPUs"));
    }
    if chosen.len() < per_run {
        let text = format!("a run needs {}, and {} can be used", count_of(per_run as u64, "GPU"), chosen.len());
        return Err(refused(text, "lower --gpus-per-run, or choose more GPUs"));
    }
    let of_runs = chosen.chunks_exact(per_run);
    let unused = of_runs.remainder();
    if !unused.is_empty() && *choice != GpuChoice::All {
        let left = unused.iter().map(NamedGpu::name).collect::<Vec<_>>().join(", ");
        let text = format!("runs of {per_run} GPUs leave some of those listed unused: {left}");
        return Err(refused(text, "omit those from --gpus, or change --gpus-per-run"));
    }
    let slot = |gpus: &[NamedGpu]| GpuSlot { gpus: gpus.iter().map(|named| named.gpu.clone()).collect() };
    let unused = unused.iter().map(|named| named.gpu.clone()).collect();
    Ok(GpuPlan { slots: of_runs.map(slot).collect(), unused })
}

/// The GPUs of a machine that the environment leaves to `ar`, of whatever models; none where nobody knows.
pub fn usable_gpus(machine: &[Gpu], variable: impl Fn(&str) -> Option<String>) -> Vec<Gpu> {
    let gpus = visible(machine, variable).map(|visible| visible.gpus).unwrap_or_default();
    gpus.into_iter().map(|named| named.gpu).collect()
}

/// The GPUs with these names, none of them twice.
fn listed(gpus: &[NamedGpu], names: &[GpuName], within: Option<&str>) -> Result<Vec<NamedGpu>, UserError> {
    let mut chosen: Vec<NamedGpu> = Vec::new();
    for name in names {
        for named in find(gpus, name, within)? {
            if has(&chosen, named) {
                return Err(refused(format!("{} is chosen twice", named.gpu), "name each GPU once"));
            }
            chosen.push(named.clone());
        }
    }
    Ok(chosen)
}

fn has(gpus: &[NamedGpu], named: &NamedGpu) -> bool {
    gpus.iter().any(|other| other.gpu.uuid == named.gpu.uuid)
}

/// The names of the GPUs of each model, in the order in which the models first come.
fn by_model(gpus: &[NamedGpu]) -> Vec<(String, Vec<String>)> {
    let mut models: Vec<(String, Vec<String>)> = Vec::new();
    for named in gpus {
        match models.iter_mut().find(|(model, _)| *model == named.gpu.model) {
            Some((_, names)) => names.push(named.name()),
            None => models.push((named.gpu.model.clone(), vec![named.name()])),
        }
    }
    models
}

/// The environment variables of a run in a slot, counted from 0, beside those of every run.
pub fn slot_variables(slot: u32, gpus: Option<&GpuSlot>) -> Vec<(String, String)> {
    let shown = gpus.map(|gpus| (CUDA.to_owned(), gpus.uuids()));
    [("AR_SLOT".to_owned(), slot.to_string())].into_iter().chain(shown).collect()
}

/// The GPUs that the environment leaves to `ar`.
struct Visible {
    gpus: Vec<NamedGpu>,
    /// The variable that selects them, as in a shell.
    mask: Option<String>,
}

fn visible(machine: &[Gpu], variable: impl Fn(&str) -> Option<String>) -> Result<Visible, UserError> {
    if machine.is_empty() {
        let hint = "run `nvidia-smi -L` to see whether the driver finds one, or omit --gpus";
        return Err(refused("found no GPU", hint));
    }
    let gpus: Vec<NamedGpu> = machine.iter().map(|gpu| NamedGpu { index: gpu.index, gpu: gpu.clone() }).collect();
    let Some(mask) = variable(CUDA) else { return Ok(Visible { gpus, mask: None }) };
    let text = format!("{CUDA}={mask}");
    if order_matters(&gpus, &mask) && !is_by_bus(&variable) {
        let hint =
            "set CUDA_DEVICE_ORDER=PCI_BUS_ID to count as `nvidia-smi` does, or name UUIDs in CUDA_VISIBLE_DEVICES";
        let what = format!("cannot tell which GPUs {text} names: CUDA orders GPUs of different models by speed");
        return Err(refused(what, hint));
    }
    let gpus = masked(&gpus, &mask);
    if gpus.is_empty() {
        return Err(refused(format!("{text} leaves no GPU to use"), "unset it, or omit --gpus"));
    }
    Ok(Visible { gpus, mask: Some(text) })
}

/// Returns whether CUDA counts GPUs in the order of `nvidia-smi`. Otherwise, the fastest one is first.
fn is_by_bus(variable: impl Fn(&str) -> Option<String>) -> bool {
    variable("CUDA_DEVICE_ORDER").is_some_and(|order| order == "PCI_BUS_ID")
}

/// Returns whether the order of GPUs matters: they are of different models, and the mask has an index.
fn order_matters(gpus: &[NamedGpu], mask: &str) -> bool {
    let whole = |model: &str| model.split(" MIG ").next().map(str::to_owned);
    let differ = gpus.iter().any(|named| whole(&named.gpu.model) != whole(&gpus[0].gpu.model));
    let has_index = mask.split(',').any(|part| matches!(part.trim().parse(), Ok(GpuName::Index(_))));
    differ && has_index
}

/// Applies a mask and counts the remaining GPUs from 0. The first entry that is unknown, ambiguous or repeated ends the
/// mask.
fn masked(gpus: &[NamedGpu], mask: &str) -> Vec<NamedGpu> {
    let mut left: Vec<NamedGpu> = Vec::new();
    for (index, part) in (0..).zip(mask.split(',')) {
        let found = part.trim().parse().ok().and_then(|name| find(gpus, &name, None).ok()).unwrap_or_default();
        if found.is_empty() || found.iter().any(|named| has(&left, named)) {
            break;
        }
        left.extend(found.into_iter().map(|named| NamedGpu { index, gpu: named.gpu.clone() }));
    }
    left
}

/// The GPU of that name: several only for the instances of one in MIG mode.
fn find<'a>(gpus: &'a [NamedGpu], name: &GpuName, within: Option<&str>) -> Result<Vec<&'a NamedGpu>, UserError> {
    let is_start = |uuid: &str, start: &str| {
        uuid.get(..start.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(start))
    };
    let uuid = |named: &'a NamedGpu| match name {
        GpuName::Index(index) => (named.index == *index).then_some(index.to_string()),
        GpuName::Uuid(start) => {
            let names = [Some(&named.gpu.uuid), named.gpu.parent.as_ref()];
            names.into_iter().flatten().find(|uuid| is_start(uuid, start)).cloned()
        }
    };
    let found: Vec<(String, &NamedGpu)> = gpus.iter().filter_map(|named| Some((uuid(named)?, named))).collect();
    let mut uuids: Vec<String> = found.iter().map(|(uuid, _)| uuid.clone()).collect();
    uuids.dedup();
    let hint = "run `nvidia-smi -L` to see indices and UUIDs";
    match uuids.len() {
        1 => Ok(found.into_iter().map(|(_, named)| named).collect()),
        0 => {
            let mut there: Vec<String> = match name {
                GpuName::Index(_) => gpus.iter().map(|named| named.index.to_string()).collect(),
                GpuName::Uuid(_) => gpus.iter().map(|named| named.gpu.uuid.clone()).collect(),
            };
            there.dedup();
            let placed = within.map(|mask| format!(" in {mask}")).unwrap_or_default();
            Err(refused(format!("there is no GPU {name}{placed}; there is {}", there.join(", ")), hint))
        }
        _ => Err(refused(format!("`{name}` is the beginning of several UUIDs: {}", uuids.join(", ")), hint)),
    }
}

fn refused(text: impl Into<String>, hint: impl Into<String>) -> UserError {
    refuse(ErrorKind::CannotStart, text).hint(hint)
}

/// The error for GPUs of several models, each with the names of its GPUs: their values are not comparable.
fn mixed(models: &[(String, Vec<String>)]) -> UserError {
    let with_names = |(model, names): &(String, Vec<String>)| format!("{model} ({})", names.join(", "));
    let all = models.iter().map(with_names).collect::<Vec<_>>().join(", ");
    let most = models.iter().rev().max_by_key(|(_, names)| names.len());
    let names = most.map(|(_, names)| names.join(",")).unwrap_or_default();
    let hint = format!("choose one model, as in `--gpus {names}`; a second session can use the others");
    refused(format!("the GPUs are of different models: {all}"), hint)
}

/// The decision whether a run starts now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GpuTurn {
    /// Its GPUs have room.
    Now,
    /// It waits for others to leave this GPU.
    Later(GpuCrowd),
    /// It waited long enough, and starts beside others; worth a notice.
    Anyway(GpuCrowd),
}

/// Decides whether a run in a slot starts, after it `waited`. It waits while other compute processes leave one of its
/// GPUs less memory than the last run took of each.
///
/// `last_run` is the memory that the last run took of all GPUs together, in bytes; the first run does not wait. `own`
/// are the processes of this session. A GPU that is not in `uses` causes no wait.
pub fn gpu_turn(uses: &[GpuUse], slot: &GpuSlot, own: &[u32], last_run: Option<u64>, waited: Duration) -> GpuTurn {
    let needed = last_run.unwrap_or(0).div_ceil(slot.gpus.len().max(1) as u64);
    let crowds = slot.gpus.iter().filter_map(|gpu| crowd(uses, gpu, own, needed));
    turn(crowds.min_by_key(|crowd| crowd.left), waited)
}

/// The same for a run that chooses among `gpus` by itself. It waits while each of them has too little memory left, and
/// the result names the one with the most. `last_run` is the memory that the last run took of all together, in bytes.
pub fn any_gpu_turn(uses: &[GpuUse], gpus: &[Gpu], last_run: u64, waited: Duration) -> GpuTurn {
    let needed = last_run.div_ceil(gpus.len().max(1) as u64);
    let crowds: Option<Vec<GpuCrowd>> = gpus.iter().map(|gpu| crowd(uses, gpu, &[], needed)).collect();
    turn(crowds.unwrap_or_default().into_iter().max_by_key(|crowd| crowd.left), waited)
}

/// The other processes that leave less than `needed` bytes of a GPU; `None` if they leave enough.
fn crowd(uses: &[GpuUse], gpu: &Gpu, own: &[u32], needed: u64) -> Option<GpuCrowd> {
    let seen = uses.iter().find(|seen| seen.uuid == gpu.uuid)?;
    let others = seen.others(own);
    let left = seen.total.saturating_sub(others);
    let processes = || seen.processes.iter().map(|(pid, _)| *pid).filter(|pid| !own.contains(pid)).collect();
    (others > 0 && left < needed).then(|| GpuCrowd { gpu: gpu.clone(), processes: processes(), others, left, needed })
}

fn turn(crowd: Option<GpuCrowd>, waited: Duration) -> GpuTurn {
    match crowd {
        None => GpuTurn::Now,
        Some(crowd) if waited < GPU_PATIENCE => GpuTurn::Later(crowd),
        Some(crowd) => GpuTurn::Anyway(crowd),
    }
}

#[cfg(test)]
#[path = "gpus_tests.rs"]
mod tests;
