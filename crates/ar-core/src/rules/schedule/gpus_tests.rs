//! Tests of which GPUs each slot has.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const H100: &str = "NVIDIA H100";
const A100: &str = "NVIDIA A100";

fn gpu(index: u32, uuid: &str, model: &str) -> Gpu {
    Gpu { index, uuid: uuid.into(), model: model.into(), memory: Some(80_000), parent: None }
}

/// An instance of the GPU with that index.
fn instance(index: u32, uuid: &str) -> Gpu {
    Gpu { parent: Some(format!("GPU-{index}0")), ..gpu(index, uuid, "NVIDIA A100 MIG 3g.40gb") }
}

/// GPUs of one model, `GPU-00`, `GPU-10` and so on.
fn same(count: u32) -> Vec<Gpu> {
    (0..count).map(|index| gpu(index, &format!("GPU-{index}0"), H100)).collect()
}

/// Four of one model, then four of another.
fn eight() -> Vec<Gpu> {
    (0..8).map(|index| gpu(index, &format!("GPU-{index}0"), if index < 4 { H100 } else { A100 })).collect()
}

/// GPU 0 in MIG mode with two instances, and GPU 1 as a whole.
fn mig() -> Vec<Gpu> {
    vec![instance(0, "MIG-a1"), instance(0, "MIG-a2"), gpu(1, "GPU-10", A100)]
}

/// The plan for a choice, with variables as in `A=1 B=2`.
fn plan(machine: &[Gpu], variables: &str, choice: &str, per_run: usize) -> Result<GpuPlan, UserError> {
    let variable = |name: &str| {
        let found = variables.split(' ').filter_map(|set| set.split_once('=')).find(|(known, _)| *known == name);
        found.map(|(_, value)| value.to_owned())
    };
    gpu_plan(machine, variable, &choice.parse().unwrap(), per_run)
}

/// Formats the GPUs of each slot, as in `GPU-00 GPU-10,GPU-20`, or the error.
fn shown(machine: &[Gpu], variables: &str, choice: &str) -> String {
    match plan(machine, variables, choice, 1) {
        Ok(plan) => plan.slots.iter().map(GpuSlot::uuids).collect::<Vec<_>>().join(" "),
        Err(error) => error.to_string(),
    }
}

#[test]
fn each_chosen_gpu_is_a_slot_in_the_order_of_the_choice() {
    assert_eq!(shown(&same(3), "", "all"), "GPU-00 GPU-10 GPU-20");
    assert_eq!(shown(&same(3), "", "2,0"), "GPU-20 GPU-00");
    assert_eq!(shown(&same(3), "", "gpu-2,GPU-00"), "GPU-20 GPU-00");
    assert_eq!(shown(&mig(), "", "0"), "MIG-a1 MIG-a2", "an index stands for all instances");
    assert_eq!(shown(&mig(), "", "GPU-0"), "MIG-a1 MIG-a2");
    assert_eq!(shown(&mig(), "", "MIG-a2,MIG-a1"), "MIG-a2 MIG-a1");
}

#[test]
fn the_mask_of_the_environment_holds_and_is_counted_anew() {
    for (mask, choice, gpus) in [
        ("2,1", "all", "GPU-20 GPU-10"),
        ("2,1", "0", "GPU-20"),
        ("2, GPU-1", "1", "GPU-10"),
        ("0,-1,2", "all", "GPU-00"),
        ("0,7,2", "all", "GPU-00"),
        ("1,0,1,2", "all", "GPU-10 GPU-00"),
        ("0,GPU,2", "all", "GPU-00"),
        ("2,1", "2", "there is no GPU 2 in CUDA_VISIBLE_DEVICES=2,1; there is 0, 1"),
        ("2,1", "GPU-00", "there is no GPU GPU-00 in CUDA_VISIBLE_DEVICES=2,1; there is GPU-20, GPU-10"),
        ("", "all", "CUDA_VISIBLE_DEVICES= leaves no GPU to use"),
        ("-1", "all", "CUDA_VISIBLE_DEVICES=-1 leaves no GPU to use"),
        ("NoDevFiles", "all", "CUDA_VISIBLE_DEVICES=NoDevFiles leaves no GPU to use"),
    ] {
        let variables = format!("CUDA_VISIBLE_DEVICES={}", mask.replace(' ', "\t"));
        assert_eq!(shown(&same(3), &variables, choice).replace('\t', " "), gpus, "{mask} {choice}");
    }
    assert_eq!(shown(&mig(), "CUDA_VISIBLE_DEVICES=MIG-a2", "0"), "MIG-a2");
    assert_eq!(shown(&mig(), "CUDA_VISIBLE_DEVICES=MIG-a2,GPU-0,1 CUDA_DEVICE_ORDER=PCI_BUS_ID", "all"), "MIG-a2");
}

