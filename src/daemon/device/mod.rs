//! The overlay's TUN device: made or taken over, and brought into the state a node needs. Idempotent: what is right
//! already is not touched, so a device that root prepared serves a daemon without privileges.
//!
//! A device left by an earlier run is reused, with whatever addresses outside the overlay network it has got; addresses of
//! an earlier subnet are replaced. The device outlives the process, so that a daemon killed and started again finds its
//! device, address and routes where they were, and overlay traffic never falls back to the default route meanwhile; a clean
//! end calls [`OverlayDevice::remove`].
//!
//! Before anything is touched, it is looked whether the overlay network is somebody else's on this host.

mod overlap;
mod overlay_device;
mod settle;

pub use overlay_device::{DeviceError, OverlayDevice, Plan, foresee, is_name_by};
pub use settle::restore;
