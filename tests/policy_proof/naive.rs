//! Who may talk to whom, the slow and obvious way: each question is answered from the Kubernetes objects as they are written,
//! with nothing kept between questions. Written from the meaning of the API alone; it shares no code with the engine.

use std::net::IpAddr;

use serde_json::Value;

/// The first packet of a flow.
struct Flow<'a> {
    objects: &'a [Value],
    to: IpAddr,
    destination: Option<&'a Value>,
    protocol: &'a str,
    port: u16,
}

/// The letter of the fixtures for the first packet of a flow: `.` allowed; `i`, `e`, `b` refused by the destination's ingress, the
/// source's egress or both; `-` where neither end is a pod.
pub fn letter(objects: &[Value], from: IpAddr, to: IpAddr, protocol: &str, port: u16) -> char {
    let (source, destination) = (pod_at(objects, from), pod_at(objects, to));
    let flow = Flow { objects, to, destination, protocol, port };
    let own_node = |pod: &Value| node_addresses(objects, text(&pod["spec"]["nodeName"])).contains(&from);
    match (source, destination) {
        (None, None) => return '-',
        (Some(source), Some(destination)) if std::ptr::eq(source, destination) => return '.',
        _ => {}
    }
    let leaves = source.is_none_or(|pod| flow.allowed_by(pod, "egress", to));
    let enters = destination.is_none_or(|pod| own_node(pod) || flow.allowed_by(pod, "ingress", from));
    match (leaves, enters) {
        (true, true) => '.',
        (true, false) => 'i',
        (false, true) => 'e',
        (false, false) => 'b',
    }
}

/// What one node judges: its own pods, and what has an address of its pods.
pub struct Here<'a> {
    /// Its name.
    pub node: &'a str,
    /// The pods' subnets.
    pub own: &'a [&'a str],
    /// Whether addresses in them that nobody is known to have are refused.
    pub refuse_unknown: bool,
}

/// The letter of which one node has a say: what it does not judge it does not refuse. `.` also where neither end is a pod.
pub fn letter_here(objects: &[Value], here: &Here, from: IpAddr, to: IpAddr, protocol: &str, port: u16) -> char {
    let whole = letter(objects, from, to, protocol, port);
    let covers = |address| here.own.iter().any(|cidr| inside(address, cidr));
    let node_of = |pod: &Value| text(&pod["spec"]["nodeName"]).to_owned();
    let has_covered =
        |pod: &Value| list(&pod["status"]["podIPs"]).iter().any(|entry| covers(text(&entry["ip"]).parse().unwrap()));
    // A pod that is not yet said to be on a node is known by its addresses.
    let judged = |pod: &Value| node_of(pod) == here.node || has_covered(pod);
    let is_unknown = |address| {
        let known = of_kind(objects, "Node").any(|node| addresses_of_node(node).contains(&address));
        covers(address) && !known && pod_at(objects, address).is_none()
    };
    let refuses = |address, letters: &str| match pod_at(objects, address) {
        Some(pod) => judged(pod) && letters.contains(whole),
        None => here.refuse_unknown && is_unknown(address) && from != to,
    };
    let from_here = node_addresses(objects, here.node).contains(&from);
    let from_own_node = from_here && pod_at(objects, to).is_none_or(|pod| node_of(pod).is_empty());
    match (refuses(from, "eb"), refuses(to, "ib") && !from_own_node) {
        (false, false) => '.',
        (false, true) => 'i',
        (true, false) => 'e',
        (true, true) => 'b',
    }
}

/// The pod that has an address: none that has finished, none on its host's network, rather one that runs.
fn pod_at(objects: &[Value], address: IpAddr) -> Option<&Value> {
    let has = |pod: &&Value| {
        let status = &pod["status"];
        let finished = ["Succeeded", "Failed"].contains(&text(&status["phase"]));
        let listed = list(&status["podIPs"]).iter().any(|entry| text(&entry["ip"]).parse() == Ok(address));
        !finished && pod["spec"]["hostNetwork"] != true && (listed || text(&status["podIP"]).parse() == Ok(address))
    };
    let pods: Vec<_> = of_kind(objects, "Pod").filter(has).collect();
    pods.iter().find(|pod| pod["status"]["phase"] == "Running").or(pods.first()).copied()
}

fn node_addresses(objects: &[Value], name: &str) -> Vec<IpAddr> {
    let nodes = of_kind(objects, "Node").filter(|node| node["metadata"]["name"] == name);
    nodes.flat_map(addresses_of_node).collect()
}

fn addresses_of_node(node: &Value) -> Vec<IpAddr> {
    let addresses = list(&node["status"]["addresses"]).iter();
    let addresses = addresses.filter(|entry| ["InternalIP", "ExternalIP"].contains(&text(&entry["type"])));
    addresses.filter_map(|entry| text(&entry["address"]).parse().ok()).collect()
}

