use jiff::ToSpan;
use proptest::prelude::*;

use super::*;

const FAILED: CallEnd = CallEnd { exit: Some(1), timed_out: false, changed: false, answered: false, kept_out: false };

/// Friday evening on a clock in Berlin.
fn now() -> Zoned {
    "2026-11-20T22:00:00+01:00[Europe/Berlin]".parse().unwrap()
}

/// Outages with known wordings.
fn found(log: &str) -> Option<OutageKind> {
    outage(log, FAILED, &now()).map(|outage| outage.kind).filter(|kind| *kind != OutageKind::Failed)
}

fn until(log: &str) -> Option<String> {
    outage(log, FAILED, &now()).and_then(|outage| outage.until).map(|until| until.to_string())
}

#[test]
fn the_wordings_of_agents_and_services_are_known() {
    use OutageKind::{Credit, Login, Offline, Overloaded, RateLimit};
    for (line, kind) in [
        ("Claude AI usage limit reached|1760000000", RateLimit),
        ("You've hit your limit · resets 3pm (Europe/Berlin)", RateLimit),
        ("You’ve hit your session limit · resets 12:50am (America/Los_Angeles)", RateLimit),
        ("5-hour limit reached ∙ resets 10pm", RateLimit),
        ("Claude usage limit reached. Your limit will reset at 3pm (America/Santiago).", RateLimit),
        ("API Error: 529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}", Overloaded),
        ("API Error: 500 {\"type\":\"error\"}", Overloaded),
        ("An error occurred (ThrottlingException) when calling the InvokeModel operation: Too many tokens", RateLimit),
        ("Error: Rate limited. Please slow down.", RateLimit),
        ("upstream connect error or disconnect/reset before headers. reset reason: overflow", Overloaded),
        ("Error: Internal server error", Overloaded),
        ("Error: No auth credentials found", Login),
        ("Spending limit reached", Credit),
        ("Credit balance is too low", Credit),
        ("Invalid API key · Please run /login", Login),
        ("Failed to authenticate: OAuth session expired and could not be refreshed", Login),
        ("API Error (Connection error.)", Offline),
        ("You've hit your usage limit. Upgrade to Pro (https://x.y) or try again in 3 hours 22 minutes.", RateLimit),
        ("ERROR: exceeded retry limit, last status: 429 Too Many Requests, request id: 9a5", RateLimit),
        ("exceeded retry limit, last status: 401 Unauthorized, request id: 9a5793", Login),
        ("stream disconnected before completion: Rate limit is exceeded. Try again in 17 seconds.", RateLimit),
        ("stream disconnected before completion: error sending request for url (https://x.y)", Offline),
        ("Selected model is at capacity. Please try a different model.", Overloaded),
        ("    \"status\": \"RESOURCE_EXHAUSTED\",", RateLimit),
        ("Quota exceeded for quota metric 'Gemini 2.5 Pro Requests'", RateLimit),
        ("You have exhausted your capacity on this model. Your quota will reset after 5s.", RateLimit),
        ("      \"code\": 429,", RateLimit),
        ("The model is overloaded. Please try again later.", Overloaded),
        ("AI_APICallError: No payment method", Credit),
        ("Error: 402 Insufficient Balance", Credit),
        ("HTTP 503: Inference is temporarily unavailable", Overloaded),
        ("The usage limit has been reached", RateLimit),
        ("litellm.RateLimitError: RateLimitError: OpenAIException - Error code: 429", RateLimit),
        ("openai.RateLimitError: Error code: 429 - {'error': {'code': 'insufficient_quota'}}", Credit),
        ("litellm.AuthenticationError: AuthenticationError: invalid x-api-key", Login),
        ("litellm.ServiceUnavailableError: AnthropicException", Overloaded),
        ("getaddrinfo ENOTFOUND api.anthropic.com", Offline),
        ("connect ECONNREFUSED 127.0.0.1:8080", Offline),
        ("curl: (6) Could not resolve host: api.openai.com", Offline),
        ("urllib3: [Errno -3] Temporary failure in name resolution", Offline),
        ("OSError: [Errno 101] Network is unreachable", Offline),
        ("API Error: Overloaded", Overloaded),
        ("The server had an error while processing your request. Sorry about that!", Overloaded),
        ("API key expired. Please renew the API key.", Login),
        ("dial tcp: lookup api.anthropic.com: no such host", Offline),
        ("Error: socket hang up", Offline),
        ("You're out of extra usage · resets 3pm", RateLimit),
        ("Provider returned error: x-ai/grok is temporarily rate-limited upstream.", RateLimit),
        ("{\"message\":\"Service tier capacity exceeded for this model.\"}", Overloaded),
        ("litellm.Timeout: APITimeoutError - Request timed out.", Offline),
        ("Error: Authentication required. Please run 'cursor-agent login' first.", Login),
        ("ExpiredTokenException: The security token included in the request is expired", Login),
        ("Your account is not active, please check your billing details on our website.", Credit),
        ("No internet connection. Please check your network and try again.", Offline),
    ] {
        assert_eq!(found(line), Some(kind), "{line}");
        assert_eq!(found(&format!("before\n\n{line}\n    at x (y.js:429:500)\n\n")), Some(kind), "{line}");
    }
}

