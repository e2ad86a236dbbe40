//! What the calling thread is allowed to do.

use std::fs;
use std::io;

/// `CAP_NET_ADMIN`: make devices, set addresses and routes, exceed socket buffer limits.
const NET_ADMIN: u32 = 12;
/// `CAP_SYS_ADMIN`: make and enter namespaces.
const SYS_ADMIN: u32 = 21;

/// Whether the calling thread has `CAP_NET_ADMIN` in force; `None` when `/proc` does not say.
///
/// It counts in the user namespace that owns the network namespace: inside an unprivileged container this may say yes
/// where the kernel says no.
pub fn has_net_admin() -> Option<bool> {
    in_force(&own_status()?, NET_ADMIN)
}

/// Whether the calling thread has `CAP_SYS_ADMIN` in force; `None` when `/proc` does not say.
pub fn has_sys_admin() -> Option<bool> {
    in_force(&own_status()?, SYS_ADMIN)
}

/// Takes every capability out of force and reach, for the calling thread only: one that merely moves packets through
/// descriptors that are open already needs none.
pub fn drop_all_of_thread() -> io::Result<()> {
    /// `_LINUX_CAPABILITY_VERSION_3`: three masks of two words each.
    const VERSION: u32 = 0x2008_0522;
    let header: [u32; 2] = [VERSION, 0];
    let masks = [0u32; 6];
    // SAFETY: capset(2) reads a header of two words (version, and 0 for the calling thread) and six words of masks; both
    // arrays live through the call.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), masks.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn own_status() -> Option<String> {
    fs::read_to_string("/proc/thread-self/status").ok()
}

fn in_force(status: &str, capability: u32) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask >> capability & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_mask_decides() {
        let status = "CapPrm:\t000001ffffffffff\nCapEff:\t0000000000001000\n";
        assert_eq!((in_force(status, NET_ADMIN), in_force(status, SYS_ADMIN)), (Some(true), Some(false)));
        assert_eq!(in_force("CapEff:\tzz\n", NET_ADMIN), None);
        assert_eq!(in_force("", NET_ADMIN), None);
    }

    #[test]
    fn root_has_both() {
        assert_eq!((has_net_admin(), has_sys_admin()), (Some(true), Some(true)));
    }

    #[test]
    fn dropping_concerns_one_thread() {
        let inside = || {
            drop_all_of_thread().unwrap();
            (has_net_admin(), has_sys_admin())
        };
        assert_eq!(std::thread::spawn(inside).join().unwrap(), (Some(false), Some(false)));
        assert_eq!(has_net_admin(), Some(true));
    }
}