impl Flow<'_> {
    /// Whether a pod's side allows the flow with `peer` at the other end: tier by tier.
    fn allowed_by(&self, pod: &Value, direction: &str, peer: IpAddr) -> bool {
        match self.tier("Admin", pod, direction, peer) {
            Some("Accept") => return true,
            Some("Deny") => return false,
            _ => {}
        }
        let isolating: Vec<_> = of_kind(self.objects, "NetworkPolicy")
            .filter(|policy| namespace(policy) == namespace(pod))
            .filter(|policy| selects(&policy["spec"]["podSelector"], &labels(pod)))
            .filter(|policy| speaks_of(policy, direction))
            .collect();
        if !isolating.is_empty() {
            let peers = if direction == "ingress" { "from" } else { "to" };
            return isolating.iter().any(|policy| {
                list(&policy["spec"][direction]).iter().any(|rule| {
                    let from_peers = list(&rule[peers]);
                    let entries = list(&rule["ports"]);
                    let peer_fits = from_peers.is_empty() || from_peers.iter().any(|entry| self.is_peer(entry, policy, peer));
                    peer_fits && (entries.is_empty() || entries.iter().any(|entry| self.is_port(entry)))
                })
            });
        }
        self.tier("Baseline", pod, direction, peer) != Some("Deny")
    }

    /// The first word of a tier of the cluster's policies, if it has one.
    fn tier(&self, tier: &str, pod: &Value, direction: &str, peer: IpAddr) -> Option<&'static str> {
        let mut policies: Vec<_> = self.objects.iter().filter(|object| tier_of(object) == Some(tier)).collect();
        // A policy that has no priority comes last.
        policies.sort_by_key(|policy| policy["spec"]["priority"].as_u64().unwrap_or(1000));
        for policy in policies {
            let subject = &policy["spec"]["subject"];
            let about = match subject.get("pods") {
                Some(pods) => self.is_pod(pod, &pods["namespaceSelector"], &pods["podSelector"]),
                None => selects(&subject["namespaces"], &self.namespace_labels(namespace(pod))),
            };
            if !about {
                continue;
            }
            for rule in list(&policy["spec"][direction]) {
                if let Some(word) = self.word(rule, direction, peer) {
                    return Some(word);
                }
            }
        }
        None
    }

    /// What a rule of a cluster's policy says of the flow.
    fn word(&self, rule: &Value, direction: &str, peer: IpAddr) -> Option<&'static str> {
        let word = match text(&rule["action"]) {
            "Accept" | "Allow" => "Accept",
            "Pass" => "Pass",
            _ => "Deny",
        };
        let peers = list(&rule[if direction == "ingress" { "from" } else { "to" }]);
        let known: &[&str] =
            if direction == "ingress" { &["namespaces", "pods"] } else { &["namespaces", "pods", "networks", "nodes"] };
        let unclear = peers.iter().any(|peer| !peer.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())));
        if unclear && word != "Accept" {
            return Some("Deny");
        }
        let entries = [list(&rule["protocols"]), list(&rule["ports"])].concat();
        let port_fits = entries.is_empty() || entries.iter().any(|entry| self.is_cluster_port(entry));
        let peer_fits = peers.iter().any(|entry| self.is_cluster_peer(entry, direction, peer));
        (peer_fits && port_fits).then_some(word)
    }

    fn is_cluster_peer(&self, entry: &Value, direction: &str, peer: IpAddr) -> bool {
        let pod = pod_at(self.objects, peer);
        if let Some(namespaces) = entry.get("namespaces") {
            return pod.is_some_and(|pod| selects(namespaces, &self.namespace_labels(namespace(pod))));
        }
        if let Some(pods) = entry.get("pods") {
            return pod.is_some_and(|pod| self.is_pod(pod, &pods["namespaceSelector"], &pods["podSelector"]));
        }
        if direction == "ingress" {
            return false;
        }
        if let Some(nodes) = entry.get("nodes") {
            return of_kind(self.objects, "Node")
                .any(|node| selects(nodes, &labels(node)) && addresses_of_node(node).contains(&peer));
        }
        list(&entry["networks"]).iter().any(|cidr| inside(peer, text(cidr)))
    }

    fn is_cluster_port(&self, entry: &Value) -> bool {
        let (low, high) = (1, 65535);
        for (key, protocol) in [("tcp", "TCP"), ("udp", "UDP"), ("sctp", "SCTP")] {
            if let Some(of_protocol) = entry.get(key) {
                let port = &of_protocol["destinationPort"];
                let (first, last) = match (port["number"].as_u64(), &port["range"]) {
                    (Some(number), _) => (number, number),
                    (None, Value::Null) => (low, high),
                    (None, range) => (range["start"].as_u64().unwrap(), range["end"].as_u64().unwrap()),
                };
                return self.protocol == protocol && (first..=last).contains(&u64::from(self.port));
            }
        }
        for name in [&entry["destinationNamedPort"], &entry["namedPort"]] {
            if let Some(name) = name.as_str() {
                return self.destination_calls_it(name);
            }
        }
        let number = &entry["portNumber"];
        if let Some(port) = number["port"].as_u64() {
            return protocol_of(number) == self.protocol && port == u64::from(self.port);
        }
        let range = &entry["portRange"];
        let (start, end) = (range["start"].as_u64().unwrap(), range["end"].as_u64().unwrap());
        protocol_of(range) == self.protocol && (start..=end).contains(&u64::from(self.port))
    }

    /// Whether `peer` is who an entry of `from` or `to` of a `NetworkPolicy` means.
    fn is_peer(&self, entry: &Value, policy: &Value, peer: IpAddr) -> bool {
        let known = ["podSelector", "namespaceSelector", "ipBlock"];
        if !entry.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())) {
            return false;
        }
        if let Some(block) = entry.get("ipBlock") {
            return inside(peer, text(&block["cidr"])) && !list(&block["except"]).iter().any(|cidr| inside(peer, text(cidr)));
        }
        let Some(pod) = pod_at(self.objects, peer) else { return false };
        match (entry.get("namespaceSelector"), entry.get("podSelector")) {
            (Some(namespaces), pods) => self.is_pod(pod, namespaces, pods.unwrap_or(&Value::Null)),
            (None, Some(pods)) => namespace(pod) == namespace(policy) && selects(pods, &labels(pod)),
            (None, None) => false,
        }
    }

    /// Whether an entry of `ports` of a `NetworkPolicy` means the flow's destination port.
    fn is_port(&self, entry: &Value) -> bool {
        if protocol_of(entry) != self.protocol {
            return false;
        }
        match (&entry["port"], entry["endPort"].as_u64()) {
            (Value::Null, _) => true,
            (Value::String(name), _) => self.destination_calls_it(name),
            (number, end) => {
                let first = number.as_u64().unwrap();
                (first..=end.unwrap_or(first)).contains(&u64::from(self.port))
            }
        }
    }

    /// Whether the destination pod gives its port of the flow's protocol and number this name.
    fn destination_calls_it(&self, name: &str) -> bool {
        let Some(spec) = self.destination.map(|pod| &pod["spec"]) else { return false };
        let beside = list(&spec["initContainers"]).iter().filter(|container| container["restartPolicy"] == "Always");
        let mut ports = list(&spec["containers"]).iter().chain(beside).flat_map(|container| list(&container["ports"]));
        ports.any(|port| port["name"] == name && protocol_of(port) == self.protocol && port["containerPort"] == self.port)
    }

    fn is_pod(&self, pod: &Value, namespaces: &Value, pods: &Value) -> bool {
        selects(namespaces, &self.namespace_labels(namespace(pod))) && selects(pods, &labels(pod))
    }

    /// The labels of a namespace: at least its name is among them, even if it is only known from what lies in it.
    fn namespace_labels(&self, name: &str) -> Vec<(String, String)> {
        let object = of_kind(self.objects, "Namespace").find(|object| object["metadata"]["name"] == name);
        let mut found = object.map(labels).unwrap_or_default();
        found.retain(|(key, _)| key != "kubernetes.io/metadata.name");
        found.push(("kubernetes.io/metadata.name".to_owned(), name.to_owned()));
        found
    }
}

