//! Which inner packets may travel on as one super-packet, and what the super-packet's header says.
//!
//! A super-packet is a promise that cutting it gives back the packets it was made of, to the byte. So packets are merged only
//! when they differ in nothing but what cutting restores: lengths, TCP sequence number, IPv4 identification, checksums, and
//! PSH and FIN of the last. The kernel completes checksums of what it cuts, so a packet whose checksum is wrong is never
//! merged: it would come out with a right one.
//!
//! One exception, harmless by RFC 6864 section 4.1: datagrams that may not be fragmented often all carry the same
//! identification, mostly 0. They are merged too, and are numbered one by one when the super-packet is cut.
//!
//! Decisions over byte slices, nothing else: where the bytes lie and what is written when is the business of
//! [`forward::merge`](crate::forward::merge).

mod key;
mod parts;
mod run;
#[cfg(test)]
mod tests;
mod verify;

pub use key::{Ends, Flow};
pub use run::{Fit, Run, SUPER_BYTES, TCP_SEGMENTS, UDP_SEGMENTS};
