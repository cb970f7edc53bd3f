//! The load of a GPU.

/// The use of a GPU by all processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuLoad {
    /// The model.
    pub name: String,
    /// Memory in use, in bytes.
    pub used: u64,
    /// Total memory, in bytes.
    pub total: u64,
    /// Its recent utilisation in percent; absent if the GPU does not report it.
    pub percent: Option<u32>,
}
