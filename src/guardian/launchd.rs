//! The property list of launchd on macOS.

use std::path::{Path, PathBuf};

use super::service::Service;

/// The name of the job.
pub(super) const LABEL: &str = "autoresearch.guard";

/// The property list, below the home folder.
pub(super) fn file(home: &Path) -> PathBuf {
    home.join("Library/LaunchAgents").join(format!("{LABEL}.plist"))
}

/// The job that starts one patrol after the other.
pub(super) fn property_list(service: &Service, errors: &str) -> String {
    let words = [&service.program].into_iter().chain(&service.arguments);
    let words: String = words.map(|word| format!("\t\t<string>{}</string>\n", escaped(word))).collect();
    let variables: String = service
        .variables
        .iter()
        .map(|(name, value)| format!("\t\t<key>{}</key>\n\t\t<string>{}</string>\n", escaped(name), escaped(value)))
        .collect();
    format!(
        include_str!("patrol.plist"),
        label = LABEL,
        words = words,
        variables = variables,
        seconds = service.every.as_secs(),
        errors = escaped(errors)
    )
}

/// A text between two tags.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_would_read_is_escaped() {
        let service = Service::odd();
        let text = property_list(&service, "/log & more");
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let list = roxmltree::Document::parse_with_options(&text, options).unwrap();
        let strings: Vec<&str> =
            list.descendants().filter(|node| node.has_tag_name("string")).filter_map(|node| node.text()).collect();
        let mut expected = vec![LABEL, &service.program];
        expected.extend(service.arguments.iter().map(String::as_str));
        expected.extend([service.variables[0].1.as_str(), "/log & more"]);
        assert_eq!(strings, expected);
        assert_eq!(list.descendants().find(|node| node.has_tag_name("integer")).unwrap().text(), Some("3600"));
    }
}
