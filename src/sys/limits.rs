//! What the kernel lets this process have.

use std::io;

/// Raises the number of descriptors this process may have open from the soft limit to the hard one; how many that is.
///
/// The soft limit is 1024 on most systems, for the sake of programs that use `select`, which take no higher numbers.
///
/// # Errors
/// When the kernel refuses, which a process that asks for no more than its hard limit does not meet outside of sandboxes.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit writes one rlimit, which `limit` is.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: setrlimit reads one rlimit, which `limit` is.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_the_hard_one_afterwards() {
        let raised = raise_open_files().unwrap();
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let shown: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert_eq!(shown, [raised, raised], "{line}");
    }
}
