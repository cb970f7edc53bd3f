//! The chart as a PNG picture.

use std::io::{self, Read};
use std::sync::Arc;

use flate2::read::ZlibDecoder;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// Pixels along each side of a unit of the drawing; text stays sharp on high-density screens.
const SCALE: f32 = 2.0;

/// DejaVu Sans, which `build.rs` halves.
static FONT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/font.zlib"));

/// The reason that there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// The drawing cannot be read.
    #[error("cannot read the drawing")]
    Drawing(#[from] resvg::usvg::Error),
    /// The font in the program cannot be unpacked.
    #[error("cannot unpack the font")]
    Font(#[from] io::Error),
    /// It has no size, or one that there is no memory for.
    #[error("not enough memory for the picture")]
    Size,
    /// It cannot be written as PNG.
    #[error("cannot encode the picture: {0}")]
    Encoding(String),
}

/// Turns the drawing of a chart into a PNG picture.
///
/// Its letters are those of DejaVu Sans, which is in the program; where the text has characters beyond ASCII, fonts of
/// the system are taken for those that it lacks.
pub fn chart_png(svg: &str) -> Result<Vec<u8>, PngError> {
    let mut font = Vec::new();
    ZlibDecoder::new(FONT).read_to_end(&mut font)?;
    let mut fonts = fontdb::Database::new();
    // A bold one would make the program larger by 0.7 MB for the sake of a title.
    fonts.load_font_source(fontdb::Source::Binary(Arc::new(font)));
    fonts.set_sans_serif_family("DejaVu Sans");
    if !svg.is_ascii() {
        fonts.load_system_fonts();
    }
    let tree = Tree::from_str(svg, &Options { fontdb: Arc::new(fonts), ..Options::default() })?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or(PngError::Size)?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or(PngError::Size)?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PngError::Encoding(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Direction, Outcome};
    use crate::report::chart::palette::ChartStyle;
    use crate::report::chart::series::test_series;
    use crate::report::chart::svg::chart_svg;

    #[test]
    fn a_picture_is_a_png_with_letters_whatever_language_its_text_is_in() {
        let series = test_series(Direction::Lower, &[(Outcome::Keep, Some("1.5"))]);
        let picture = |title: &str| chart_png(&chart_svg(&series, title, ChartStyle::Light)).unwrap();
        for title in ["学習率 \u{5d0}\u{5d1} \u{1f600} \u{e000} a\u{301}", ""] {
            let png = picture(title);
            assert_eq!(
                (&png[..8], &png[16..24]),
                (b"\x89PNG\r\n\x1a\n".as_slice(), [0, 0, 9, 96, 0, 0, 4, 176].as_slice())
            );
        }
        assert_ne!(picture("a"), picture("b"));
        assert!(chart_png("no drawing").is_err());
    }
}
