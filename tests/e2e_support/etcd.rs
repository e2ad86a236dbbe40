//! Keys written behind everybody's back.

use felt::lab::{Lab, Place};

/// Puts a key into the lab's etcd.
pub fn put(lab: &Lab, key: &str, value: &str) {
    let endpoint = lab.plan().registry_endpoint().unwrap().to_string();
    let put = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut client = etcd_client::Client::connect([endpoint], None).await?;
            client.put(key, value, None).await.map(drop)
        })
    };
    lab.netns(Place::Hub).unwrap().run_in(put).unwrap().unwrap();
}
