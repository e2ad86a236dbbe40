//! Socket addresses as the kernel reads and writes them.

use std::net::{SocketAddrV4, SocketAddrV6};

use crate::net::Endpoint;

/// A socket address of either family.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) union Name {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
    /// No address of any family.
    pub fn none() -> Self {
        // SAFETY: the addresses are plain data, for which all zeros is a value.
        unsafe { std::mem::zeroed() }
    }

    /// Makes it `endpoint`'s; says how many bytes of it count.
    #[inline]
    pub fn set(&mut self, endpoint: Endpoint) -> libc::socklen_t {
        match endpoint {
            Endpoint::V4(endpoint) => {
                let address = libc::in_addr { s_addr: u32::from_ne_bytes(endpoint.ip().octets()) };
                self.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: endpoint.port().to_be(),
                    sin_addr: address,
                    sin_zero: [0; 8],
                };
                size_of::<libc::sockaddr_in>() as libc::socklen_t
            }
            Endpoint::V6(endpoint) => {
                self.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: endpoint.port().to_be(),
                    sin6_flowinfo: endpoint.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: endpoint.ip().octets() },
                    sin6_scope_id: endpoint.scope_id(),
                };
                size_of::<libc::sockaddr_in6>() as libc::socklen_t
            }
        }
    }

    /// Whose it is, if it is one of UDP's.
    #[inline]
    pub fn endpoint(&self) -> Option<Endpoint> {
        // SAFETY: every byte of the union was initialised, and every bit pattern is a value of the plain fields read here;
        // the family, first in both addresses, says which of them the kernel wrote.
        unsafe {
            match libc::c_int::from(self.family) {
                libc::AF_INET => {
                    let address = self.v4.sin_addr.s_addr.to_ne_bytes();
                    Some(SocketAddrV4::new(address.into(), u16::from_be(self.v4.sin_port)).into())
                }
                libc::AF_INET6 => {
                    let (port, scope) = (u16::from_be(self.v6.sin6_port), self.v6.sin6_scope_id);
                    Some(SocketAddrV6::new(self.v6.sin6_addr.s6_addr.into(), port, 0, scope).into())
                }
                _ => None,
            }
        }
    }
}
