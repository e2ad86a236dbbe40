//! Random packets of a few flows, with everything that may go wrong among them.

use etherparse::{IpHeaders, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6Header, PacketBuilder, TcpOptionElement};
use proptest::prelude::*;

/// What is special about the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Plain,
    Short,
    Long,
    Empty,
    Push,
    Finish,
    Reduced,
    Echo,
    Synchronize,
    Acknowledges,
    Window,
    Time,
    Hops,
    Marked,
    Fragmentable,
    SameId,
    IdJump,
    SequenceJump,
    Fragment,
    IpOption,
    Reserved,
    Trailing,
    BadChecksum,
    BadPayload,
    BadIpChecksum,
    NoChecksum,
    NoFlow,
}

impl Turn {
    /// Whether a checksum is wrong, or none is there.
    pub fn spoils(self) -> bool {
        matches!(self, Self::BadChecksum | Self::BadPayload | Self::BadIpChecksum | Self::NoChecksum)
    }
}

/// Flow and turn of each packet, mostly plain ones in trains.
pub fn turns() -> impl Strategy<Value = Vec<(usize, Turn)>> {
    use Turn::*;
    let odd = prop::sample::select(vec![
        Short,
        Long,
        Empty,
        Push,
        Finish,
        Reduced,
        Echo,
        Synchronize,
        Acknowledges,
        Window,
        Time,
        Hops,
        Marked,
        Fragmentable,
        SameId,
        IdJump,
        SequenceJump,
        Fragment,
        IpOption,
        Reserved,
        Trailing,
        BadChecksum,
        BadPayload,
        BadIpChecksum,
        NoChecksum,
        NoFlow,
    ]);
    let train = (0..FLOWS, 1usize..20, prop::option::weighted(0.8, odd));
    let train = train
        .prop_map(|(flow, plain, odd)| [vec![(flow, Plain); plain], odd.map(|odd| (flow, odd)).into_iter().collect()].concat());
    prop::collection::vec(train, 1..14).prop_map(|trains| trains.concat())
}

/// How many flows there are: both transports over both versions of IP, and two between the same ends.
pub const FLOWS: usize = 6;

/// One flow as its sender sees it.
struct Sender {
    number: usize,
    size: usize,
    sequence: u32,
    acknowledgement: u32,
    window: u16,
    time: u32,
    hops: u8,
    mark: u8,
    echo: bool,
    dont_fragment: bool,
    id: u16,
}

/// The packets of these turns, with payloads of `sizes` bytes.
pub fn packets(turns: &[(usize, Turn)], sizes: [usize; FLOWS]) -> Vec<Vec<u8>> {
    let sender = |number| Sender {
        number,
        size: sizes[number],
        sequence: u32::MAX - 3000,
        acknowledgement: 1,
        window: 512,
        time: 7,
        hops: 63,
        mark: 2,
        echo: false,
        dont_fragment: number != 2,
        id: 0xfff0,
    };
    let mut senders: [Sender; FLOWS] = std::array::from_fn(sender);
    turns.iter().map(|(flow, turn)| senders[*flow].send(*turn)).collect()
}

impl Sender {
    fn is_tcp(&self) -> bool {
        self.number < 4
    }

    fn is_v4(&self) -> bool {
        self.number.is_multiple_of(2)
    }

    fn send(&mut self, turn: Turn) -> Vec<u8> {
        self.id = match turn {
            Turn::SameId => self.id,
            Turn::IdJump => self.id.wrapping_add(300),
            _ => self.id.wrapping_add(1),
        };
        match turn {
            Turn::SequenceJump => self.sequence = self.sequence.wrapping_add(1),
            Turn::Acknowledges => self.acknowledgement += 1000,
            Turn::Window => self.window ^= 1,
            Turn::Time => self.time += 1,
            Turn::Hops => self.hops -= 1,
            Turn::Marked => self.mark ^= 1,
            Turn::Echo => self.echo ^= true,
            Turn::Fragmentable => self.dont_fragment ^= true,
            _ => {}
        }
        let size = match turn {
            Turn::Short => self.size / 2,
            Turn::Long => self.size + 1,
            Turn::Empty => 0,
            _ => self.size,
        };
        let payload: Vec<u8> = (0..size).map(|at| u8::try_from((at * 7 + usize::from(self.id)) & 255).unwrap()).collect();
        let packet = self.write(turn, &payload);
        self.sequence = self.sequence.wrapping_add(u32::try_from(size).unwrap());
        spoilt(packet, turn, self.is_v4(), if self.is_tcp() { 16 } else { 6 })
    }

    fn write(&self, turn: Turn, payload: &[u8]) -> Vec<u8> {
        let builder = PacketBuilder::ip(if self.is_v4() { self.ipv4(turn) } else { self.ipv6() });
        let mut packet = Vec::new();
        let port = 4000 + u16::try_from(self.number).unwrap();
        if !self.is_tcp() {
            builder.udp(port, 53).write(&mut packet, payload).unwrap();
            return packet;
        }
        let options = [TcpOptionElement::Noop, TcpOptionElement::Noop, TcpOptionElement::Timestamp(self.time, 1)];
        let mut tcp = builder.tcp(port, 80, self.sequence, self.window).ack(self.acknowledgement).options(&options).unwrap();
        tcp = match turn {
            Turn::Push => tcp.psh(),
            Turn::Finish => tcp.fin(),
            Turn::Reduced => tcp.cwr(),
            Turn::Synchronize => tcp.syn(),
            _ => tcp,
        };
        if self.echo { tcp.ece() } else { tcp }.write(&mut packet, payload).unwrap();
        packet
    }

    fn ipv4(&self, turn: Turn) -> IpHeaders {
        let mut ip = Ipv4Header { time_to_live: self.hops, identification: self.id, ..Default::default() };
        (ip.source, ip.destination) = ([10, 5, 20, 3], [10, 5, 16, 2]);
        ip.ecn = self.mark.try_into().unwrap();
        ip.dont_fragment = self.dont_fragment;
        if turn == Turn::IpOption {
            ip.options = [1; 4].into();
        }
        if turn == Turn::Fragment {
            (ip.dont_fragment, ip.more_fragments) = (false, self.id.is_multiple_of(2));
            ip.fragment_offset = if self.id.is_multiple_of(3) { 0 } else { 8 }.try_into().unwrap();
            ip.more_fragments |= self.id.is_multiple_of(3);
        }
        IpHeaders::Ipv4(ip, Ipv4Extensions::default())
    }

    fn ipv6(&self) -> IpHeaders {
        let ip = Ipv6Header {
            hop_limit: self.hops,
            traffic_class: self.mark,
            source: [1; 16],
            destination: [2; 16],
            ..Default::default()
        };
        IpHeaders::Ipv6(ip, Ipv6Extensions::default())
    }
}

/// What a sender would not do to its packets.
fn spoilt(mut packet: Vec<u8>, turn: Turn, v4: bool, field: usize) -> Vec<u8> {
    let start = if v4 { 20 } else { 40 };
    match turn {
        Turn::Reserved if v4 => packet[6] |= 0x80,
        Turn::Trailing => packet.push(0),
        Turn::BadChecksum => packet[start + field] ^= 0x40,
        Turn::BadPayload => *packet.last_mut().unwrap() ^= 1,
        Turn::BadIpChecksum if v4 => packet[10] ^= 1,
        Turn::NoChecksum => packet[start + field..start + field + 2].fill(0),
        Turn::NoFlow => packet[if v4 { 9 } else { 6 }] = if v4 { 1 } else { 58 },
        _ => {}
    }
    packet
}