/// Whether a `NetworkPolicy` isolates in a direction.
fn speaks_of(policy: &Value, direction: &str) -> bool {
    let types = list(&policy["spec"]["policyTypes"]);
    if types.is_empty() {
        return direction == "ingress" || !list(&policy["spec"]["egress"]).is_empty();
    }
    types.iter().any(|word| text(word).to_lowercase() == direction)
}

fn tier_of(object: &Value) -> Option<&str> {
    match text(&object["kind"]) {
        "ClusterNetworkPolicy" => object["spec"]["tier"].as_str(),
        "AdminNetworkPolicy" => Some("Admin"),
        "BaselineAdminNetworkPolicy" => Some("Baseline"),
        _ => None,
    }
}

/// Whether a label selector selects these labels; absent or empty it selects everything.
fn selects(selector: &Value, labels: &[(String, String)]) -> bool {
    let value_of = |key: &str| labels.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    let mut wanted = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = list(&selector["matchExpressions"]).iter();
    wanted.all(|(key, value)| value_of(key) == Some(text(value)))
        && expressions.all(|expression| {
            let value = value_of(text(&expression["key"]));
            let listed = list(&expression["values"]).iter().any(|one| Some(text(one)) == value);
            match text(&expression["operator"]) {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// Whether an address lies in a CIDR block: bit by bit.
fn inside(address: IpAddr, cidr: &str) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let (base, len) = cidr.split_once('/').unwrap();
    let (base, address) = (bits(base.parse().unwrap()), bits(address));
    let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
    base.len() == address.len() && (0..len.parse().unwrap()).all(|at| bit(&base, at) == bit(&address, at))
}

fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

fn namespace(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or("default")
}

fn labels(object: &Value) -> Vec<(String, String)> {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    labels.map(|(key, value)| (key.clone(), text(value).to_owned())).collect()
}

fn protocol_of(entry: &Value) -> &str {
    entry["protocol"].as_str().unwrap_or("TCP")
}

/// A list, or an empty one for anything else.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
