//! What netfilter has in this network namespace, asked of the kernel itself: which chains of nf_tables, which tables of the
//! older ip_tables. Looking changes nothing, and a kernel without netfilter simply has none.

use std::fs;
use std::io;

use netlink_packet_core::NlasIterator;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};

use super::netlink::NetlinkError;

/// `NFNL_SUBSYS_NFTABLES` in the upper byte, `NFT_MSG_GETCHAIN` in the lower one.
const GET_CHAIN: u16 = 10 << 8 | 4;
/// `NFPROTO_IPV4`.
const IPV4: u8 = 2;
/// Attributes of a chain: `NFTA_CHAIN_TABLE`, `NFTA_CHAIN_NAME`.
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
/// `struct nlmsghdr`, `struct nfgenmsg`.
const HEADER_BYTES: usize = 16;
const FAMILY_BYTES: usize = 4;
/// The kernel fills at most 32 KiB of a dump into one datagram.
const BUFFER_BYTES: usize = 64 * 1024;

/// A chain of IPv4 in nf_tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The table it is in.
    pub table: String,
    /// Its name.
    pub name: String,
}

/// Every chain of IPv4 in nf_tables; none where the kernel has no nf_tables.
///
/// # Errors
/// When the kernel refuses, as without `CAP_NET_ADMIN`.
pub fn chains() -> Result<Vec<Chain>, NetlinkError> {
    let refused = |source| NetlinkError::Refused { attempt: "list chains of nf_tables".to_owned(), source, detail: None };
    match dump_chains() {
        Err(error) if is_no_nf_tables(&error) => Ok(Vec::new()),
        other => other.map_err(refused),
    }
}

/// The tables that ip_tables, the predecessor of nf_tables, has in this namespace; none where it may not be told.
#[must_use]
pub fn legacy_tables() -> Vec<String> {
    // Asking the program instead would make the tables.
    let names = fs::read_to_string("/proc/thread-self/net/ip_tables_names").unwrap_or_default();
    names.lines().map(str::to_owned).collect()
}

/// Whether ip_tables, the predecessor of nf_tables, is in the kernel.
#[must_use]
pub fn has_legacy() -> bool {
    fs::exists("/proc/thread-self/net/ip_tables_names").unwrap_or_default()
}

fn dump_chains() -> io::Result<Vec<Chain>> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&request(), 0)?;
    let mut found = Vec::new();
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    loop {
        buffer.clear();
        match socket.recv(&mut buffer, 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if take(&buffer, &mut found)? {
            return Ok(found);
        }
    }
}

fn request() -> Vec<u8> {
    let length = u32::try_from(HEADER_BYTES + FAMILY_BYTES).unwrap_or_default();
    let flags = u16::try_from(libc::NLM_F_REQUEST | libc::NLM_F_DUMP).unwrap_or_default();
    let mut bytes = Vec::with_capacity(HEADER_BYTES + FAMILY_BYTES);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(GET_CHAIN.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    // Sequence number and port; the socket is used once.
    bytes.extend([0; 8]);
    bytes.extend([IPV4, 0, 0, 0]);
    bytes
}

/// Takes the chains out of one datagram; whether it was the last.
fn take(mut bytes: &[u8], found: &mut Vec<Chain>) -> io::Result<bool> {
    let number = |bytes: &[u8], at: usize| bytes.get(at..)?.first_chunk().map(|four| u32::from_ne_bytes(*four));
    while let (Some(length), Some(kind)) = (number(bytes, 0), bytes.get(4..6)) {
        let length = length as usize;
        let body = bytes.get(HEADER_BYTES..length).ok_or(io::ErrorKind::InvalidData)?;
        match i32::from(u16::from_ne_bytes([kind[0], kind[1]])) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                let code = number(body, 0).map_or(0, u32::cast_signed);
                return if code == 0 { Ok(true) } else { Err(io::Error::from_raw_os_error(code.saturating_abs())) };
            }
            _ => found.extend(chain(body)),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn chain(body: &[u8]) -> Option<Chain> {
    let text = |wanted: u16| {
        let attributes = NlasIterator::new(body.get(FAMILY_BYTES..)?);
        let found = attributes.flatten().find(|attribute| attribute.kind() == wanted)?;
        Some(String::from_utf8_lossy(found.value()).trim_end_matches('\0').to_owned())
    };
    Some(Chain { table: text(CHAIN_TABLE)?, name: text(CHAIN_NAME)? })
}

/// No such protocol, or nobody behind it.
fn is_no_nf_tables(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT | libc::EOPNOTSUPP | libc::EINVAL | libc::ECONNREFUSED | libc::ENOENT)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::capability;
    use crate::sys::netns::Netns;
    use crate::sys::program;

    #[test]
    fn chains_are_told_as_they_are() {
        let name = format!("felt-chains-{}", std::process::id());
        let netns = Netns::create(&name).unwrap();
        let seen = netns.run_in(|| {
            let before = (chains().unwrap(), legacy_tables());
            let chains_to_make: String = (0..500).map(|n| format!("add chain ip many chain-{n}\n")).collect();
            let script = format!("add table ip many\n{chains_to_make}add table ip6 other\nadd chain ip6 other x\n");
            program::run("nft", &["-f", "-"], &script).unwrap();
            let after = chains().unwrap();
            capability::drop_all_of_thread().unwrap();
            (before, after, chains())
        });
        Netns::delete(&name).unwrap();
        let (before, after, refused) = seen.unwrap();
        assert_eq!(before, (Vec::new(), Vec::new()));
        let expected = (0..500).map(|n| Chain { table: "many".to_owned(), name: format!("chain-{n}") });
        assert_eq!(after, expected.collect::<Vec<_>>());
        assert_eq!(refused.unwrap_err().errno(), Some(libc::EPERM));
    }

    #[test]
    fn unreadable_datagrams_end_the_dump() {
        let mut found = Vec::new();
        assert!(!take(&[], &mut found).unwrap());
        let mut long = request();
        long[0] = 200;
        assert_eq!(take(&long, &mut found).unwrap_err().kind(), io::ErrorKind::InvalidData);
        long[0] = 4;
        assert_eq!(take(&long, &mut found).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(found.is_empty());
    }
}
