//! Records and ledger rows as people and programs want to see them: tables, JSON, CSV, Markdown.
//!
//! Everything here turns plain data into text; nothing reads a file or prints.

mod activity;
mod analysis;
mod axes;
mod chart;
mod escalation;
mod experiments;
mod exported;
mod grid;
mod html;
mod lists;
mod render;
mod sections;
mod sessions;
mod spending;
mod status;
mod text;
mod watch;

pub use analysis::Report;
pub use axes::ArtifactData;
pub use chart::{
    ChartStyle, Edge, Glyphs, Limits, Mark, MarkKind, Overlaid, Panel, PngError, Series, Step, chart_png, chart_svg,
    chart_text, overlay_svg,
};
pub use escalation::{checkpoint_text, escalation_text, flag_text};
pub use experiments::{Column, ColumnError, compared_grid, compared_json, experiments_grid, record_grid};
pub use exported::{
    exported_grid, imported_grid, ledger_doubts, ledger_grid, ledger_json, record_json, records_json, select_rows,
};
pub use grid::{Align, Format, Grid};
pub use html::{
    Detail, Excerpt, LivePart, LiveSession, PageRoom, html_report, html_sessions, live_course, live_experiment,
    live_now, live_page, live_policy,
};
pub use lists::{
    findings_grid, findings_json, findings_text, ideas_grid, ratings_grid, render_weights, weights_json, words_grid,
};
pub use render::{render_report, report_grid};
pub use sessions::{Sessions, overlaid, overlay_title, render_sessions};
pub use status::{SessionStatus, render_all_status, render_status};
pub use text::{columns, fit, in_ascii, wrap};
pub use watch::{Scene, Screen, Scroll, draw};
