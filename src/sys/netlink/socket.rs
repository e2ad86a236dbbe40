//! The request socket: one message out, its answers in.

use std::cell::Cell;
use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use super::NetlinkError;

/// Bytes of a receive buffer. The kernel fills at most 32 KiB of a dump into one datagram.
const BUFFER_BYTES: usize = 64 * 1024;
/// How often a dump that changed under the kernel's hands is taken again before the last one is believed.
const DUMP_TRIES: usize = 5;
/// `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// `NLMSGERR_ATTR_MSG`: the kernel's explanation in an error's attributes.
const ERROR_TEXT: u16 = 1;

/// A request socket in one network namespace.
///
/// Usable from any thread, one at a time.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: Cell<u32>,
}

impl Netlink {
    /// Opens a socket in the calling thread's network namespace.
    pub fn open() -> Result<Self, NetlinkError> {
        let open = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            // Better error texts, from Linux 4.12 on; without them only the number is told.
            let _ = socket.set_ext_ack(true);
            let _ = socket.set_cap_ack(true);
            Ok(socket)
        };
        let socket = open().map_err(|error| NetlinkError::refused("open a netlink socket", error))?;
        Ok(Self { socket, sequence: Cell::new(0) })
    }

    /// Sends a change and waits for the kernel's word. `attempt` completes "cannot …"; it is only asked for on failure.
    pub(super) fn change(
        &self,
        message: RouteNetlinkMessage,
        flags: u16,
        attempt: impl FnOnce() -> String,
    ) -> Result<(), NetlinkError> {
        self.exchange(message, NLM_F_ACK | flags, |_| ()).map(drop).map_err(|failure| failure.told(attempt()))
    }

    /// Asks for one thing; the answer is empty only if the kernel has nothing to say.
    pub(super) fn ask(
        &self,
        message: RouteNetlinkMessage,
        attempt: impl FnOnce() -> String,
    ) -> Result<Option<RouteNetlinkMessage>, NetlinkError> {
        let mut answer = None;
        self.exchange(message, NLM_F_ACK, |found| answer = Some(found)).map_err(|failure| failure.told(attempt()))?;
        Ok(answer)
    }

    /// Asks for everything of a kind, again when it changed meanwhile.
    pub(super) fn dump(&self, message: &RouteNetlinkMessage, attempt: &str) -> Result<Vec<RouteNetlinkMessage>, NetlinkError> {
        let mut found = Vec::new();
        for _ in 0..DUMP_TRIES {
            found.clear();
            let whole = self
                .exchange(message.clone(), NLM_F_DUMP, |part| found.push(part))
                .map_err(|failure| failure.told(attempt.to_owned()))?;
            if whole {
                break;
            }
        }
        Ok(found)
    }

    /// One request and all its answers; whether they are of one moment.
    ///
    /// Of a dump, what cannot be read is left out: one device with an alias that is no text must not hide all others. Answers are
    /// read to their end in any case, since the kernel takes no further dump of a socket before that.
    fn exchange(
        &self,
        message: RouteNetlinkMessage,
        flags: u16,
        mut answer: impl FnMut(RouteNetlinkMessage),
    ) -> Result<bool, Failure> {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        self.send(message, flags, sequence)?;
        let dump = flags & NLM_F_DUMP == NLM_F_DUMP;
        let (mut whole, mut missed) = (true, None);
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        loop {
            buffer.clear();
            let length = retry(|| self.socket.recv(&mut buffer, libc::MSG_TRUNC))?;
            if length > buffer.len() {
                return Err(Failure::Unreadable(format!("{length} bytes in one datagram, expected at most {BUFFER_BYTES}")));
            }
            for part in messages(&buffer) {
                let part = match part {
                    Ok(part) => part,
                    Err(Unreadable::Datagram(reason)) => return Err(Failure::Unreadable(reason)),
                    Err(Unreadable::Message { sequence_number, reason }) => {
                        missed = missed.or(Some(reason).filter(|_| sequence_number == sequence && !dump));
                        continue;
                    }
                };
                if part.header.sequence_number != sequence {
                    continue;
                }
                whole &= part.header.flags & NLM_F_DUMP_INTR == 0;
                match part.payload {
                    NetlinkPayload::InnerMessage(inner) => answer(inner),
                    NetlinkPayload::Done(done) if done.code == 0 => return ended(whole, missed),
                    NetlinkPayload::Done(done) => {
                        return Err(Failure::Kernel(io::Error::from_raw_os_error(done.code.saturating_abs()), None));
                    }
                    NetlinkPayload::Error(error) if error.code.is_none() => return ended(whole, missed),
                    NetlinkPayload::Error(error) => {
                        let text = if part.header.flags & NLM_F_ACK_TLVS == 0 { None } else { explanation(&error.header) };
                        return Err(Failure::Kernel(error.to_io(), text));
                    }
                    _ => {}
                }
            }
        }
    }

    fn send(&self, message: RouteNetlinkMessage, flags: u16, sequence: u32) -> Result<(), Failure> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        retry(|| self.socket.send(&bytes, 0))?;
        Ok(())
    }
}

