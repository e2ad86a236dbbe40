//! Ports on the operating system: a TUN queue and a UDP socket, with the kernel's offloads where it has them.
//!
//! Nothing here waits (but for a full send buffer, once a batch, at most a millisecond): a worker polls the descriptors and
//! drains the ports until they have nothing more.
//!
//! Offloads can fail at any time: a device on the way out may not be able to cut trains, a kernel may not take super-packets.
//! Then what was in hand goes the plain way, in order, and the offload is off for this port from then on. Whoever made the
//! port keeps a clone of its standing ([`TunStanding`], [`UdpStanding`]) to see that and to say it once.
//! How to fall back is decided in `supers`, `back` and `trains`, against traits that the tests fulfil with kernels that refuse.

mod back;
mod probe;
mod standing;
mod supers;
mod trains;
mod tun;
mod udp;

pub use standing::{Switch, TunStanding, UdpStanding};
pub use tun::{OsTun, TurnLimit};
pub use udp::{OsUdp, UdpOffloads};
