//! Offloads of network devices: what `ethtool -k` shows and `ethtool -K` switches.
//!
//! The kernel knows features by name; people and this module speak of [`Offload`]s, each a family of features, the same ones
//! that the `ethtool` program switches together. Only features that the device lets be changed are touched.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use socket2::{Domain, Socket, Type};

/// `ETHTOOL_GSTRINGS`: the names of a set.
const GET_STRINGS: u32 = 0x1b;
/// `ETHTOOL_GSSET_INFO`: how many names sets have.
const GET_SET_INFO: u32 = 0x37;
/// `ETHTOOL_GFEATURES`.
const GET_FEATURES: u32 = 0x3a;
/// `ETHTOOL_SFEATURES`.
const SET_FEATURES: u32 = 0x3b;
/// `ETH_SS_FEATURES`: the set of feature names.
const FEATURE_SET: u32 = 4;
/// `ETH_GSTRING_LEN`: bytes of a name, and the same in words.
const NAME_BYTES: usize = 32;
const NAME_WORDS: usize = NAME_BYTES / 4;

/// Work that a device may do for the network stack, or pretend to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Offload {
    /// `rx`: verifying checksums of what comes in.
    RxChecksum,
    /// `tx`: completing checksums of what goes out.
    TxChecksum,
    /// `sg`: sending packets that lie in pieces.
    ScatterGather,
    /// `tso`: cutting TCP super-packets into segments.
    TcpSegmentation,
    /// `gso`: letting the stack hold super-packets back until just before the driver.
    GenericSegmentation,
    /// `gro`: merging what comes in into super-packets.
    GenericReceive,
    /// `tx-udp-segmentation`: cutting UDP super-packets into datagrams.
    UdpSegmentation,
}

/// A request about offloads that failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum EthtoolError {
    /// The kernel said no.
    #[error("cannot {attempt}: {source}")]
    Refused { attempt: String, source: io::Error },
    /// The kernel said yes, and the feature is as it was: the device cannot do it, or another feature it needs is off.
    #[error("expected {device} to have {feature} {}, found it {} still", on(*wanted), on(!*wanted))]
    NotTaken { device: String, feature: String, wanted: bool },
}

/// Asks devices of one network namespace: that of the thread which opened it.
#[derive(Debug)]
pub struct Ethtool(OwnedFd);

/// One feature of one device.
struct Feature {
    name: String,
    active: bool,
    changeable: bool,
}

impl Offload {
    /// Whether the kernel's feature of this name belongs to it.
    fn covers(self, feature: &str) -> bool {
        match self {
            Self::RxChecksum => feature == "rx-checksum",
            Self::TxChecksum => feature.starts_with("tx-checksum-"),
            Self::ScatterGather => feature.starts_with("tx-scatter-gather"),
            Self::TcpSegmentation => feature.starts_with("tx-tcp") && feature.ends_with("-segmentation"),
            Self::GenericSegmentation => feature == "tx-generic-segmentation",
            Self::GenericReceive => feature == "rx-gro",
            Self::UdpSegmentation => feature == "tx-udp-segmentation",
        }
    }
}

