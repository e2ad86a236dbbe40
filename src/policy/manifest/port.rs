//! Protocols, port numbers and names of ports.

use super::super::model::Ports;
use super::at::At;
use super::remark::Notes;
use crate::net::Protocol;

/// A protocol; TCP where none is named. `None`: not understood, and remarked on.
pub(super) fn protocol(at: &At<'_>, notes: &mut Notes) -> Option<Protocol> {
    match at.text() {
        Some("TCP") => Some(Protocol::TCP),
        Some("UDP") => Some(Protocol::UDP),
        Some("SCTP") => Some(Protocol::SCTP),
        None if at.value.is_null() => Some(Protocol::TCP),
        _ => {
            notes.add(at, "`TCP`, `UDP` or `SCTP`");
            None
        }
    }
}

/// A port's number. `None`: not understood, and remarked on.
pub(super) fn number(at: &At<'_>, notes: &mut Notes) -> Option<u16> {
    let number = at.value.as_u64().and_then(|number| u16::try_from(number).ok()).filter(|&number| number != 0);
    if number.is_none() {
        notes.add(at, "a port from 1 to 65535");
    }
    number
}

/// The name of a port. `None`: not understood, and remarked on.
pub(super) fn name(at: &At<'_>, notes: &mut Notes) -> Option<String> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase();
    // A number in quotes is a name that no container port can have.
    let name = at.text().filter(|text| text.bytes().any(is_letter)).map(str::to_owned);
    if name.is_none() {
        notes.add(at, "a port from 1 to 65535, without quotes, or the name of one");
    }
    name
}

/// Both ends of a range. `None`: not understood, and remarked on.
pub(super) fn range(first: &At<'_>, last: &At<'_>, notes: &mut Notes) -> Option<(u16, u16)> {
    let (first, end) = (number(first, notes)?, number(last, notes)?);
    if end < first {
        notes.add(last, format!("a port not below {first}"));
        return None;
    }
    Some((first, end))
}

/// Every port of a protocol.
pub(super) const fn all_of(protocol: Protocol) -> Ports {
    Ports::Numbers { protocol, first: 0, last: u16::MAX }
}
