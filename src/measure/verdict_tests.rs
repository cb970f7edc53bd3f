use proptest::prelude::*;

use super::*;

fn summary(tail: &str) -> LogSummary {
    LogSummary { empty: tail.trim().is_empty(), tail: tail.to_owned(), ..LogSummary::default() }
}

fn failure(tail: &str, status: i32) -> Failure {
    judge(&summary(tail), &RunEnd::from_status(status)).unwrap_err()
}

const HEADER: &str = "Traceback (most recent call last):\n  File \"train.py\", line 5, in <module>\n    main()\n";

#[test]
fn the_final_traceback_decides() {
    use FailureClass::*;
    for (last, class) in [
        ("ModuleNotFoundError: No module named 'x'", ImportError),
        ("ImportError: cannot import name 'y' from 'z'", ImportError),
        ("IndentationError: unexpected indent", SyntaxError),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", Oom),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory.", Oom),
        ("RuntimeError: MPS backend out of memory (MPS allocated: 1 GB)", Oom),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling", Oom),
        ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying", Oom),
        ("XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 2.0GiB", Oom),
        ("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of space in hbm", Oom),
        ("tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor", Oom),
        ("google.api_core.exceptions.ResourceExhausted: 429 Quota exceeded for memory requests", Crash),
        ("google.genai.errors.ClientError: 429 RESOURCE_EXHAUSTED. {'message': 'out of quota'}", Crash),
        ("api.ResourceExhaustedError: 429 RESOURCE_EXHAUSTED: quota", Crash),
        ("grpc.RpcError: RESOURCE_EXHAUSTED: Received message larger than max (9 vs. 4)", Crash),
        ("RuntimeError: {'status': 'RESOURCE_EXHAUSTED'}", Crash),
        ("MemoryError", Oom),
        ("ValueError: loss is NaN, stopping", Nan),
        ("FloatingPointError: invalid value encountered in multiply", Nan),
        ("KeyError: 'nano'", Crash),
        ("RuntimeError: INFO missing", Crash),
        ("KeyboardInterrupt", Crash),
    ] {
        let found = failure(&format!("step 1\n{HEADER}{last}\n"), 1);
        assert_eq!(found.class, class, "{last}");
        assert!(found.excerpt.contains(last) && found.excerpt.contains("train.py"), "{}", found.excerpt);
    }
    let handled = format!(
        "{HEADER}torch.OutOfMemoryError: CUDA out of memory.\n\nDuring handling of the above exception, another \
         exception occurred:\n\n{HEADER}KeyError: 'x'\n"
    );
    assert_eq!(failure(&handled, 1).class, Crash);
    let wrapped = handled.replace(
        "During handling of the above exception, another exception occurred:",
        "The above exception was the direct cause of the following exception:",
    );
    assert_eq!(failure(&wrapped, 1).class, Oom);
}

#[test]
fn prefixes_launchers_and_files_that_do_not_compile_are_seen_through() {
    let rank = format!("{HEADER}torch.OutOfMemoryError: CUDA out of memory.\n");
    let rank: String = rank.lines().map(|line| format!("[rank0]: {line}\n")).collect();
    let launcher = format!("{rank}W0101 agent closing\n{HEADER}torch.distributed.elastic.ChildFailedError: \n====\n");
    assert_eq!(failure(&launcher, 1).class, FailureClass::Oom);
    let program = "  File \"train.py\", line 3\n    def f(\n         ^\nSyntaxError: '(' was never closed\n";
    assert_eq!(failure(program, 1).class, FailureClass::SyntaxError);
    assert_eq!(failure("SyntaxError: seen by a linter\nbye\n", 1).class, FailureClass::Crash);
    let glued = format!("step 7 | loss: 1.0    {HEADER}ImportError: x\n");
    assert_eq!(failure(&glued, 1).class, FailureClass::ImportError);
}

#[test]
fn a_batch_systems_page_does_not_hide_the_words() {
    let page = "\n-----------\nSender: LSF System <x>\nYour job looked like:\nExited with exit code 1.\n";
    let page = format!("{page}{}", "    CPU time : 1.01 sec.\n".repeat(120));
    let log = format!("terminate called after throwing an instance of 'std::bad_alloc'\n{page}");
    assert_eq!(failure(&log, 1).class, FailureClass::Oom);
    assert!(failure(&log, 1).excerpt.contains("bad_alloc"));
    assert_eq!(failure(&format!("step 1\n{page}"), 1).class, FailureClass::Crash);
}

#[test]
fn a_run_that_stopped_on_nan_is_nan() {
    assert_eq!(failure("step 1 | loss: 2.0\nstep 2 | loss: nan\nFAIL\n", 1).class, FailureClass::Nan);
    assert_eq!(failure("NaN detected, aborting\n", 1).class, FailureClass::Nan);
    assert_eq!(failure("INFO nano banana\nFAIL\n", 1).class, FailureClass::Crash);
    let early = format!("loss: nan\n{}", "step\n".repeat(50));
    assert_eq!(failure(&early, 1).class, FailureClass::Crash);
}