/// What could not be read.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// One message; those behind it can be.
    Message { sequence_number: u32, reason: String },
    /// All the rest of the datagram.
    Datagram(String),
}

/// The messages of one datagram.
pub(super) fn messages(
    datagram: &[u8],
) -> impl Iterator<Item = Result<NetlinkMessage<RouteNetlinkMessage>, Unreadable>> + use<'_> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (message, behind) = first_message(rest);
        rest = behind;
        Some(message)
    })
}

/// The first message and what is behind it.
fn first_message(bytes: &[u8]) -> (Result<NetlinkMessage<RouteNetlinkMessage>, Unreadable>, &[u8]) {
    let header = match NetlinkBuffer::new_checked(bytes) {
        Ok(header) => header,
        Err(error) => return (Err(Unreadable::Datagram(error.to_string())), &[]),
    };
    let (length, sequence_number) = (header.length() as usize, header.sequence_number());
    if length < HEADER_BYTES {
        let reason = format!("expected a message of at least {HEADER_BYTES} bytes, found {length}");
        return (Err(Unreadable::Datagram(reason)), &[]);
    }
    let message = NetlinkMessage::deserialize(bytes);
    let message = message.map_err(|error| Unreadable::Message { sequence_number, reason: error.to_string() });
    (message, bytes.get(length.next_multiple_of(4)..).unwrap_or_default())
}

/// How an exchange ends that the kernel was content with.
fn ended(whole: bool, missed: Option<String>) -> Result<bool, Failure> {
    missed.map_or(Ok(whole), |reason| Err(Failure::Unreadable(reason)))
}

/// What went wrong, before it is known what was attempted.
enum Failure {
    Kernel(io::Error, Option<String>),
    Unreadable(String),
}

impl Failure {
    fn told(self, attempt: String) -> NetlinkError {
        match self {
            Self::Kernel(source, detail) => NetlinkError::Refused { attempt, source, detail },
            Self::Unreadable(reason) => NetlinkError::Unreadable { attempt, reason },
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Kernel(error, None)
    }
}

fn explanation(original_header_and_attributes: &[u8]) -> Option<String> {
    let attributes = original_header_and_attributes.get(HEADER_BYTES..)?;
    let text = NlasIterator::new(attributes).flatten().find(|attribute| attribute.kind() == ERROR_TEXT)?;
    Some(String::from_utf8_lossy(text.value()).trim_end_matches(['\0', '.']).to_owned())
}

/// Repeats a call that a signal interrupted.
pub(super) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `RTM_NEWLINK` of `length` bytes by its own account.
    fn header(length: u32) -> Vec<u8> {
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(16u16.to_ne_bytes());
        bytes.resize(HEADER_BYTES, 0);
        bytes
    }

    #[test]
    fn several_messages_of_a_datagram_are_told_apart() {
        let mut bytes = [header(32), vec![0; 16]].concat();
        bytes.extend(bytes.clone());
        assert_eq!(messages(&bytes).filter_map(Result::ok).count(), 2);
    }

    #[test]
    fn a_message_that_cannot_be_read_hides_no_other() {
        // A device whose alias (IFLA_IFALIAS) is one byte that no text has.
        let mut alias = [header(40), vec![0; 16], vec![5, 0, 20, 0, 0xff, 0, 0, 0]].concat();
        alias[8] = 7;
        let bytes = [alias, header(32), vec![0; 16]].concat();
        let read: Vec<_> = messages(&bytes).collect();
        assert!(matches!(read.as_slice(), [Err(Unreadable::Message { sequence_number: 7, .. }), Ok(_)]), "{read:?}");
    }

    #[test]
    fn a_datagram_that_cannot_be_read_ends_with_one_error() {
        for bytes in [header(0), header(15), header(64), header(32), vec![1], vec![0; 15]] {
            let read: Vec<_> = messages(&bytes).collect();
            assert!(matches!(read.as_slice(), [Err(Unreadable::Datagram(_))]), "{bytes:?}");
        }
        assert_eq!(messages(&[]).count(), 0);
    }
}
