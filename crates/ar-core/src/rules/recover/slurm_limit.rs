//! The time limit in the options of `sbatch`.

use std::time::Duration;

/// What a job takes beyond its run and the grace of it: its start on the node.
pub const JOB_START: Duration = Duration::from_secs(60);

/// The time limit in options of `sbatch`; `None` without one, or for one that is none, such as `UNLIMITED`. The last one counts.
pub fn slurm_limit(options: &str) -> Option<Duration> {
    let words: Vec<&str> = options.split_ascii_whitespace().map(|word| word.trim_matches(['"', '\''])).collect();
    let value = |index: usize| {
        let word = words[index];
        match word {
            "--time" | "-t" => words.get(index + 1).copied(),
            _ => word.strip_prefix("--time=").or_else(|| word.strip_prefix("-t").filter(|_| !word.starts_with("--"))),
        }
    };
    let last = (0..words.len()).rev().find_map(value)?;
    // Zero means none.
    slurm_duration(last.trim_matches(['"', '\''])).filter(|limit| !limit.is_zero())
}

/// The option of `sbatch` among these that makes of a submission what cannot be found again as one job: another cluster, or an array.
pub fn slurm_refused(options: &str) -> Option<&str> {
    let is_refused = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default();
        ["--clusters", "--cluster", "--array"].contains(&name)
            || (!word.starts_with("--") && (word.starts_with("-M") || word.starts_with("-a")))
    };
    options.split_ascii_whitespace().find(is_refused)
}

/// Reads a duration as `sbatch(1)` has it: `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours`,
/// `days-hours:minutes` or `days-hours:minutes:seconds`.
pub fn slurm_duration(text: &str) -> Option<Duration> {
    let number = |text: &str| text.parse::<u64>().ok();
    let parts = |text: &str| text.split(':').map(number).collect::<Option<Vec<u64>>>();
    let seconds = match text.split_once('-') {
        Some((days, rest)) => {
            let (days, rest) = (number(days)?, parts(rest)?);
            let mut within = rest.iter().zip([3600, 60, 1]).map(|(count, unit)| count.checked_mul(unit));
            let within = within.try_fold(0u64, |sum, part| sum.checked_add(part?))?;
            days.checked_mul(86400)?.checked_add(within).filter(|_| rest.len() <= 3)?
        }
        None => match parts(text)?[..] {
            [minutes] => minutes.checked_mul(60)?,
            [minutes, seconds] => minutes.checked_mul(60)?.checked_add(seconds)?,
            [hours, minutes, seconds] => {
                hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?.checked_add(seconds)?
            }
            _ => return None,
        },
    };
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_single_job_of_this_cluster_is_refused() {
        for (options, refused) in [
            ("-p gpu --array=1-4", Some("--array=1-4")),
            ("-M other", Some("-M")),
            ("--clusters other", Some("--clusters")),
            ("-a0-3", Some("-a0-3")),
            ("-p gpu --account a -A b --mem 4G", None),
        ] {
            assert_eq!(slurm_refused(options), refused, "{options}");
        }
    }

    #[test]
    fn a_limit_is_read_in_all_its_forms() {
        for (options, seconds) in [
            ("--time 20", 1200),
            ("--time=20 --gres gpu:1", 1200),
            ("-t 1:30", 90),
            ("-t1:00:00", 3600),
            ("-p gpu --time '1-12'", 36 * 3600),
            ("--time=1-0:30", 86400 + 1800),
            ("--time=0-0:0:5", 5),
            ("--time 5 --time 6", 360),
        ] {
            assert_eq!(slurm_limit(options), Some(Duration::from_secs(seconds)), "{options}");
        }
        for options in
            ["", "--time=0", "-p gpu", "--time UNLIMITED", "--time", "--time-min=5", "--test-only", "--time=1:2:3:4"]
        {
            assert_eq!(slurm_limit(options), None, "{options}");
        }
    }
}
