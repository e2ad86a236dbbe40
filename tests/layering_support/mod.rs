//! Reads Rust sources as text, well enough to know what they name.

pub mod code;
pub mod paths;
pub mod rules;
