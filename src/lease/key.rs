//! The name of a leased subnet, as registries and the lease API spell it: `10.1.5.0-24` or `10.1.5.0-24&fd00:5::-64`.
//!
//! Source: flannel's key format. A text is a key only if it is the one spelling of its subnet: with two, a removal of the one
//! would be taken for a removal of the other. Flannel reads lengths of 5 and 7 bits, so there is no `-32` and no `-128`.

use std::fmt;
use std::str::FromStr;

use super::json::excerpt;
use crate::net::{Address, Prefix, Prefix4, Prefix6};

/// The subnet of a lease: always an IPv4 part, and an IPv6 part in dual-stack networks.
///
/// An IPv6-only lease carries `0.0.0.0-0` as its IPv4 part, as flannel writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubnetKey {
    /// The IPv4 subnet.
    pub v4: Prefix4,
    /// The IPv6 subnet, if any.
    pub v6: Option<Prefix6>,
}

/// Why a text names no subnet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a subnet key such as `10.1.5.0-24` or `10.1.5.0-24&fd00:5::-64`, found `{found}`: {problem}")]
pub struct KeyError {
    found: String,
    problem: &'static str,
}

impl From<Prefix4> for SubnetKey {
    fn from(v4: Prefix4) -> Self {
        Self { v4, v6: None }
    }
}

impl fmt::Display for SubnetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.v4.base(), self.v4.len())?;
        match self.v6 {
            Some(v6) => write!(f, "&{}-{}", v6.base(), v6.len()),
            None => Ok(()),
        }
    }
}

impl FromStr for SubnetKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let fail = |problem| KeyError { found: excerpt(text), problem };
        let (v4, v6) = match text.split_once('&') {
            Some((v4, v6)) => (v4, Some(v6)),
            None => (text, None),
        };
        let key = Self { v4: part(v4).map_err(fail)?, v6: v6.map(|v6| part(v6).map_err(fail)).transpose()? };
        match key {
            // As the placeholder of an IPv6-only lease it means nothing; alone it would draw all traffic to one node.
            Self { v4, v6: None } if v4.len() == 0 => Err(fail("it covers every address")),
            Self { v6: Some(v6), .. } if v6.len() == 0 => Err(fail("its IPv6 part covers every address")),
            key => Ok(key),
        }
    }
}

fn part<A: Address>(text: &str) -> Result<Prefix<A>, &'static str> {
    // The length follows the last dash; flannel writes the address of either family without any.
    let (address_text, len) = text.rsplit_once('-').ok_or("no `-LENGTH`")?;
    let address: A = address_text.parse().map_err(|_| "no IP address before the dash")?;
    if len.is_empty() || !len.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("no number after the dash");
    }
    if len.starts_with('0') && len != "0" {
        return Err("the length has a leading zero");
    }
    let prefix = len.parse::<u8>().ok().filter(|len| *len < A::BITS).and_then(|len| Prefix::new(address, len).ok());
    let prefix = prefix.ok_or("the length is too large for a subnet")?;
    if prefix.base() != address {
        return Err("host bits are set");
    }
    if address.to_string() != address_text {
        return Err("the address is not written in its canonical form");
    }
    Ok(prefix)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_of_flannel_round_trip() {
        for (text, v4, v6) in [
            ("10.12.13.0-24", "10.12.13.0/24", None),
            ("10.12.13.0-24&fd00:12:13::-56", "10.12.13.0/24", Some("fd00:12:13::/56")),
            ("0.0.0.0-0&fc00:0:0:1::-64", "0.0.0.0/0", Some("fc00:0:0:1::/64")),
            ("10.5.5.6-31", "10.5.5.6/31", None),
            ("128.0.0.0-1", "128.0.0.0/1", None),
        ] {
            let key: SubnetKey = text.parse().unwrap();
            assert_eq!((key.v4.to_string().as_str(), key.v6.map(|v6| v6.to_string())), (v4, v6.map(str::to_owned)));
            assert_eq!(key.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_key_says_why() {
        for (text, problem) in [
            // flannel's own cases
            ("10", "no `-LENGTH`"),
            ("10.12.13.0", "no `-LENGTH`"),
            ("10.12.13-24", "no IP address"),
            ("10.12.13.300-24", "no IP address"),
            ("10.12.13.0-24hi", "no number"),
            ("&2001::-56", "no `-LENGTH`"),
            ("10.12.13.0-24&:12:13:-56", "no IP address"),
            ("10.12.13.0-24&20011::-56", "no IP address"),
            ("10.12.13.0-24&2001-56", "no IP address"),
            ("10.12.13.0-24&2001::", "no `-LENGTH`"),
            ("10.12.13.0-24&2001::-56hi", "no number"),
            // field reports
            ("10.5.5.7-24", "host bits"),
            ("10.5.0.0-33", "too large"),
            ("10.5.1.0-24&fc00--1-64", "no IP address"),
            // one spelling only
            ("010.5.1.0-24", "no IP address"),
            ("10.5.1.0-024", "leading zero"),
            ("10.5.1.0-+24", "no number"),
            ("10.5.1.0-24&FD00::-64", "canonical"),
            ("10.5.1.0-24&fd00:0::-64", "canonical"),
            ("10.5.1.0-24&fd00::1-64", "host bits"),
            // lengths
            ("10.5.1.1-32", "too large"),
            ("10.5.1.0-24&fd00::1-128", "too large"),
            ("10.5.1.0-280", "too large"),
            ("10.5.1.0-99999999999999999999", "too large"),
            ("0.0.0.0-0", "covers every address"),
            ("10.5.1.0-24&::-0", "IPv6 part covers every address"),
            // around it
            ("", "no `-LENGTH`"),
            ("-", "no IP address"),
            ("10.5.1.0/24", "no `-LENGTH`"),
            (" 10.5.1.0-24", "no IP address"),
            ("10.5.1.0-24 ", "no number"),
            ("10.5.1.0-24&", "no `-LENGTH`"),
            ("fd00::-64", "no IP address"),
            ("10.5.1.0-24&10.6.1.0-24", "no IP address"),
            ("x/10.5.1.0-24", "no IP address"),
        ] {
            let error = text.parse::<SubnetKey>().expect_err(text).to_string();
            assert!(error.contains(problem) && error.contains(text), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn every_subnet_has_one_spelling(
            v4 in any::<u32>(), len4 in 1u8..32, v6 in prop::option::of((any::<u128>(), 1u8..128)),
        ) {
            let key = SubnetKey {
                v4: Prefix::new(std::net::Ipv4Addr::from_bits(v4), len4).unwrap(),
                v6: v6.map(|(v6, len)| Prefix::new(std::net::Ipv6Addr::from_bits(v6), len).unwrap()),
            };
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }

        #[test]
        fn any_text_is_refused_or_is_the_spelling_of_its_key(text in "[0-9a-f.:&-]{0,40}|.{0,40}") {
            if let Ok(key) = text.parse::<SubnetKey>() {
                prop_assert_eq!(key.to_string(), text);
            }
        }
    }
}