#[test]
fn a_mask_that_counts_gpus_of_different_models_needs_an_order() {
    let unclear =
        "cannot tell which GPUs CUDA_VISIBLE_DEVICES=1,3 names: CUDA orders GPUs of different models by speed";
    assert_eq!(shown(&eight(), "CUDA_VISIBLE_DEVICES=1,3", "all"), unclear);
    let by_bus = "CUDA_VISIBLE_DEVICES=1,3 CUDA_DEVICE_ORDER=PCI_BUS_ID";
    assert_eq!(shown(&eight(), by_bus, "all"), "GPU-10 GPU-30");
    assert_eq!(shown(&eight(), "CUDA_VISIBLE_DEVICES=GPU-1,GPU-3", "all"), "GPU-10 GPU-30");
    assert_eq!(shown(&eight(), "", "1,3"), "GPU-10 GPU-30");
    assert_eq!(shown(&mig(), "CUDA_VISIBLE_DEVICES=0", "all"), "MIG-a1 MIG-a2", "an instance has its GPU's model");
}

#[test]
fn gpus_that_are_too_few_for_another_run_are_left() {
    let slots = |plan: GpuPlan| plan.slots.iter().map(GpuSlot::uuids).collect::<Vec<_>>();
    assert_eq!(slots(plan(&same(4), "", "all", 2).unwrap()), ["GPU-00,GPU-10", "GPU-20,GPU-30"]);
    assert_eq!(slots(plan(&eight(), "", "3,1,2,0", 2).unwrap()), ["GPU-30,GPU-10", "GPU-20,GPU-00"]);
    let seven = plan(&same(7), "", "all", 3).unwrap();
    assert_eq!(seven.unused, [gpu(6, "GPU-60", H100)], "said, since none of them was listed");
    assert_eq!(seven.slots.len(), 2);
}

#[test]
fn what_cannot_be_had_is_refused_with_a_way_out() {
    let twice = "GPU 1 (GPU-10) is chosen twice";
    for (machine, choice, per_run, expected) in [
        (&vec![], "all", 1, "found no GPU"),
        (&eight(), "3,4,5", 1, "the GPUs are of different models: NVIDIA H100 (3), NVIDIA A100 (4, 5)"),
        (&same(2), "1,GPU-1", 1, twice),
        (&same(2), "1,1", 1, twice),
        (
            &vec![gpu(0, "GPU-00", H100), gpu(1, "GPU-01", H100)],
            "GPU-0",
            1,
            "`GPU-0` is the beginning of several UUIDs: GPU-00, GPU-01",
        ),
        (&same(2), "GPU-00,2", 1, "there is no GPU 2; there is 0, 1"),
        (&same(2), "MIG-1", 1, "there is no GPU MIG-1; there is GPU-00, GPU-10"),
        (&same(2), "all", 3, "a run needs 3 GPUs, and 2 can be used"),
        (&same(3), "0,1,2", 2, "runs of 2 GPUs leave some of those listed unused: 2"),
        (&mig(), "0", 2, "a run cannot use 2 MIG instances: CUDA shows a program only one"),
    ] {
        let error = plan(machine, "", choice, per_run).unwrap_err();
        assert_eq!(error.to_string(), expected, "{choice}");
        assert!(error.hint.is_some_and(|hint| !hint.is_empty()));
    }
    let mixed = plan(&eight(), "", "all", 1).unwrap_err();
    assert_eq!(
        mixed.to_string(),
        "the GPUs are of different models: NVIDIA H100 (0, 1, 2, 3), NVIDIA A100 (4, 5, 6, 7)"
    );
    assert!(plan(&eight(), "", "3,4,5", 1).unwrap_err().hint.unwrap().contains("`--gpus 4,5`"));
    let few = plan(&same(2), "", "all", 3).unwrap_err();
    assert_eq!(few.to_string(), "a run needs 3 GPUs, and 2 can be used");
}

