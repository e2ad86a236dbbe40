//! IP prefixes whose host bits are zero by construction.

use std::fmt;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An IPv4 prefix.
pub type Prefix4 = Prefix<Ipv4Addr>;
/// An IPv6 prefix.
pub type Prefix6 = Prefix<Ipv6Addr>;

/// An address family, as far as prefixes need to know it.
pub trait Address: Copy + Ord + Hash + fmt::Debug + fmt::Display + FromStr {
    /// Bits of an address: 32 or 128.
    const BITS: u8;
    /// The family's name in messages.
    const FAMILY: &'static str;

    /// The address as a number, in host order.
    fn to_number(self) -> u128;
    /// The address with this number; higher bits are cut off.
    fn from_number(number: u128) -> Self;
}

impl Address for Ipv4Addr {
    const BITS: u8 = 32;
    const FAMILY: &'static str = "IPv4";

    fn to_number(self) -> u128 {
        u128::from(self.to_bits())
    }

    fn from_number(number: u128) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "cutting off is what the contract says")]
        Self::from_bits(number as u32)
    }
}

impl Address for Ipv6Addr {
    const BITS: u8 = 128;
    const FAMILY: &'static str = "IPv6";

    fn to_number(self) -> u128 {
        self.to_bits()
    }

    fn from_number(number: u128) -> Self {
        Self::from_bits(number)
    }
}

/// A block of addresses: a base address and the number of leading bits all its members share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix<A> {
    base: A,
    len: u8,
}

/// Why a text or a pair of numbers is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum PrefixError {
    /// The length is larger than the family's addresses are.
    #[error("prefix length must be 0 to {max} for {family}, found {found}")]
    Length { found: u32, max: u8, family: &'static str },
    /// The text is not `ADDRESS/LENGTH`.
    #[error("expected an {family} network such as {example}, found `{found}`")]
    Syntax { found: String, family: &'static str, example: &'static str },
    /// The address is not the first one of the prefix.
    #[error("expected a subnet such as {meant}, found `{found}`: its host bits are set")]
    HostBits { found: String, meant: String },
}

impl<A: Address> Prefix<A> {
    /// The prefix of `len` bits that holds `address`; host bits are cleared.
    ///
    /// # Errors
    /// [`PrefixError::Length`] when `len` is more than the family has.
    pub fn new(address: A, len: u8) -> Result<Self, PrefixError> {
        if len > A::BITS {
            return Err(PrefixError::Length { found: u32::from(len), max: A::BITS, family: A::FAMILY });
        }
        Ok(Self { base: A::from_number(address.to_number() & network_mask::<A>(len)), len })
    }

    /// Reads a text as [`FromStr`] does, and refuses host bits instead of clearing them: for what people name one by one.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn exact(text: &str) -> Result<Self, PrefixError> {
        let prefix: Self = text.parse()?;
        let address = text.split_once('/').and_then(|(address, _)| address.parse().ok());
        if address == Some(prefix.base) {
            return Ok(prefix);
        }
        Err(PrefixError::HostBits { found: text.to_owned(), meant: prefix.to_string() })
    }

    /// The prefix of this address alone.
    #[must_use]
    pub fn host(address: A) -> Self {
        Self { base: address, len: A::BITS }
    }

    /// The lowest address.
    #[must_use]
    pub fn base(&self) -> A {
        self.base
    }

    /// The highest address.
    #[must_use]
    pub fn last(&self) -> A {
        A::from_number(self.base.to_number() | host_mask::<A>(self.len))
    }

    /// How many leading bits are fixed.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a prefix length, not a size")]
    pub fn len(&self) -> u8 {
        self.len
    }

    /// Whether `address` lies inside.
    #[must_use]
    pub fn contains(&self, address: A) -> bool {
        address.to_number() & network_mask::<A>(self.len) == self.base.to_number()
    }

    /// Whether every address of `other` lies inside.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.len <= other.len && self.contains(other.base)
    }

    /// Whether any address lies in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// The address `offset` above the base; `None` past the last one.
    #[must_use]
    pub fn nth(&self, offset: u128) -> Option<A> {
        (offset <= host_mask::<A>(self.len)).then(|| A::from_number(self.base.to_number() + offset))
    }
}