#[test]
fn an_agent_that_a_wall_stops_is_not_out() {
    let protected = ["eval.py", "lib/deep/score.py", "data"].map(PathBuf::from);
    let of = |line: &str| kept_out(&format!("before\n{line}\nafter\n"), Path::new("/r"), &protected);
    for (line, path) in [
        ("sh: 1: cannot create eval.py: Read-only file system", "eval.py"),
        ("OSError: [Errno 30] Read-only file system: './eval.py'", "eval.py"),
        ("Error: EROFS: read-only file system, open '/r/lib/deep/score.py'", "lib/deep/score.py"),
        ("touch: cannot touch 'data/new': Read-only file system", "data"),
        ("mv: cannot move 'lib' to 'lib2': Device or resource busy", "lib"),
        ("Error: EBUSY: resource busy or locked, rename '/r/lib/deep' -> '/r/x'", "lib/deep"),
    ] {
        assert_eq!(of(line), [PathBuf::from(path)], "{line}");
        let end = CallEnd { kept_out: true, ..FAILED };
        assert_eq!(outage(line, end, &now()), None);
        assert_eq!(outage(line, CallEnd { exit: Some(127), ..end }, &now()), None);
        let refusal = Refusal { said: line.into(), status: None, until: None };
        assert_eq!(refused(&refusal, end, &now()), None);
        let limited = outage("You've hit your limit", end, &now()).map(|outage| outage.kind);
        assert_eq!(limited, Some(OutageKind::RateLimit), "its service says why");
    }
    for line in [
        "sh: 1: cannot create /other/eval.py: Read-only file system",
        "sh: 1: cannot create my-eval.py: Read-only file system",
        "sh: 1: cannot create eval.py.bak: Read-only file system",
        "touch: cannot touch 'lib/cache/x': Read-only file system",
        "cat: eval.py: Permission denied",
    ] {
        assert_eq!(of(line), [] as [PathBuf; 0], "{line}");
    }
}

