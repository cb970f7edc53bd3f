//! What a GPU is doing.

/// How much of a GPU is in use, by whomever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuLoad {
    /// The model.
    pub name: String,
    /// Memory in use, in bytes.
    pub used: u64,
    /// Memory that it has, in bytes.
    pub total: u64,
    /// The share of the last moment in which it was at work, in percent; absent where it does not tell.
    pub percent: Option<u32>,
}
