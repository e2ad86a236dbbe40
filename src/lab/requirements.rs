//! What a machine must offer before a lab is begun, so that nothing is half-built for want of it.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{LabError, LabPlan, RegistryKind};
use crate::sys::capability;

const TUN: &str = "/dev/net/tun";

/// Checks that this process may build the lab and has what it takes.
///
/// # Errors
/// [`LabError::NotPermitted`] or [`LabError::NoProgram`], saying what to do.
pub(super) fn check(plan: &LabPlan) -> Result<(), LabError> {
    check_capabilities()?;
    if plan.registry == RegistryKind::Absent {
        return Ok(());
    }
    check_tun()?;
    if !is_program(&plan.felt) {
        let remedy = "build it with `cargo build`, or name another".to_owned();
        return Err(LabError::NoProgram { program: "felt".to_owned(), place: plan.felt.display().to_string(), remedy });
    }
    if plan.registry == RegistryKind::Etcd { etcd().map(drop) } else { Ok(()) }
}

/// The etcd server's binary.
pub(super) fn etcd() -> Result<PathBuf, LabError> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|directory| directory.join("etcd")).find(|file| is_program(file)).ok_or_else(|| {
        let remedy = "install it (Debian: `apt install etcd-server`), or leave out --etcd".to_owned();
        LabError::NoProgram { program: "etcd".to_owned(), place: "any directory of PATH".to_owned(), remedy }
    })
}

fn check_capabilities() -> Result<(), LabError> {
    let needed = [
        ("CAP_NET_ADMIN", "to make links and routes in its namespaces", capability::has_net_admin()),
        ("CAP_SYS_ADMIN", "to make network namespaces", capability::has_sys_admin()),
    ];
    // Where /proc does not say, the kernel will.
    match needed.iter().find(|(_, _, held)| *held == Some(false)) {
        None => Ok(()),
        Some((name, purpose, _)) => Err(LabError::NotPermitted {
            missing: format!("{name} {purpose}"),
            remedy: "run it as root (`sudo felt lab …`); in a container, start that privileged".to_owned(),
        }),
    }
}

fn check_tun() -> Result<(), LabError> {
    let opened = fs::OpenOptions::new().read(true).write(true).open(TUN);
    let remedy = match opened {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            "it is missing: load the module with `modprobe tun`, or in a container pass `--device /dev/net/tun`".to_owned()
        }
        Err(error) => format!("opening it was refused: {error}"),
    };
    Err(LabError::NotPermitted { missing: format!("the device node {TUN}"), remedy })
}

fn is_program(path: &Path) -> bool {
    const ANY_EXECUTE: u32 = 0o111;
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & ANY_EXECUTE != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_binary_is_named_with_its_path() {
        let error = check(&LabPlan::new("/nowhere/felt".into())).unwrap_err();
        assert!(matches!(&error, LabError::NoProgram { place, .. } if place == "/nowhere/felt"), "{error}");
        assert!(!is_program(Path::new("/etc/passwd")) && !is_program(Path::new("/etc")) && is_program(Path::new("/bin/sh")));
    }
}