#[test]
fn the_last_words_of_agents_that_were_limited_or_cut_off_are_known() {
    use OutageKind::{Offline, Overloaded, RateLimit};
    for (log, kind) in [
        // claude 2.1
        ("API Error: Request rejected (429) · Rate limit reached. Please try again later.\n", RateLimit),
        ("API Error: Unable to connect to API (ConnectionRefused)\n", Offline),
        // codex 0.169, which waits forever for a network
        ("ERROR: Reconnecting... 5/5\nERROR: exceeded retry limit, last status: 429 Too Many Requests\n", RateLimit),
        ("ERROR: Reconnecting... waiting for network\nERROR: Reconnecting... waiting for network\n", Offline),
        // opencode 1.18
        ("> build · scripted\n\nError: Rate limit reached. Please try again later.\n", RateLimit),
        ("Error: Cannot connect to API: Unable to connect. Is the computer able to access the url?\n", Offline),
        // gemini 0.61
        (
            "{\"status\":\"RESOURCE_EXHAUSTED\"} {\n  status: 429\n}\nAn unexpected critical error occurred:[object Object]\n",
            RateLimit,
        ),
        (
            "Error: exception TypeError: fetch failed sending request\nAn unexpected critical error occurred:[object Object]\n",
            Offline,
        ),
        // aider 0.86, which breaks its lines at 80 columns
        (
            "litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached. \nPlease try again later.\n\
             The API provider has rate limited you. Try again later or check your quotas.\n",
            RateLimit,
        ),
        (
            "litellm.InternalServerError: InternalServerError: OpenAIException - Connection \nerror.\n\
             The API provider's servers are down or overloaded.\nRetrying in 32.0 seconds...\n",
            Overloaded,
        ),
    ] {
        assert_eq!(found(log), Some(kind), "{log}");
    }
}

#[test]
fn the_words_of_copilot_and_antigravity_are_known() {
    use OutageKind::{Credit, Login, Offline, Overloaded, RateLimit};
    let succeeded = |line: &str| outage(line, CallEnd { exit: Some(0), ..FAILED }, &now()).map(|outage| outage.kind);
    for (line, kind) in [
        (
            "✗ Sorry, you've hit a rate limit that restricts the number of model requests. Please try again in 2 hours.",
            RateLimit,
        ),
        ("Sorry, you have been rate-limited. Please wait 2 minutes before trying again", RateLimit),
        ("× Model call failed: {\"message\":\"too much\",\"code\":\"rate_limited\"}", RateLimit),
        ("{\"code\":\"user_weekly_rate_limited\"}", RateLimit),
        ("Individual quota reached. Please upgrade. Resets in 5h28m14s.", RateLimit),
        ("You have exceeded your monthly quota", RateLimit),
        ("You've exceeded your premium request allowance.", RateLimit),
        ("✘ Execution failed: 402 You have no quota", Credit),
        ("Error: No authentication information found.", Login),
        ("Error: authentication timed out", Login),
        ("Failed to get response from the AI model; retried 5 times", Overloaded),
        ("API Error: Request timed out.", Offline),
        ("Request timed out", Offline),
        ("Error: Request timed out.", Offline),
        (
            "API Error: The socket connection was closed unexpectedly. For more information, pass `verbose: true`",
            Offline,
        ),
        ("The socket connection was closed unexpectedly.", Offline),
    ] {
        assert_eq!((found(line), succeeded(line)), (Some(kind), Some(kind)), "{line}");
    }
    assert_eq!(
        until("try again in 15 hours 23 minutes; you've hit a rate limit").as_deref(),
        Some("2026-11-21T12:23:00Z")
    );
    assert_eq!(until("Individual quota reached. Resets in 5h28m14s.").as_deref(), Some("2026-11-21T02:28:14Z"));
    for line in [
        "I looked at what happens after 'Request timed out' in client.py; it is retried already.",
        "Request timed out is what the log of the last run says.",
        "client.py raises `API Error: Request timed out`.",
        "The socket connection was closed by the test server, as it should be.",
        "I raised the quota, and reached a limit of the learning rate.",
    ] {
        assert_eq!((found(line), succeeded(line)), (None, None), "{line}");
    }
    assert_eq!(succeeded("Request timed out\nI changed nothing, for the data has no fold 5."), None);
}

#[test]
fn an_agent_whose_service_answered_is_not_out_because_of_another_connection() {
    let log = "HTTPSConnectionPool(host='example.com', port=443): Max retries exceeded with url: /prices.json\n";
    let end = |exit, answered| CallEnd { exit: Some(exit), answered, ..FAILED };
    assert_eq!(outage(log, end(0, true), &now()), None);
    assert_eq!(outage(log, end(0, false), &now()).unwrap().kind, OutageKind::Offline);
    assert_eq!(outage(log, end(1, true), &now()).unwrap().kind, OutageKind::Offline, "it failed");
}

