//! Control messages beside a datagram: its congestion mark, and the size of the segments it is made of.

use crate::net::Ecn;

/// Words of control data a message has room for: two numbers with their headers take six.
const WORDS: usize = 8;

/// Room for the control messages of one message, aligned for their headers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Control([u64; WORDS]);

/// What a received message's control messages say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    pub ecn: Ecn,
    /// 0: it is one datagram.
    pub segment_bytes: u16,
}

impl Control {
    pub const EMPTY: Self = Self([0; WORDS]);
    pub const BYTES: usize = WORDS * size_of::<u64>();

    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.0.as_mut_ptr().cast()
    }

    /// Writes a mark and a segment size, each only where it says something: none is what the kernel does without being told.
    /// How many bytes that took.
    #[inline]
    pub fn write(&mut self, to_ipv4: bool, ecn: Ecn, segment_bytes: u16) -> usize {
        let mut used = 0;
        if ecn != Ecn::NotEct {
            let (level, kind) = if to_ipv4 { (libc::IPPROTO_IP, libc::IP_TOS) } else { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) };
            used = self.put(used, level, kind, ecn as libc::c_int);
        }
        if segment_bytes != 0 {
            used = self.put(used, libc::SOL_UDP, libc::UDP_SEGMENT, segment_bytes);
        }
        used
    }

    #[allow(clippy::cast_ptr_alignment, reason = "spaces of control messages are multiples of their alignment")]
    /// Writes one control message at byte `at`; where the next one goes.
    #[inline]
    fn put<T: Copy>(&mut self, at: usize, level: libc::c_int, kind: libc::c_int, value: T) -> usize {
        const { assert!(size_of::<T>() <= size_of::<u64>()) };
        let bytes = size_of::<T>() as libc::c_uint;
        // SAFETY: these calculate only.
        let (space, length) = unsafe { (libc::CMSG_SPACE(bytes) as usize, libc::CMSG_LEN(bytes) as usize) };
        if at + space > Self::BYTES {
            return at;
        }
        // SAFETY: a message of `space` bytes at `at` lies inside the words, and is aligned for its header since the words are
        // and all spaces are whole ones; the value is written unaligned.
        unsafe {
            let header = self.0.as_mut_ptr().cast::<u8>().add(at).cast::<libc::cmsghdr>();
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = length as _;
            libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
        }
        at + space
    }
}

impl Told {
    /// What came with a received message.
    #[inline]
    pub fn of(message: &libc::msghdr) -> Self {
        let mut told = Self::default();
        // SAFETY: the kernel wrote the control data into the words `message` points at and set its length, so walking it
        // stays inside; the TOS is one byte, the others are numbers, read unaligned.
        unsafe {
            let mut control = libc::CMSG_FIRSTHDR(message);
            while let Some(found) = control.as_ref() {
                let data = libc::CMSG_DATA(control);
                match (found.cmsg_level, found.cmsg_type) {
                    (libc::IPPROTO_IP, libc::IP_TOS) => told.ecn = Ecn::from_tos(*data),
                    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                        told.ecn = Ecn::from_tos(data.cast::<libc::c_int>().read_unaligned() as u8);
                    }
                    (libc::SOL_UDP, libc::UDP_GRO) => {
                        told.segment_bytes = data.cast::<libc::c_int>().read_unaligned() as u16;
                    }
                    _ => {}
                }
                control = libc::CMSG_NXTHDR(message, control);
            }
        }
        told
    }
}