#[test]
fn a_run_is_told_its_slot_and_its_gpus() {
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let slot = |machine: &[Gpu], variables: &str| plan(machine, variables, "all", 2).unwrap().slots.remove(1);
    assert_eq!(slot_variables(3, None), [set("AR_SLOT", "3")]);
    let mask = "CUDA_VISIBLE_DEVICES=3,2,1,0";
    assert_eq!(
        slot_variables(1, Some(&slot(&same(4), mask))),
        [set("AR_SLOT", "1"), set("CUDA_VISIBLE_DEVICES", "GPU-10,GPU-00")]
    );
}

#[test]
fn a_run_waits_while_others_leave_its_gpu_too_little_but_not_for_ever() {
    let slot = plan(&same(4), "", "1,2", 2).unwrap().slots.remove(0);
    let seen = |uuid: &str, bytes: u64| GpuUse {
        uuid: uuid.into(),
        total: 80,
        used: bytes,
        processes: vec![(7, Some(bytes))],
    };
    let now = Duration::ZERO;
    let crowd = GpuCrowd { gpu: gpu(2, "GPU-20", H100), processes: vec![7], others: 50, left: 30, needed: 31 };
    let uses = [seen("GPU-00", 79), seen("GPU-10", 45), seen("GPU-20", 50)];
    // Each of the two GPUs needs half of what the last run took.
    for (last_run, own, waited, expected) in [
        (None, &[][..], now, GpuTurn::Now),
        (Some(60), &[], now, GpuTurn::Now),
        (Some(61), &[], now, GpuTurn::Later(crowd.clone())),
        (Some(61), &[7], now, GpuTurn::Now),
        (
            Some(80),
            &[],
            GPU_PATIENCE - Duration::from_secs(1),
            GpuTurn::Later(GpuCrowd { needed: 40, ..crowd.clone() }),
        ),
        (Some(61), &[], GPU_PATIENCE, GpuTurn::Anyway(crowd.clone())),
    ] {
        assert_eq!(gpu_turn(&uses, &slot, own, last_run, waited), expected, "{last_run:?} {own:?} {waited:?}");
    }
    // It took more than there is by itself, or the driver shows nothing.
    assert_eq!(gpu_turn(&[seen("GPU-10", 0)], &slot, &[], Some(900), now), GpuTurn::Now);
    assert_eq!(crowd.to_string(), "other processes use 50 B of GPU 2 (GPU-20) and leave 30 B; the last run took 31 B");
}

#[test]
fn a_run_that_chooses_its_gpu_waits_while_none_has_room() {
    let gpus = plan(&same(4), "", "1,2", 2).unwrap().slots.remove(0).gpus;
    let seen = |uuid: &str, bytes: u64| GpuUse {
        uuid: uuid.into(),
        total: 80,
        used: bytes,
        processes: vec![(7, Some(bytes))],
    };
    let turn = |uses: &[GpuUse], last_run| any_gpu_turn(uses, &gpus, last_run, Duration::ZERO);
    let full = [seen("GPU-10", 45), seen("GPU-20", 50)];
    assert_eq!(turn(&full, 70), GpuTurn::Now, "the first one has room");
    let crowd = GpuCrowd { gpu: gpus[0].clone(), processes: vec![7], others: 45, left: 35, needed: 36 };
    assert_eq!(turn(&full, 71), GpuTurn::Later(crowd.clone()));
    assert_eq!(any_gpu_turn(&full, &gpus, 71, GPU_PATIENCE), GpuTurn::Anyway(crowd));
    assert_eq!(turn(&full[..1], 999), GpuTurn::Now, "nothing is known of the second one");
    assert_eq!(any_gpu_turn(&full, &[], 999, Duration::ZERO), GpuTurn::Now);
}