#[test]
fn what_only_speaks_of_limits_is_no_outage() {
    for line in [
        "",
        "I added a rate limit to the data loader",
        "the learning rate limit is now 0.1; quota handling is unchanged",
        "error: no matching overloaded function",
        "fork: Resource temporarily unavailable",
        "line 429: syntax error",
        "val_bpb 1.503 after 429 steps",
        "unlimited patience, generated 1429 tokens",
    ] {
        assert_eq!(found(line), None, "{line}");
    }
    let limited = "You've hit your limit · resets 3pm";
    let end =
        |exit, timed_out, changed| outage(limited, CallEnd { exit, timed_out, changed, ..FAILED }, &now()).is_some();
    assert!(
        end(Some(0), false, false) && !end(Some(0), false, true),
        "it ended well and changed nothing, or something"
    );
    assert!(end(Some(1), false, true) && end(None, false, false) && end(None, true, false));
    assert!(!end(None, true, true), "it worked until its time was over");
    let refused = |changed, log| outage(log, CallEnd { exit: Some(0), changed, ..FAILED }, &now()).is_some();
    let aider = "litellm.RateLimitError: AnthropicException\nThe API provider has rate limited you.\n";
    assert!(refused(false, aider) && !refused(true, aider), "aider exits with 0");
    for words in
        ["Claude AI usage limit reached|1760000000", "Rate limit exceeded (429)", "Invalid API key · Please run /login"]
    {
        assert!(refused(false, words) && !refused(true, words), "{words}");
    }
    assert!(!refused(false, "I found nothing to change in the rate limiter.\n"));
}

#[test]
fn only_the_last_lines_count_and_fewer_of_an_agent_that_has_worked() {
    let log = |after: usize| format!("overloaded_error\n{}", "and then this\n".repeat(after));
    let changed = |after: usize| outage(&log(after), CallEnd { changed: true, ..FAILED }, &now()).is_some();
    assert_eq!((found(&log(49)).is_some(), found(&log(50)).is_some()), (true, false));
    assert_eq!((changed(9), changed(10)), (true, false));
    let changed = CallEnd { changed: true, ..FAILED };
    assert_eq!(found("connect: Connection refused"), Some(OutageKind::Offline));
    assert_eq!(outage("connect: Connection refused", changed, &now()), None, "it may be one of its work");
    let newest = outage("Credit balance is too low\nNetwork is unreachable\n", FAILED, &now()).unwrap();
    assert_eq!((newest.kind, newest.said.as_str()), (OutageKind::Offline, "Network is unreachable"));
}

#[test]
fn an_agent_that_cannot_be_executed_is_one_unless_it_changed_something() {
    for status in [126, 127] {
        let end = CallEnd { exit: Some(status), ..FAILED };
        let found = outage("sh: 1: claude: not found\n", end, &now()).unwrap();
        assert_eq!((found.kind, found.said.as_str()), (OutageKind::NotStarted, "sh: 1: claude: not found"));
        assert_eq!(outage("", end, &now()).unwrap().said, "");
        let said = outage("reading the prompt\n./agent.sh: 16: sed: not found\n", end, &now()).unwrap().said;
        assert_eq!(said, "reading the prompt | ./agent.sh: 16: sed: not found", "its last lines");
        assert_eq!(outage("sh: 1: notify: not found\n", CallEnd { changed: true, ..end }, &now()), None);
    }
}

#[test]
fn an_agent_that_fails_and_changes_nothing_is_one_whatever_it_says() {
    let said = |log, exit| {
        let found = outage(log, CallEnd { exit, ..FAILED }, &now()).unwrap();
        assert_eq!((found.kind, found.until), (OutageKind::Failed, None), "no other time is one of a reset");
        found.said
    };
    assert_eq!(said("service broken\nresets 11pm\n\n", Some(1)), "exit 1: resets 11pm");
    assert_eq!((said("", Some(3)).as_str(), said("gone\n", None).as_str()), ("exit 3", "ended by a signal: gone"));
    for end in [
        CallEnd { changed: true, ..FAILED },
        CallEnd { timed_out: true, ..FAILED },
        CallEnd { timed_out: true, exit: None, ..FAILED },
        CallEnd { exit: Some(0), ..FAILED },
    ] {
        assert_eq!(outage("service broken\n", end, &now()), None, "{end:?}");
    }
}