fn host_mask<A: Address>(len: u8) -> u128 {
    let host_bits = u32::from(A::BITS - len);
    1u128.checked_shl(host_bits).map_or(u128::MAX, |size| size - 1)
}

fn network_mask<A: Address>(len: u8) -> u128 {
    !host_mask::<A>(len)
}

impl<A: Address> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.len)
    }
}

impl<A: Address> FromStr for Prefix<A> {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let syntax = || PrefixError::Syntax {
            found: text.to_owned(),
            family: A::FAMILY,
            example: if A::BITS == 32 { "10.5.0.0/16" } else { "fd00:5::/48" },
        };
        let (address, len) = text.split_once('/').ok_or_else(syntax)?;
        let address = address.parse().map_err(|_| syntax())?;
        if len.is_empty() || len.len() > 3 || !len.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(syntax());
        }
        let len: u32 = len.parse().map_err(|_| syntax())?;
        let out_of_range = PrefixError::Length { found: len, max: A::BITS, family: A::FAMILY };
        Self::new(address, u8::try_from(len).map_err(|_| out_of_range)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix4 {
        text.parse().unwrap()
    }

    #[test]
    fn host_bits_are_cleared() {
        assert_eq!(prefix("10.3.4.5/16").to_string(), "10.3.0.0/16");
        assert_eq!("fd00::1/64".parse::<Prefix6>().unwrap().to_string(), "fd00::/64");
        assert_eq!(prefix("255.1.2.3/0").to_string(), "0.0.0.0/0");
        assert_eq!(Prefix::host(Ipv4Addr::new(10, 3, 4, 5)), prefix("10.3.4.5/32"));
    }

    #[test]
    fn containment_and_overlap_follow_the_bits() {
        let net = prefix("1.2.3.0/24");
        assert!(net.contains("1.2.3.4".parse().unwrap()) && net.contains(net.base()) && net.contains(net.last()));
        assert!(!net.contains("1.2.4.0".parse().unwrap()));
        assert!(net.overlaps(&net) && net.overlaps(&prefix("1.2.0.0/16")) && prefix("1.2.0.0/16").overlaps(&net));
        assert!(!net.overlaps(&prefix("1.2.4.0/24")) && !net.overlaps(&prefix("7.2.4.0/22")));
        assert!(prefix("0.0.0.0/0").covers(&net) && !net.covers(&prefix("1.2.0.0/16")));
        assert!("::/0".parse::<Prefix6>().unwrap().contains(Ipv6Addr::LOCALHOST));
    }

    #[test]
    fn nth_stays_inside() {
        assert_eq!(prefix("10.5.1.0/24").nth(1), Some(Ipv4Addr::new(10, 5, 1, 1)));
        assert_eq!(prefix("10.5.1.0/24").nth(256), None);
        assert_eq!("::/0".parse::<Prefix6>().unwrap().nth(u128::MAX), Some(Ipv6Addr::from_bits(u128::MAX)));
    }

    #[test]
    fn bad_texts_say_what_was_expected() {
        for text in
            ["", "10.0.0.0", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/8x", "010.0.0.0/8", "fd00::/64", "10.0.0/8"]
        {
            assert!(matches!(text.parse::<Prefix4>(), Err(PrefixError::Syntax { .. })), "{text}");
        }
        let error = "10.0.0.0/33".parse::<Prefix4>().unwrap_err().to_string();
        assert_eq!(error, "prefix length must be 0 to 32 for IPv4, found 33");
    }

    #[test]
    fn an_exact_prefix_has_no_host_bits() {
        assert_eq!(Prefix4::exact("10.5.1.0/24"), Ok(prefix("10.5.1.0/24")));
        let error = Prefix4::exact("10.5.1.7/24").unwrap_err().to_string();
        assert_eq!(error, "expected a subnet such as 10.5.1.0/24, found `10.5.1.7/24`: its host bits are set");
        assert!(Prefix4::exact("10.5.1.0").is_err());
    }
}