/// Machines with whole GPUs of up to three models, some of them divided into instances.
fn machines() -> impl Strategy<Value = Vec<Gpu>> {
    proptest::collection::vec((0usize..3, 0usize..4), 0..9).prop_map(|gpus| {
        let gpus = (0..).zip(gpus).flat_map(|(index, (model, instances))| {
            let model = [H100, A100, "NVIDIA T4"][model];
            let whole = gpu(index, &format!("GPU-{index}0"), model);
            let part = |n: usize| Gpu {
                uuid: format!("MIG-{index}{n}"),
                model: format!("{model} MIG 1g.10gb"),
                parent: Some(whole.uuid.clone()),
                ..whole.clone()
            };
            match instances {
                // Most GPUs are whole.
                2.. => (0..instances).map(part).collect::<Vec<_>>(),
                _ => vec![whole],
            }
        });
        gpus.collect()
    })
}

proptest! {
    #[test]
    fn no_gpu_is_in_two_slots_and_none_is_lost(machine in machines(), per_run in 1usize..4) {
        let has_models = machine.iter().map(|gpu| &gpu.model).collect::<BTreeSet<_>>().len();
        match plan(&machine, "", "all", per_run) {
            Ok(plan) => {
                let in_slots = plan.slots.iter().flat_map(|slot| &slot.gpus);
                let mut uuids: Vec<_> = in_slots.chain(&plan.unused).map(|gpu| &gpu.uuid).collect();
                let mut all: Vec<_> = machine.iter().map(|gpu| &gpu.uuid).collect();
                uuids.sort();
                all.sort();
                prop_assert_eq!(uuids, all);
                prop_assert!(plan.unused.len() < per_run && !plan.slots.is_empty());
                prop_assert_eq!(has_models, 1);
                for slot in &plan.slots {
                    prop_assert_eq!(slot.gpus.len(), per_run);
                    prop_assert!(slot.gpus.iter().all(|gpu| gpu.model == slot.model()));
                    prop_assert_eq!(slot.uuids().split(',').count(), per_run);
                }
            }
            Err(error) => {
                let text = error.to_string();
                if has_models > 1 {
                    prop_assert!(text.starts_with("the GPUs are of different models: "), "{}", text);
                    prop_assert_eq!(text.matches(" (").count(), has_models);
                } else if machine.is_empty() {
                    prop_assert_eq!(text, "found no GPU");
                } else if per_run > 1 && machine.iter().any(|gpu| gpu.parent.is_some()) {
                    prop_assert!(text.ends_with("MIG instances: CUDA shows a program only one"), "{}", text);
                } else {
                    let there = machine.len();
                    prop_assert!(there < per_run);
                    prop_assert_eq!(text, format!("a run needs {per_run} GPUs, and {there} can be used"));
                }
            }
        }
    }

    #[test]
    fn what_one_slot_is_shown_is_what_a_choice_or_a_mask_of_it_gives(machine in machines(), at in 0usize..40) {
        let all = usable_gpus(&machine, |_| None);
        let Some(uuid) = all.get(at % all.len().max(1)).map(|gpu| &gpu.uuid) else { return Ok(()) };
        let slot = &plan(&machine, "", uuid, 1).unwrap().slots[0];
        prop_assert_eq!(uuid, &slot.uuids());
        let mask = format!("CUDA_VISIBLE_DEVICES={uuid}");
        for same in [plan(&machine, "", uuid, 1), plan(&machine, &mask, "0", 1)] {
            prop_assert_eq!(same.unwrap().slots, std::slice::from_ref(slot));
        }
    }

    #[test]
    fn a_longer_mask_never_hides_what_a_shorter_one_shows(
        count in 1u32..6,
        mask in proptest::collection::vec(0u32..7, 1..7),
    ) {
        let text = |mask: &[u32]| mask.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let shown = |mask: &[u32]| shown(&same(count), &format!("CUDA_VISIBLE_DEVICES={}", text(mask)), "all");
        let (short, long) = (shown(&mask[..mask.len() - 1]), shown(&mask));
        prop_assert!(long.starts_with(&short) || short.ends_with("leaves no GPU to use"), "{short}; {long}");
    }
}