#[test]
fn the_time_of_the_reset_is_read_as_agents_write_it() {
    let limited = |words: &str| until(&format!("usage limit reached {words}"));
    for (words, expected) in [
        ("|1763697600", None),
        ("|1795233600", Some("2026-11-21T04:00:00Z")),
        ("\"resets_at\":1795233600000,", Some("2026-11-21T04:00:00Z")),
        ("\"resets_in_seconds\": 3600}", Some("2026-11-20T22:00:00Z")),
        ("Retry-After: 120", Some("2026-11-20T21:02:00Z")),
        ("retry-after-ms: 1500", Some("2026-11-20T21:00:01.5Z")),
        ("\"retryDelay\": \"34s\"", Some("2026-11-20T21:00:34Z")),
        ("retry after 30 s", Some("2026-11-20T21:00:30Z")),
        ("Please try again in 21.509s. Visit https://x.y", Some("2026-11-20T21:00:21.509Z")),
        ("or try again in 3 hours 22 minutes.", Some("2026-11-21T00:22:00Z")),
        ("try again in 5 days 22 hours 11 minutes", Some("2026-11-26T19:11:00Z")),
        ("Your quota will reset after 4h22m10s.", Some("2026-11-21T01:22:10Z")),
        ("resets in 1 hour and 5 minutes", Some("2026-11-20T22:05:00Z")),
        ("resets 3am", Some("2026-11-21T02:00:00Z")),
        ("· resets 1:30am (Asia/Dhaka)", None),
        ("· resets 5:30am (Asia/Dhaka)", Some("2026-11-20T23:30:00Z")),
        ("resets 12am", Some("2026-11-20T23:00:00Z")),
        ("Your limit will reset at 3pm (America/Santiago).", None),
        ("Your limit will reset at 11pm (Europe/London).", Some("2026-11-20T23:00:00Z")),
        ("try again at 10:13 PM.", Some("2026-11-20T21:13:00Z")),
        ("resets at 23:30", Some("2026-11-20T22:30:00Z")),
        ("resets at 23:30 UTC", Some("2026-11-20T23:30:00Z")),
        ("resets 9pm", None),
        ("resets 3pm", Some("2026-11-21T14:00:00Z")),
        ("resets Nov 23, 11:30am (Asia/Calcutta)", Some("2026-11-23T06:00:00Z")),
        ("resets Jan 5 at 9pm (America/New_York)", Some("2027-01-06T02:00:00Z")),
        ("or try again at Dec 5th, 2026 8:19 PM.", Some("2026-12-05T19:19:00Z")),
        ("try again at 5 December 2026, 20:19", Some("2026-12-05T19:19:00Z")),
        ("resets tomorrow at 3am", Some("2026-11-21T02:00:00Z")),
        ("until 2026-11-21T03:00:00Z", Some("2026-11-21T03:00:00Z")),
        ("until 2026-11-21T03:00:00+02:00.", Some("2026-11-21T01:00:00Z")),
        ("resets 2026-11-21 03:00", Some("2026-11-21T02:00:00Z")),
        ("reset at 2026-11-21", Some("2026-11-20T23:00:00Z")),
        ("resets Nov 19, 11am", None),
        ("resets 11pm (Mars/Olympus)", None),
        ("resets 25:00 or 13pm or 99 potatoes", None),
        ("resets in 99999999999999999999 hours", None),
        ("please try again later", None),
    ] {
        assert_eq!(limited(words).as_deref(), expected, "{words}");
    }
    let log = "{\n  \"status\": \"RESOURCE_EXHAUSTED\",\n  \"details\": [{\n    \"retryDelay\": \"34.5s\"\n  }]\n}\n";
    assert_eq!(until(log).as_deref(), Some("2026-11-20T21:00:34.5Z"), "it may stand on another line");
    assert_eq!(until("free until 2026-12-01\nCredit balance is too low\n"), None, "which is of something else");
}