impl Ethtool {
    /// Opens a way to ask, in the calling thread's network namespace.
    ///
    /// # Errors
    /// When no socket is to be had.
    pub fn open() -> Result<Self, EthtoolError> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).map_err(refused("open a socket to ask of devices"))?;
        Ok(Self(socket.into()))
    }

    /// Whether any feature of the offload is in force on `device`.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn is_on(&self, device: &str, offload: Offload) -> Result<bool, EthtoolError> {
        let features = self.features(device).map_err(refused(&format!("read the offloads of {device}")))?;
        Ok(features.iter().any(|feature| feature.active && offload.covers(&feature.name)))
    }

    /// Switches offloads of `device`, all at once. Nothing is asked of the kernel when they are as wanted already.
    ///
    /// # Errors
    /// When there is no such device, the caller may not, or the device stays as it was.
    pub fn switch(&self, device: &str, wanted: &[(Offload, bool)]) -> Result<(), EthtoolError> {
        let attempt = format!("switch the offloads of {device}");
        let features = self.features(device).map_err(refused(&attempt))?;
        let wish = |feature: &Feature| wanted.iter().find(|(offload, _)| offload.covers(&feature.name)).map(|(_, on)| *on);
        let is_due = |feature: &Feature| feature.changeable && wish(feature).is_some_and(|wanted| wanted != feature.active);
        if !features.iter().any(is_due) {
            return Ok(());
        }
        // Per word of 32 features: which are meant, and what they are to be.
        let mut request = vec![[0u32; 2]; features.len().div_ceil(32)];
        for (number, feature) in features.iter().enumerate().filter(|(_, feature)| is_due(feature)) {
            let bit = 1 << (number % 32);
            if let Some([meant, wanted]) = request.get_mut(number / 32) {
                *meant |= bit;
                *wanted |= if feature.active { 0 } else { bit };
            }
        }
        let words = u32::try_from(request.len()).unwrap_or(u32::MAX);
        let mut message: Vec<u32> = [SET_FEATURES, words].into_iter().chain(request.into_iter().flatten()).collect();
        self.call(device, &mut message).map_err(refused(&attempt))?;
        let after = self.features(device).map_err(refused(&attempt))?;
        match after.into_iter().find(|feature| is_due(feature)) {
            None => Ok(()),
            Some(Feature { name, active, .. }) => {
                Err(EthtoolError::NotTaken { device: device.to_owned(), feature: name, wanted: !active })
            }
        }
    }

    /// Every feature the kernel has a name for, in its own order.
    fn features(&self, device: &str) -> io::Result<Vec<Feature>> {
        // The mask of sets asked for is one u64; sets below 32 are in its low word, whichever comes first.
        let low = usize::from(cfg!(target_endian = "big"));
        let mut info = [GET_SET_INFO, 0, 0, 0, 0];
        info[2 + low] = 1 << FEATURE_SET;
        self.call(device, &mut info)?;
        let count = info[4] as usize;

        let mut strings = vec![0u32; 3 + count * NAME_WORDS];
        strings[..3].copy_from_slice(&[GET_STRINGS, FEATURE_SET, info[4]]);
        self.call(device, &mut strings)?;

        let words = count.div_ceil(32);
        let mut states = vec![0u32; 2 + 4 * words];
        states[..2].copy_from_slice(&[GET_FEATURES, u32::try_from(words).unwrap_or(0)]);
        self.call(device, &mut states)?;

        let names = strings[3..].chunks_exact(NAME_WORDS).map(name);
        let feature = |(number, name): (usize, String)| {
            // Of each word of 32 features: available, requested, active, never changed.
            let state = &states[2 + number / 32 * 4..];
            let has = |field: usize| state[field] >> (number % 32) & 1 == 1;
            Feature { name, active: has(2), changeable: has(0) && !has(3) }
        };
        Ok(names.enumerate().map(feature).collect())
    }

    /// One `SIOCETHTOOL`; the answer is written over the question. Every `ethtool` structure used here is an array of
    /// 32-bit words.
    fn call(&self, device: &str, message: &mut [u32]) -> io::Result<()> {
        // SAFETY: all zeros are a valid ifreq: an empty name and a null pointer.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if device.is_empty() || device.len() >= request.ifr_name.len() || device.contains('\0') {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_data = message.as_mut_ptr().cast();
        // SAFETY: the name is NUL-terminated (checked above). The kernel reads and writes no more of the message than the count
        // in it allows; only for GET_STRINGS it writes as many names as it has, which is the number that GET_SET_INFO gave, a
        // constant of the running kernel, and what the message was made for.
        if unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// A name, NUL-padded.
fn name(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn refused(attempt: &str) -> impl FnOnce(io::Error) -> EthtoolError {
    let attempt = attempt.to_owned();
    move |source| EthtoolError::Refused { attempt, source }
}

fn on(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_those_of_the_program() {
        let covered = |offload: Offload| {
            let all = [
                "rx-checksum",
                "tx-checksum-ipv4",
                "tx-checksum-ip-generic",
                "tx-scatter-gather",
                "tx-scatter-gather-fraglist",
                "tx-tcp-segmentation",
                "tx-tcp-ecn-segmentation",
                "tx-tcp6-segmentation",
                "tx-generic-segmentation",
                "tx-udp-segmentation",
                "tx-udp_tnl-segmentation",
                "rx-gro",
                "rx-gro-list",
                "rx-gro-hw",
            ];
            all.into_iter().filter(|feature| offload.covers(feature)).collect::<Vec<_>>()
        };
        assert_eq!(covered(Offload::RxChecksum), ["rx-checksum"]);
        assert_eq!(covered(Offload::TxChecksum), ["tx-checksum-ipv4", "tx-checksum-ip-generic"]);
        assert_eq!(covered(Offload::ScatterGather), ["tx-scatter-gather", "tx-scatter-gather-fraglist"]);
        let tso = ["tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp6-segmentation"];
        assert_eq!(covered(Offload::TcpSegmentation), tso);
        assert_eq!(covered(Offload::GenericSegmentation), ["tx-generic-segmentation"]);
        assert_eq!(covered(Offload::UdpSegmentation), ["tx-udp-segmentation"]);
        assert_eq!(covered(Offload::GenericReceive), ["rx-gro"]);
    }

    #[test]
    fn loopback_is_readable_and_strangers_are_not() {
        let ethtool = Ethtool::open().unwrap();
        assert!(ethtool.is_on("lo", Offload::ScatterGather).unwrap());
        for stranger in ["", "no-such-device", "a-name-that-is-far-too-long", "l\0o"] {
            let error = ethtool.is_on(stranger, Offload::TxChecksum).unwrap_err();
            assert!(
                matches!(&error, EthtoolError::Refused { source, .. } if source.raw_os_error() == Some(libc::ENODEV)),
                "{error}"
            );
        }
    }
}