#[test]
fn how_the_run_ended_comes_before_what_it_said() {
    use FailureClass::*;
    let mut good = summary("val_bpb: 1.5\nTraceback (most recent call last):\nCUDA out of memory, retrying\n");
    good.found = Some(MetricMention::Number("1.5".parse().unwrap()));
    assert_eq!(judge(&good, &RunEnd::from_status(0)).map(|number| number.raw), Ok("1.5".to_owned()));
    let ended = |change: fn(&mut RunEnd)| {
        let mut ending = RunEnd { exit: Some(0), ..RunEnd::default() };
        change(&mut ending);
        judge(&good, &ending).unwrap_err().class
    };
    assert_eq!(ended(|ending| ending.timed_out = true), Timeout);
    assert_eq!(ended(|ending| ending.exit = Some(124)), Timeout);
    assert_eq!(ended(|ending| ending.lost = true), Lost);
    assert_eq!(ended(|ending| ending.oom_killed = true), Oom);
    assert_eq!(ended(|ending| ending.exit = Some(137)), Killed);
    assert_eq!(ended(|ending| *ending = RunEnd::from_status(143)), Killed);
    assert_eq!(ended(|ending| *ending = RunEnd::from_status(134)), Oom);
    assert_eq!(ended(|ending| *ending = RunEnd::from_status(255)), Oom);
    let client = "status = StatusCode.RESOURCE_EXHAUSTED\ndetails = \"CLIENT: Sent message larger than max\"\n";
    assert_eq!(failure(client, 1).class, Crash);
    assert_eq!(failure("E0000 RESOURCE_EXHAUSTED: failed to allocate 3 GiB in XLA\n", 1).class, Oom);
    assert_eq!(failure("slurmstepd: error: Detected 1 oom_kill event in StepId=1\n", 137).class, Oom);
}

#[test]
fn a_batch_systems_time_limit_is_a_timeout() {
    let job = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n";
    let step = job.replace("JOB 7", "STEP 7.0");
    for (log, status) in [(job, 143), (job, 137), (job, 1), (&step, 15), (&format!("{HEADER}KeyError: 1\n{step}"), 1)] {
        let found = failure(log, status);
        assert_eq!(found.class, FailureClass::Timeout, "{log} {status}");
        assert!(found.excerpt.contains("DUE TO TIME LIMIT"), "{}", found.excerpt);
    }
    assert_eq!(failure(&job.replace(" DUE TO TIME LIMIT", ""), 143).class, FailureClass::Killed);
    assert_eq!(failure("the slot is free due to time limit\n", 1).class, FailureClass::Crash);
}

/// The output of torchrun when the worker that failed first exited with `code`.
fn torchrun(code: i32) -> String {
    let raised = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ";
    format!(
        "E0101 failed (exitcode: {code}) local_rank: 1 (pid: 7) of binary: python\n{HEADER}{raised}\n=====\ntrain.py FAILED\n\
         -----\nFailures:\n[1]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 6)\n-----\nRoot Cause:\n[0]:\n  \
         exitcode  : {code} (pid: 7)\n  error_file: <N/A>\n  traceback : Signal {} received by PID 7\n=====\n",
        -code
    )
}

#[test]
fn a_signal_of_the_code_itself_is_a_crash() {
    use FailureClass::*;
    for signal in [4, 5, 6, 7, 8, 11, 13, 24, 25, 31] {
        for status in [signal + 128, -signal] {
            let ending = match status {
                ..0 => RunEnd { signal: Some(signal), ..RunEnd::default() },
                _ => RunEnd { exit: Some(status), ..RunEnd::default() },
            };
            for log in ["", "loss: 1\n"] {
                assert_eq!(judge(&summary(log), &ending).unwrap_err().class, Crash, "{signal} {log}");
            }
        }
    }
    for signal in [1, 2, 9, 10, 15] {
        assert_eq!(failure("loss: 1\n", 128 + signal).class, Killed, "{signal}");
    }
    assert_eq!(failure(&torchrun(-11), 1).class, Crash);
}

#[test]
fn a_worker_of_torchrun_that_a_signal_ended_was_killed() {
    use FailureClass::*;
    let found = failure(&torchrun(-9), 1);
    assert!(found.class == Killed && found.excerpt.contains("exitcode  : -9 (pid: 7)"), "{found:?}");
    assert_eq!(failure(&torchrun(-15), 1).class, Killed);
    assert_eq!(failure(&torchrun(1), 1).class, Crash);
    let oom = format!("{HEADER}torch.OutOfMemoryError: CUDA out of memory.\n");
    assert_eq!(failure(&format!("{oom}{}", torchrun(-6)), 1).class, Oom);
    assert_eq!(failure(&format!("{oom}{}", torchrun(1)), 1).class, Oom);
    let kernel = "slurmstepd: error: Detected 1 oom_kill event in StepId=1\n";
    assert_eq!(failure(&format!("{kernel}{}", torchrun(-9)), 1).class, Oom);
}

