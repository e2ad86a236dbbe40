//! Keeping everything a test starts on one processor.

/// Puts this thread, and with it all threads and processes it will start, on the processor it is on.
///
/// A thread that moves between two writes leaves the first packet in the old processor's backlog, where veth put it, and may
/// see the second one overtake it. That is the kernel's doing, with any program; on one processor only a flow that is shared
/// by two workers can be out of order.
#[expect(unsafe_code, reason = "nothing else puts a thread on a processor")]
pub fn pin_to_one_cpu() {
    // SAFETY: sched_getcpu takes nothing; a zeroed set is an empty one; CPU_SET and sched_setaffinity are given that set and
    // its size, and the thread id 0 means the caller.
    let pinned = unsafe {
        let cpu = usize::try_from(libc::sched_getcpu()).unwrap();
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    assert_eq!(pinned, 0, "{}", std::io::Error::last_os_error());
}
