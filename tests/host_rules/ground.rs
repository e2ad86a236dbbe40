//! Labs whose daemons find only certain programs, and what can be seen of packets and rules in them.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use felt::daemon::rules::Names;
use felt::lab::{EphemeralLab, Lab, LabPlan, Node};
use felt::sys::netns::Netns;
use felt::sys::program;

use crate::support::{plan, up};

/// Everything by which rules can be put there.
pub const PROGRAMS: [&str; 10] = [
    "nft",
    "iptables",
    "iptables-save",
    "iptables-restore",
    "iptables-nft",
    "iptables-nft-save",
    "iptables-nft-restore",
    "iptables-legacy",
    "iptables-legacy-save",
    "iptables-legacy-restore",
];

/// A folder of programs, and a `felt` that finds no others.
pub struct Host {
    folder: tempfile::TempDir,
}

impl Host {
    /// Has these programs of the machine, by the names they have there.
    pub fn with(programs: &[&str]) -> Self {
        let host = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(host.programs()).unwrap();
        for program in programs {
            let found = ["/usr/sbin", "/sbin", "/usr/bin"].iter().map(|folder| Path::new(folder).join(program));
            let found = found.clone().find(|path| path.exists()).unwrap_or_else(|| panic!("{program} is not installed"));
            symlink(found, host.programs().join(program)).unwrap();
        }
        let script =
            format!("#!/bin/sh\nPATH={}\nexport PATH\nexec {} \"$@\"\n", host.programs().display(), env!("CARGO_BIN_EXE_felt"));
        executable(&host.felt(), &script);
        host
    }

    /// Has a program of this name that is this shell script.
    pub fn and(self, program: &str, script: &str) -> Self {
        executable(&self.programs().join(program), &format!("#!/bin/sh\n{script}\n"));
        self
    }

    /// The `felt` to run.
    pub fn felt(&self) -> PathBuf {
        self.folder.path().join("felt")
    }

    /// A folder for the test's own files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A plan whose daemons run on such hosts with these arguments.
    pub fn plan(&self, test: &str, nodes: u16, args: &[&str]) -> LabPlan {
        let run_args = args.iter().map(ToString::to_string).collect();
        LabPlan { felt: self.felt(), run_args, ..plan(test, nodes) }
    }

    /// A lab of that.
    pub fn lab(&self, test: &str, nodes: u16, args: &[&str]) -> EphemeralLab {
        up(self.plan(test, nodes, args))
    }

    fn programs(&self) -> PathBuf {
        self.folder.path().join("programs")
    }
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// What our table and chains are called on a node.
pub fn names(node: Node<'_>) -> Names {
    Names::of(&node.subnet_file())
}

/// Runs a program in a namespace.
pub fn inside(netns: &Netns, line: &str) -> Result<String, program::ProgramError> {
    let words: Vec<&str> = line.split(' ').collect();
    netns.run_in(|| program::run(words[0], &words[1..], "")).unwrap()
}

/// A whole ruleset, as nft lists it; iptables' in nf_tables is part of it.
pub fn ruleset(netns: &Netns) -> String {
    inside(netns, "nft -s list ruleset").unwrap()
}

/// Sends a packet from one place to another and back; as who the other end saw the sender, if both arrived.
pub fn seen_as(from: &Netns, bind: Ipv4Addr, to: &Netns, address: Ipv4Addr) -> Option<Ipv4Addr> {
    const TRIES: u8 = 20;
    const MOMENT: Duration = Duration::from_millis(150);
    let target = SocketAddrV4::new(address, 5300);
    let open = |netns: &Netns, at: SocketAddrV4| {
        let socket = netns.run_in(|| UdpSocket::bind(at)).unwrap().unwrap();
        socket.set_read_timeout(Some(MOMENT)).unwrap();
        socket
    };
    let (there, here) = (open(to, target), open(from, SocketAddrV4::new(bind, 0)));
    let mut buffer = [0; 16];
    for number in 0..TRIES {
        // Refused while the other end is not reached.
        let _ = here.send_to(&[number], target);
        let Ok((1, seen)) = there.recv_from(&mut buffer) else { continue };
        there.send_to(&[number], seen).unwrap();
        if let Ok((1, answered)) = here.recv_from(&mut buffer)
            && answered == target.into()
        {
            let std::net::IpAddr::V4(seen) = seen.ip() else { unreachable!("all is IPv4 here") };
            return Some(seen);
        }
    }
    None
}

/// The first address of a node's subnet, which its TUN has.
pub fn tunnel_address(lab: &Lab, number: u16) -> Ipv4Addr {
    lab.node(number).unwrap().subnet().unwrap().unwrap().subnet.base()
}