#[test]
fn a_lone_line_about_a_missing_module_is_an_import_error() {
    use FailureClass::*;
    for line in ["ModuleNotFoundError: No module named 'x'", "[rank0]: ModuleNotFoundError: No module named 'x.y'"] {
        let found = failure(&format!("loading\n{line}\nbye\n"), 1);
        assert!(found.class == ImportError && found.excerpt == line, "{found:?}");
    }
    assert_eq!(failure("we catch ModuleNotFoundError: No module named 'x'\nbye\n", 1).class, Crash);
    assert_eq!(failure(&format!("ModuleNotFoundError: No module named 'x'\n{}", "step\n".repeat(200)), 1).class, Crash);
}

#[test]
fn silence_and_a_missing_metric_are_told_apart() {
    assert_eq!(failure("", 0).class, FailureClass::NoOutput);
    assert_eq!(failure("", 1).class, FailureClass::NoOutput);
    assert_eq!(failure("hello\n", 0).class, FailureClass::NoMetric);
    assert_eq!(failure("/bin/bash: line 239: uv: command not found\n", 127).class, FailureClass::Crash);
    assert_eq!(failure("/usr/bin/python3: No module named torchrun\n", 1).class, FailureClass::ImportError);
    let mut nan = summary("val_bpb: nan\n");
    nan.found = Some(MetricMention::NotFinite("nan".to_owned()));
    assert_eq!(judge(&nan, &RunEnd::from_status(0)).unwrap_err().class, FailureClass::Nan);
}

proptest! {
    #[test]
    fn any_tail_is_judged(tail in "(Traceback \\(most recent call last\\):|[A-Z]{1,3}Error: |File \"|nan|\n| |:|[a-zµ.]{1,4}){0,40}", status in 0i32..256) {
        prop_assert!(judge(&summary(&tail), &RunEnd::from_status(status)).is_err());
    }
}

#[test]
fn a_number_before_a_failure_is_partial_unless_memory_or_another_process_ended_the_run() {
    let number = || Some(MetricMention::Number("0.97".parse().unwrap()));
    let of = |ending: RunEnd, found: Option<MetricMention>, tail: &str| {
        let summary = LogSummary { found, ..summary(tail) };
        let failure = judge(&summary, &ending).err()?;
        partial(&summary, &ending, failure.class).map(|number| number.raw.clone())
    };
    let deadline = RunEnd { timed_out: true, ..RunEnd::default() };
    assert_eq!(of(deadline, number(), "loss: 0.97").as_deref(), Some("0.97"));
    assert_eq!(of(RunEnd { signal: Some(9), ..deadline }, number(), "x").as_deref(), Some("0.97"), "after the grace");
    assert_eq!(of(RunEnd::from_status(1), number(), "x").as_deref(), Some("0.97"));
    assert_eq!(of(RunEnd::from_status(139), number(), "x").as_deref(), Some("0.97"));
    assert_eq!(of(RunEnd::from_status(1), None, "x"), None);
    assert_eq!(of(RunEnd::from_status(1), Some(MetricMention::NotFinite("nan".into())), "x"), None);
    let with_unit = |text: &str| Number::with_unit(text).map(MetricMention::Number);
    assert_eq!(of(RunEnd::from_status(139), with_unit("0.97Segmentation"), "x"), None, "it was cut");
    assert_eq!(of(RunEnd::from_status(139), with_unit("0.97ms"), "x").as_deref(), Some("0.97"));
    assert_eq!(of(RunEnd::from_status(0), number(), "x"), None, "it is whole");
    let others = [RunEnd::from_status(137), RunEnd::from_status(143), RunEnd::from_status(124)];
    for ending in others.into_iter().chain([RunEnd { oom_killed: true, ..RunEnd::from_status(137) }]) {
        assert_eq!(of(ending, number(), "x"), None, "{ending:?}");
    }
    assert_eq!(of(RunEnd::from_status(1), number(), "torch.OutOfMemoryError: CUDA out of memory."), None);
}

#[test]
fn other_runtimes_and_batch_systems_name_their_failures_too() {
    use FailureClass::*;
    for (log, status, class) in [
        ("RuntimeError: [metal::malloc] Attempting to allocate 9 bytes, the maximum allowed buffer size is 8", 1, Oom),
        ("ERROR: LoadError: Out of GPU memory trying to allocate 8.000 GiB", 1, Oom),
        ("failed assertion `Failed to allocate private MTLBuffer for size 9'", 134, Oom),
        ("OOMKilled", 137, Oom),
        ("slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-01-01 DUE TO NODE FAILURE, SEE LOG ***", 143, Lost),
        ("run.sh: line 3: syntax error near unexpected token `('", 2, SyntaxError),
        ("run.sh: 3: Syntax error: \"(\" unexpected", 2, SyntaxError),
        ("Error: Cannot find module './x'", 1, ImportError),
        ("ERROR: LoadError: ArgumentError: Package Flux not found in current path.", 1, ImportError),
    ] {
        assert_eq!(failure(&format!("step 1\n{log}\n"), status).class, class, "{log}");
    }
}
