//! Named network namespaces, the same ones that `ip netns` makes and shows.
//!
//! A name is a file in `/run/netns` with the namespace mounted on it. Beware of paths that mean the process and not the
//! thread: inside [`Netns::run_in`] use `/proc/thread-self/net`, not `/proc/net`, and netlink rather than `/sys/class/net`.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;

/// Where the names are.
const DIRECTORY: &str = "/run/netns";
/// The calling thread's own namespace, as a file.
const OWN: &str = "/proc/thread-self/ns/net";

/// A failed operation on a namespace.
#[derive(Debug, thiserror::Error)]
#[error("cannot {attempt}: {source}")]
pub struct NetnsError {
    attempt: String,
    source: io::Error,
}

impl NetnsError {
    /// What the system said.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

/// An open network namespace; lives on while any descriptor, name, device or process holds it.
#[derive(Debug)]
pub struct Netns {
    name: String,
    fd: OwnedFd,
}

impl Netns {
    /// Makes a new, empty namespace called `name`. Its loopback device is down.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken; needs `CAP_SYS_ADMIN`.
    pub fn create(name: &str) -> Result<Self, NetnsError> {
        let attempt = || format!("create network namespace {name}");
        let path = path_of(name).map_err(told(attempt))?;
        share_directory().map_err(told(attempt))?;
        OpenOptions::new().write(true).create_new(true).mode(0o000).open(&path).map_err(told(attempt))?;
        // A thread of its own, so that the caller stays where it is.
        let mounted = std::thread::scope(|scope| scope.spawn(|| mount_new(&path)).join());
        match mounted {
            Ok(Ok(())) => Self::open(name),
            Ok(Err(error)) => {
                let _ = fs::remove_file(&path);
                Err(told(attempt)(error))
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Opens the namespace called `name`.
    pub fn open(name: &str) -> Result<Self, NetnsError> {
        let attempt = || format!("open network namespace {name}");
        let file = path_of(name).and_then(File::open).map_err(told(attempt))?;
        Ok(Self { name: name.to_owned(), fd: file.into() })
    }

    /// The calling thread's namespace; its name is empty.
    pub fn current() -> Result<Self, NetnsError> {
        let file = File::open(OWN).map_err(told(|| "open this thread's network namespace".to_owned()))?;
        Ok(Self { name: String::new(), fd: file.into() })
    }

    /// Removes the name. The namespace itself goes when nothing uses it any more.
    pub fn delete(name: &str) -> Result<(), NetnsError> {
        let attempt = || format!("delete network namespace {name}");
        let path = path_of(name).map_err(told(attempt))?;
        unmount(&path).map_err(told(attempt))?;
        fs::remove_file(&path).map_err(told(attempt))
    }

    /// All names, sorted.
    pub fn list() -> Result<Vec<String>, NetnsError> {
        let entries = match fs::read_dir(DIRECTORY) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(told(|| "list network namespaces".to_owned())(error)),
        };
        let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// The name it was opened by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether both are the same namespace.
    pub fn is_same(&self, other: &Self) -> bool {
        identity(&self.fd).ok().zip(identity(&other.fd).ok()).is_some_and(|(one, two)| one == two)
    }

    /// Processes that live in it, as far as the caller may look.
    pub fn processes(&self) -> Result<Vec<u32>, NetnsError> {
        let attempt = || format!("list the processes of network namespace {}", self.name);
        let own = identity(&self.fd).map_err(told(attempt))?;
        let entries = fs::read_dir("/proc").map_err(told(attempt))?;
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let lives_here =
            |pid: &u32| fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|found| (found.dev(), found.ino()) == own);
        Ok(pids.filter(lives_here).collect())
    }

    /// Runs `work` in the namespace, on a thread of its own, and waits for it. A panic in it goes on here.
    pub fn run_in<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        let inside = || -> Result<T, NetnsError> {
            self.enter()?;
            Ok(work())
        };
        match std::thread::scope(|scope| scope.spawn(inside).join()) {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Moves the calling thread, and only it, into the namespace for good. Threads it starts afterwards begin there too.
    pub fn enter(&self) -> Result<(), NetnsError> {
        set_namespace(self.fd.as_fd()).map_err(told(|| format!("enter network namespace {}", self.name)))
    }

    /// Makes `command` start its process in the namespace. Only the network changes: mounts stay the caller's.
    pub fn place(&self, command: &mut Command) -> Result<(), NetnsError> {
        let attempt = || format!("start a process in network namespace {}", self.name);
        let fd = self.fd.try_clone().map_err(told(attempt))?;
        // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are allowed: it makes one
        // setns(2) and, on failure, reads errno; it neither allocates nor locks.
        unsafe { command.pre_exec(move || set_namespace(fd.as_fd())) };
        Ok(())
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn told(attempt: impl Fn() -> String) -> impl Fn(io::Error) -> NetnsError {
    move |source| NetnsError { attempt: attempt(), source }
}

fn path_of(name: &str) -> io::Result<PathBuf> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) || name.len() > 255 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a plain file name of at most 255 bytes"));
    }
    Ok(Path::new(DIRECTORY).join(name))
}

/// Makes `/run/netns` a shared mount, as iproute2 does, so that names made here are seen in every mount namespace and
/// unmounting one frees it everywhere.
fn share_directory() -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(DIRECTORY)?;
    let directory = File::open(DIRECTORY)?;
    // Two at once would mount twice, and the second mount hide the first one's names. iproute2 takes the same lock.
    directory.lock()?;
    let target = Path::new(DIRECTORY);
    match mount(None, target, libc::MS_SHARED | libc::MS_REC) {
        // Not yet a mount of its own.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            mount(Some(target), target, libc::MS_BIND | libc::MS_REC)?;
            mount(None, target, libc::MS_SHARED | libc::MS_REC)
        }
        other => other,
    }
}

/// Gives the calling thread a new namespace and mounts that on `path`.
fn mount_new(path: &Path) -> io::Result<()> {
    // SAFETY: unshare(2) takes flags only; CLONE_NEWNET changes the calling thread alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    mount(Some(Path::new(OWN)), path, libc::MS_BIND)
}

fn mount(source: Option<&Path>, target: &Path, flags: libc::c_ulong) -> io::Result<()> {
    let source = source.map(|path| CString::new(path.as_os_str().as_bytes())).transpose()?.unwrap_or_default();
    let target = CString::new(target.as_os_str().as_bytes())?;
    // SAFETY: the strings are NUL-terminated and live through the call; no data is passed for these flags.
    let result = unsafe { libc::mount(source.as_ptr(), target.as_ptr(), c"none".as_ptr(), flags, ptr::null()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes the namespace off its name; a file left behind with nothing mounted on it counts as done.
fn unmount(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the string is NUL-terminated and lives through the call.
    if unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(error) }
}

fn set_namespace(netns: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: setns(2) takes an open descriptor and a flag, and touches no memory of ours.
    if unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Device and inode: what tells namespaces apart.
fn identity(fd: &OwnedFd) -> io::Result<(u64, u64)> {
    let metadata = File::from(fd.try_clone()?).metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}
