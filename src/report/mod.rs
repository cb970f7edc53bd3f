//! Records and ledger rows as people and programs want to see them: tables, JSON, CSV, Markdown.
//!
//! Everything here turns plain data into text; nothing reads a file or prints.

mod analysis;
mod artifact;
mod axes;
mod beside;
mod caps;
mod chart;
mod checkpoint;
mod columns;
mod compared;
mod cost;
mod doing;
mod each;
mod escalation;
mod experiments;
mod exported;
mod findings;
mod grid;
mod headline;
mod html;
mod ideas;
mod json;
mod lanes;
mod ledger;
mod messages;
mod patterns;
mod point;
mod ratings;
mod render;
mod reviews;
mod safe;
mod sections;
mod session_status;
mod sessions;
mod sources;
mod status;
mod styled;
mod verified;
mod watch;
mod weights;
mod width;

pub use analysis::Report;
pub use artifact::ArtifactData;
pub use chart::{
    ChartStyle, Edge, Glyphs, Limits, Mark, MarkKind, Overlaid, Panel, PngError, Series, Step, chart_png, chart_svg,
    chart_text, overlay_svg,
};
pub use checkpoint::checkpoint_text;
pub use columns::{Column, ColumnError};
pub use compared::{compared_grid, compared_json};
pub use escalation::{escalation_text, flag_text};
pub use experiments::{experiments_grid, record_grid};
pub use exported::{exported_grid, imported_grid, record_json, records_json};
pub use findings::{findings_grid, findings_json, findings_text};
pub use grid::{Align, Format, Grid};
pub use html::{
    Detail, Excerpt, LivePart, LiveSession, Room, html_report, html_sessions, live_course, live_experiment, live_now,
    live_page, live_policy,
};
pub use ideas::ideas_grid;
pub use ledger::{ledger_doubts, ledger_grid, ledger_json, select_rows};
pub use messages::words_grid;
pub use ratings::ratings_grid;
pub use render::{render_report, report_grid};
pub use session_status::SessionStatus;
pub use sessions::{Sessions, overlaid, overlay_title, render_sessions};
pub use status::{render_all_status, render_status};
pub use watch::{Scene, Screen, Scroll, draw};
pub use weights::{render_weights, weights_json};
pub use width::{columns, fit, in_ascii, wrap};