#[test]
fn pauses_double_to_ten_minutes_and_end_with_the_limit() {
    let now = now().timestamp();
    let limit = Duration::from_secs(8 * 3600);
    let of = |kind, until| Outage { kind, said: String::new(), until };
    let wait = |until, waits, lasted| {
        let so_far = SoFar { waits, lasted: Duration::from_secs(lasted), ..SoFar::default() };
        patience(&of(OutageKind::Offline, until), so_far, limit, now)
    };
    let secs = |seconds| Patience::Wait(Duration::from_secs(seconds));
    let pauses: Vec<_> = (0..12).map(|waits| wait(None, waits, 0)).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600].map(secs));
    assert_eq!(wait(None, u32::MAX, 0), secs(600));
    assert_eq!(wait(None, 20, 8 * 3600 - 5), secs(5), "it is called once more at the end");
    assert_eq!(wait(None, 20, 8 * 3600), Patience::GiveUp);
    let named = |hours: i64| Some(now + hours.hours());
    assert_eq!(wait(named(5), 0, 0), secs(5 * 3600));
    assert_eq!(wait(named(9), 0, 0), Patience::GiveUp, "a reset beyond the limit");
    assert_eq!(wait(named(5), 3, 4 * 3600), Patience::GiveUp);
    let soon = Some(now + 2.seconds());
    assert_eq!([wait(soon, 0, 0), wait(soon, 6, 0)], [secs(2), secs(32)]);
    assert_eq!(wait(named(-1), 3, 0), secs(8), "a reset in the past says nothing");

    let failing = |waits, lasted, failed, limit| {
        let [lasted, failed, limit] = [lasted, failed, limit].map(Duration::from_secs);
        patience(&of(OutageKind::Failed, None), SoFar { waits, lasted, failed, ..SoFar::default() }, limit, now)
    };
    let pauses: Vec<_> = (0..15).map(|waits| failing(waits, 0, 0, 28800)).collect();
    let millis = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 6000, 6000].map(|tenths| tenths * 100);
    assert_eq!(pauses, millis.map(|pause| Patience::Wait(Duration::from_millis(pause))));
    assert_eq!([failing(20, 3595, 3595, 28800), failing(20, 3600, 3600, 28800)], [secs(5), Patience::GiveUp]);
    assert_eq!(failing(20, 7200, 60, 28800), secs(600), "what was known before is not held against it");
    assert_eq!([failing(20, 50, 50, 60), failing(20, 60, 10, 60)], [secs(10), Patience::GiveUp]);

    let missing = |waits, repeats| {
        patience(&of(OutageKind::NotStarted, None), SoFar { waits, repeats, ..SoFar::default() }, limit, now)
    };
    assert_eq!([missing(0, 1), missing(1, 2), missing(2, 3)], [secs(1), secs(2), Patience::GiveUp]);
    assert_eq!(missing(5, 1), secs(32), "what kept it before was something else");
}

#[test]
fn a_machine_readable_refusal_is_one_whatever_the_exit_status() {
    use OutageKind::{Failed, Login, Overloaded, RateLimit};
    let of = |said: &str, status, end| {
        refused(&Refusal { status, ..Refusal::saying(said.into()) }, end, &now()).map(|outage| outage.kind)
    };
    let well = CallEnd { exit: Some(0), ..FAILED };
    let worked = CallEnd { changed: true, ..well };
    for end in [well, worked, FAILED, CallEnd { changed: true, ..FAILED }] {
        assert_eq!(of("Rate limit exceeded", None, end), Some(RateLimit), "{end:?}");
        assert_eq!([of("no", Some(429), end), of("no", Some(401), end)], [Some(RateLimit), Some(Login)], "{end:?}");
        assert_eq!([of("\nbusy", Some(529), end), of("no", Some(503), end)], [Some(Overloaded); 2], "{end:?}");
    }
    assert_eq!([of("too many turns", None, well), of("too many turns", Some(400), worked)], [Some(Failed), None]);
    assert_eq!(of("Rate limit exceeded", None, CallEnd { timed_out: true, ..worked }), None);
    let until = |until: Option<&str>, said: &str| {
        let refusal = Refusal { until: until.map(|time| time.parse().unwrap()), ..Refusal::saying(said.into()) };
        refused(&refusal, well, &now()).unwrap().until.map(|until| until.to_string())
    };
    let named = "2026-11-21T03:00:00Z";
    assert_eq!(until(Some(named), "usage limit reached").as_deref(), Some(named));
    assert_eq!(
        until(Some("2026-11-20T03:00:00Z"), "usage limit reached|1795233600").as_deref(),
        Some("2026-11-21T04:00:00Z")
    );
}

