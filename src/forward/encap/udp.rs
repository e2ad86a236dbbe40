//! Flannel's udp encapsulation: the payload is the inner packet, and nothing else.

use super::Encapsulation;
use crate::forward::DropReason;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub enum Udp {}

impl Encapsulation for Udp {
    const OVERHEAD: u16 = 0;

    #[inline]
    fn encap(_: &mut [u8]) {}

    #[inline]
    fn decap(_: &[u8]) -> Result<usize, DropReason> {
        Ok(0)
    }
}
