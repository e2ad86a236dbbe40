//! Why a flow is judged as it is, for people: step by step, over the objects as they are known, without anything compiled.
//!
//! Slow, and independent of the compiled form on purpose: tests hold each against the other.

mod evaluate;
mod explanation;
mod text;

pub use explanation::{Direction, End, Explanation, PolicyStep, RuleOutcome, RuleStep, Selected, Side, Step};
