//! Values as a user writes them.

use std::path::PathBuf;
use std::str::FromStr;

/// A file for a chart; its extension says as what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChartFile {
    pub(super) path: PathBuf,
    pub(super) is_png: bool,
}

impl FromStr for ChartFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = PathBuf::from(text);
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_lowercase();
        match extension.as_str() {
            "svg" | "png" => Ok(ChartFile { is_png: extension == "png", path }),
            _ => Err("a chart is written as .svg or .png".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_what_its_extension_says() {
        let is_png = |text: &str| text.parse::<ChartFile>().map(|file| file.is_png).ok();
        assert_eq!(
            ["a.svg", "b/c.PNG", "a.pdf", "svg", ".png"].map(is_png),
            [Some(false), Some(true), None, None, None]
        );
    }
}
