//! Answers that fit into an agent's context: long ones are cut, and say how to get the rest.

use serde_json::Value;

/// The most characters of a document; clients warn at about ten thousand tokens.
const DOCUMENT: usize = 30_000;

/// The most characters of a text.
const TEXT: usize = 8_000;

/// How long texts and lists in a document may be; the first pair with which it fits is taken.
const STEPS: [(usize, usize); 5] = [(4_000, 200), (1_000, 50), (300, 20), (200, 10), (100, 5)];

/// The number of fields that an object keeps at least.
const FIELDS: usize = 60;

/// Shortens long texts and lists of a document until it fits, and notes in `cut` which command prints all of it. Lists keep their
/// beginning.
pub(super) fn document(whole: Value, command: &str) -> Value {
    if length(&whole) <= DOCUMENT {
        return whole;
    }
    let shortened = |(text, list)| {
        let mut document = whole.clone();
        shorten(&mut document, text, list);
        document["cut"] = format!("long texts and lists are cut; `{command}` prints all of it").into();
        document
    };
    let mut steps = STEPS.into_iter().map(shortened);
    let fits = |document: &Value| length(document) <= DOCUMENT;
    steps.find(fits).unwrap_or_else(|| shortened(STEPS[STEPS.len() - 1]))
}

/// Cuts a text at the end of a line, and names the command that prints all of it.
pub(super) fn text(whole: &str, command: &str) -> String {
    if whole.chars().count() <= TEXT {
        return whole.to_owned();
    }
    let beginning = first(whole, TEXT);
    // A line that is longer than a quarter of it is cut within.
    let end = beginning.rfind('\n').filter(|end| *end > beginning.len() / 4 * 3).unwrap_or(beginning.len());
    format!("{}\n[cut; `{command}` prints all of it]\n", &beginning[..end])
}

fn length(value: &Value) -> usize {
    value.to_string().chars().count()
}

fn shorten(value: &mut Value, longest_text: usize, longest_list: usize) {
    match value {
        Value::String(text) if text.chars().count() > longest_text => {
            *text = format!("{} … [cut]", first(text, longest_text));
        }
        Value::Array(items) => {
            items.truncate(longest_list);
            items.iter_mut().for_each(|item| shorten(item, longest_text, longest_list));
        }
        Value::Object(fields) => {
            // The fields of a format are fewer than these; names in a log may be more.
            let names: Vec<String> = fields.keys().skip(longest_list.max(FIELDS)).cloned().collect();
            names.iter().for_each(|name| drop(fields.shift_remove(name)));
            fields.values_mut().for_each(|field| shorten(field, longest_text, longest_list));
        }
        _ => {}
    }
}

/// The first characters of a text.
fn first(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fits_is_left_as_it_is() {
        let short = json!({"version": 1, "log_tail": "x".repeat(20_000)});
        assert_eq!(document(short.clone(), "ar show 7"), short);
        assert_eq!(text("all of it\n", "ar brief"), "all of it\n");
    }

    #[test]
    fn long_texts_and_lists_are_cut_and_the_command_that_prints_them_is_named() {
        let long =
            json!({"version": 1, "id": 7, "diff_text": "é".repeat(50_000), "runs": vec![json!({"seconds": 1}); 500]});
        let cut = document(long, "ar show 7 --format json");
        assert_eq!(cut["id"], 7);
        assert!(cut["cut"].as_str().unwrap().contains("`ar show 7 --format json`"));
        assert!(cut["diff_text"].as_str().unwrap().ends_with("é … [cut]"));
        assert_eq!(cut["runs"].as_array().unwrap().len(), 200);
        assert!(length(&cut) <= DOCUMENT);
    }

    #[test]
    fn a_list_of_many_records_keeps_its_beginning() {
        let records: Vec<Value> = (0..900).map(|id| json!({"id": id, "reason": "r".repeat(900)})).collect();
        let cut = document(json!({"version": 1, "experiments": records}), "ar log --format json");
        let ids: Vec<_> = cut["experiments"].as_array().unwrap().iter().map(|record| record["id"].clone()).collect();
        assert_eq!((ids.len(), &ids[0]), (20, &json!(0)), "the first step that fits");
    }

    #[test]
    fn a_document_of_many_fields_and_a_text_of_one_line_fit() {
        let metrics: serde_json::Map<_, _> = (0..5_000).map(|n| (format!("metric {n}"), json!(n))).collect();
        let cut = document(json!({"version": 1, "id": 7, "metrics": metrics}), "ar show 7 --format json");
        assert!(length(&cut) <= DOCUMENT && cut["id"] == 7 && cut["metrics"]["metric 0"] == 0, "{cut}");
        let line = text(&format!("heading\n{}", "x".repeat(20_000)), "ar brief");
        assert!(line.chars().count() > TEXT, "little was left: {line}");
    }

    #[test]
    fn a_text_is_cut_at_the_end_of_a_line() {
        let lines: String = (0..3_000).map(|line| format!("line {line}\n")).collect();
        let cut = text(&lines, "ar log");
        assert!(cut.ends_with("\n[cut; `ar log` prints all of it]\n"), "{}", &cut[cut.len() - 80..]);
        assert!(lines.starts_with(cut.split_once("\n[cut").unwrap().0));
        assert!(cut.chars().count() < TEXT + 50);
    }
}
