//! TCP connections that carry noise both ways at once, in writes of random sizes, and compare every byte.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use felt::sys::netns::Netns;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::noise::{LONGEST, Noise};

/// How long nothing may move before a stream is taken for dead.
const STALL: Duration = Duration::from_secs(30);

/// Opens a connection to `to`, sends `bytes` each way, and returns once all of it has been compared at the other end.
pub fn exchange(client: &Netns, server: &Netns, to: Ipv4Addr, bytes: u64, seed: u64) {
    let listener = server.run_in(|| TcpListener::bind((to, 0))).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let outward = client.run_in(|| TcpStream::connect(address)).unwrap().unwrap();
    let (inward, _) = listener.accept().unwrap();
    for stream in [&outward, &inward] {
        // Each write ends with a PSH then and the last segment of many is short.
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(STALL)).unwrap();
        stream.set_write_timeout(Some(STALL)).unwrap();
    }
    let noises = [Noise::new(seed), Noise::new(!seed)];
    thread::scope(|scope| {
        for (from, to, noise) in [(&outward, &inward, &noises[0]), (&inward, &outward, &noises[1])] {
            scope.spawn(move || send(from, noise, bytes, seed));
            scope.spawn(move || compare(to, noise, bytes));
        }
    });
}

fn send(mut stream: &TcpStream, noise: &Noise, bytes: u64, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut position = 0;
    while position < bytes {
        let most = [1_usize, 100, 1_500, 20_000, LONGEST, LONGEST][random.random_range(0..6)];
        let len = random.random_range(1..=most).min(usize::try_from(bytes - position).unwrap_or(most));
        stream.write_all(noise.at(position, len)).expect("the stream goes on");
        position += len as u64;
    }
    stream.shutdown(Shutdown::Write).unwrap();
}

fn compare(mut stream: &TcpStream, noise: &Noise, bytes: u64) {
    let (mut buffer, mut position) = (vec![0; LONGEST], 0);
    loop {
        let len = stream.read(&mut buffer).unwrap_or_else(|error| panic!("{error} after {position} of {bytes} bytes"));
        if len == 0 {
            break;
        }
        // Not assert_eq: nobody wants to read what differs.
        assert!(buffer[..len] == *noise.at(position, len), "altered between {position} and {}", position + len as u64);
        position += len as u64;
    }
    assert_eq!(position, bytes, "the stream ends where it should");
}
