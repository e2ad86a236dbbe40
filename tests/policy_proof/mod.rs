//! What the tests of the policy engine share: a slow twin that shares no code with it, and both its ends.

#![allow(dead_code, reason = "each test uses a part")]

pub mod engine;
pub mod fixture;
pub mod naive;
pub mod random;
pub mod random_policy;
