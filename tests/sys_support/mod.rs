//! Namespaces for tests: named after the process and a counter, removed when dropped.

use std::sync::atomic::{AtomicU32, Ordering};

use felt::sys::netlink::Netlink;
use felt::sys::netns::Netns;

/// A namespace of its own for one test, loopback up.
pub struct TestNetns(Netns);

impl TestNetns {
    pub fn new(purpose: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let netns = Netns::create(&format!("felt-{purpose}-{}-{count}", std::process::id())).expect("these tests need root");
        netns
            .run_in(|| {
                let netlink = Netlink::open().unwrap();
                netlink.set_up(netlink.link("lo").unwrap().index).unwrap();
            })
            .unwrap();
        Self(netns)
    }
}

impl std::ops::Deref for TestNetns {
    type Target = Netns;

    fn deref(&self) -> &Netns {
        &self.0
    }
}

impl Drop for TestNetns {
    fn drop(&mut self) {
        let _ = Netns::delete(self.0.name());
    }
}
