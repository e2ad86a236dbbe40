//! Stopping a single thread of another process, as a kernel or a debugger may.
#![allow(unsafe_code, reason = "ptrace(2) has no safe wrapper here")]

use std::fs;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// A thread that stands still until this value goes.
pub struct StoppedThread {
    release: Option<Sender<()>>,
    tracer: Option<JoinHandle<()>>,
}

impl StoppedThread {
    /// Stops the thread called `name` of process `pid`.
    pub fn of(pid: u32, name: &str) -> Self {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let is_it = |path: &std::path::PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name);
        let found = tasks.map(|task| task.path()).find(is_it).unwrap_or_else(|| panic!("no thread {name}"));
        let tid: i32 = found.file_name().unwrap().to_str().unwrap().parse().unwrap();
        // Whoever attaches is the one who must detach, so all of it happens on one thread.
        let (release, released) = channel::<()>();
        let (ready, stopped) = channel();
        let tracer = std::thread::spawn(move || {
            ready.send(attach(tid)).unwrap();
            let _ = released.recv();
            // SAFETY: PTRACE_DETACH reads no memory of ours; the thread is traced by this one.
            unsafe { libc::ptrace(libc::PTRACE_DETACH, tid, 0, 0) };
        });
        assert!(stopped.recv().unwrap(), "cannot stop thread {tid}: {}", std::io::Error::last_os_error());
        Self { release: Some(release), tracer: Some(tracer) }
    }
}

impl Drop for StoppedThread {
    fn drop(&mut self) {
        drop(self.release.take());
        let _ = self.tracer.take().map(JoinHandle::join);
    }
}

fn attach(tid: i32) -> bool {
    // SAFETY: PTRACE_ATTACH takes a thread id and touches no memory of ours.
    if unsafe { libc::ptrace(libc::PTRACE_ATTACH, tid, 0, 0) } != 0 {
        return false;
    }
    let mut status = 0;
    // SAFETY: `status` is a number that lives through the call.
    unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL) == tid && libc::WIFSTOPPED(status) }
}