#[test]
fn a_wrong_key_is_tried_three_times_unless_it_has_worked() {
    let limit = Duration::from_secs(3600);
    let tried = |kind, repeats, is_first| {
        let so_far = SoFar { waits: repeats - 1, repeats, is_first, ..SoFar::default() };
        patience(&Outage { kind, said: String::new(), until: None }, so_far, limit, now().timestamp())
    };
    let secs = |seconds| Patience::Wait(Duration::from_secs(seconds));
    let of = |kind, is_first| [1, 2, 3].map(|repeats| tried(kind, repeats, is_first));
    assert_eq!(of(OutageKind::Login, true), [secs(1), secs(2), Patience::GiveUp]);
    assert_eq!(of(OutageKind::Login, false), [1, 2, 4].map(secs));
    assert_eq!(of(OutageKind::RateLimit, true), [1, 2, 4].map(secs));
}

#[test]
fn short_calls_that_change_nothing_are_paused_between() {
    let pauses = [1, 2, 3, 7, 8, 9, u32::MAX].map(|idle| pause_after_idle(idle, 1.0).as_secs());
    assert_eq!(pauses, [3, 6, 12, 192, 300, 300, 300]);
    let night: Duration = (1..10).map(|idle| pause_after_idle(idle, 1.0)).sum();
    assert_eq!(night.as_secs() / 60, 16);
    assert_eq!([pause_after_idle(0, 1.0), pause_after_idle(5, 60.0)], [Duration::ZERO; 2]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_output_makes_it_panic(log in "\\PC{0,200}", exit in any::<Option<i32>>(), changed: bool, timed_out: bool) {
        outage(&log, CallEnd { exit, timed_out, changed, ..FAILED }, &now());
    }

    #[test]
    fn what_looks_like_a_time_makes_it_no_more(
        words in prop::collection::vec(prop::sample::select(vec![
            "usage limit reached|", "resets", "at", "in", "try again", "retry-after:", "9999999999", "1760000000", "3pm",
            "25:61:00", "12:30", "am", "PM", "Jan", "31", "29th", "February", "2026", "0000", "-1", "1e308", "9999-12-31",
            "2026-02-30T99", "99999999999999999999d", "9999999999999", "weeks", "h", "ms", "4h22m", "..", ":", "5.5.5s",
            "(Europe/Berlin)", "(Etc/GMT+5)", "UTC", "tomorrow", "é", "１２", "·", "\"retryDelay\":\"", "s\"", "\n",
        ]), 0..12),
        glue in prop::sample::select(vec!["", " "]),
    ) {
        let found = outage(&words.join(glue), FAILED, &now());
        prop_assert!(found.is_none_or(|outage| outage.until.is_none_or(|until| until > now().timestamp())));
    }
}

#[test]
fn what_a_sentence_quotes_is_no_outage() {
    for line in [
        "The server returns 'Too many requests' after 10 calls, and the client respects it.",
        "No change: `Too many requests` is handled by the retry decorator.",
        "The docstring says \"Rate limit exceeded\" should be raised when the bucket is empty.",
    ] {
        assert_eq!(found(line), None, "{line}");
    }
    for line in ["Error: \"Rate limit exceeded\"", "{\"error\": \"Rate limit exceeded\" }"] {
        assert_eq!(found(line), Some(OutageKind::RateLimit), "{line}");
    }
}
