//! Network configs as operators write them: good ones with what they mean, bad ones with the error they must give.

use felt::lease::{Backend, NetworkConfig};

/// Text and the ranges it gives: `network/subnet_len min..max`, IPv4 then IPv6.
const GOOD: &[(&str, &str)] = &[
    // flannel's own cases
    (r#"{"network":"10.3.0.0/16"}"#, "10.3.0.0/16 /24 10.3.1.0..10.3.255.0"),
    (
        r#"{"Network":"10.3.0.0/16","SubnetMin":"10.3.5.0","SubnetMax":"10.3.8.0","SubnetLen":28}"#,
        "10.3.0.0/16 /28 10.3.5.0..10.3.8.0",
    ),
    (r#"{"enableIPv6":true,"ipv6Network":"fc00::/48","enableIPv4":false}"#, "fc00::/48 /64 fc00:0:0:1::..fc00:0:0:ffff::"),
    (
        r#"{"EnableIPv6":true,"IPv6Network":"fc00::/48","IPv6SubnetMin":"fc00:0:0:1::","IPv6SubnetMax":"fc00:0:0:f::","IPv6SubnetLen":124,"enableIPv4":false}"#,
        "fc00::/48 /124 fc00:0:0:1::..fc00:0:0:f::",
    ),
    // Go's JSON habits
    (r#"{"NETWORK":"10.3.0.0/16","subnetlen":26}"#, "10.3.0.0/16 /26 10.3.0.64..10.3.255.192"),
    (r#"{"Network":"10.3.4.5/16"}"#, "10.3.0.0/16 /24 10.3.1.0..10.3.255.0"),
    (r#"{"Network":"10.3.0.0/16","Network":"10.4.0.0/16"}"#, "10.4.0.0/16 /24 10.4.1.0..10.4.255.0"),
    (r#"{"Network":"10.3.0.0/16","SubnetLen":26,"subnetLen":27}"#, "10.3.0.0/16 /27 10.3.0.32..10.3.255.224"),
    (r#"{"Network":"10.3.0.0/16","SubnetLen":null,"EnableIPv4":null}"#, "10.3.0.0/16 /24 10.3.1.0..10.3.255.0"),
    (r#"{"Network":"10.3.0.0/16","SubnetLen":0,"SubnetMin":"0.0.0.0"}"#, "10.3.0.0/16 /24 10.3.1.0..10.3.255.0"),
    (r#"{"Network":"10.3.0.0/16","IPv6Network":null,"IPv6SubnetMin":null}"#, "10.3.0.0/16 /24 10.3.1.0..10.3.255.0"),
    (
        r#"{"Network":"10.3.0.0/16","Comment":{"SubnetLen":[8]},"Networks":["1.2.3.0/24"]}"#,
        "10.3.0.0/16 /24 10.3.1.0..10.3.255.0",
    ),
    ("\r\n\t{ \"Network\" : \"10.3.0.0/16\" }\n", "10.3.0.0/16 /24 10.3.1.0..10.3.255.0"),
    // borders of the rules
    (r#"{"Network":"10.0.0.0/28"}"#, "10.0.0.0/28 /30 10.0.0.4..10.0.0.12"),
    (r#"{"Network":"10.0.0.0/16","SubnetLen":18}"#, "10.0.0.0/16 /18 10.0.64.0..10.0.192.0"),
    (r#"{"Network":"10.0.0.0/16","SubnetLen":30}"#, "10.0.0.0/16 /30 10.0.0.4..10.0.255.252"),
    (r#"{"Network":"10.0.0.0/16","SubnetMin":"10.0.0.0","SubnetMax":"10.0.0.0"}"#, "10.0.0.0/16 /24 10.0.0.0..10.0.0.0"),
    (r#"{"Network":"10.0.0.0/8"}"#, "10.0.0.0/8 /24 10.0.1.0..10.255.255.0"),
    (
        r#"{"Network":"10.3.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:5::/124"}"#,
        "10.3.0.0/16 /24 10.3.1.0..10.3.255.0, fd00:5::/124 /126 fd00:5::4..fd00:5::c",
    ),
];

/// Text and how the error begins.
const BAD: &[(&str, &str)] = &[
    // not a config at all
    ("", "expected a JSON object"),
    ("null", "expected a JSON object"),
    ("\"10.5.0.0/16\"", "expected a JSON object"),
    ("\u{feff}{\"Network\":\"10.5.0.0/16\"}", "expected a JSON object"),
    (r#"{"Network":"10.5.0.0/16",}"#, "expected a JSON object"),
    (r#"{\"Network\":\"10.5.0.0/16\"}"#, "expected a JSON object"),
    (r#"{"Network":"10.5.0.0/16"} x"#, "expected a JSON object"),
    (r#"{"Network":"10.5.0.0/16""#, "expected a JSON object"),
    // Network
    ("{}", "`Network` is missing; add"),
    (r#"{"Network":"0.0.0.0/0"}"#, "`Network` is missing"),
    (r#"{"EnableIPv6":true,"IPv6Network":"fc00::/48"}"#, "`Network` is missing"),
    (r#"{"Network":null}"#, "`Network`: expected a string"),
    (r#"{"Network":""}"#, "`Network`: expected a string"),
    (r#"{"Network":"10.5.0.0"}"#, "`Network`: expected a string"),
    (r#"{"Network":"10.5.0.0/33"}"#, "`Network`: expected a string"),
    (r#"{"Network":"10.05.0.0/16"}"#, "`Network`: expected a string"),
    (r#"{"Network":"fd00::/48"}"#, "`Network`: expected a string"),
    (r#"{"Network":["10.5.0.0/16"]}"#, "`Network`: expected a string"),
    (r#"{"Network":"10.0.0.0/32"}"#, "`Network`: expected a network of /28 or larger"),
    (r#"{"Network":"10.0.0.0/29"}"#, "`Network`: expected a network of /28 or larger"),
    (r#"{"Network":"127.0.0.0/16"}"#, "`Network`: expected a network of ordinary unicast addresses"),
    (r#"{"Network":"224.0.0.0/8"}"#, "`Network`: expected a network of ordinary unicast addresses"),
    // SubnetLen
    (r#"{"Network":"10.5.0.0/16","SubnetLen":31}"#, "`SubnetLen`: expected a length from 18"),
    (r#"{"Network":"10.5.0.0/16","SubnetLen":8}"#, "`SubnetLen`: expected a length from 18"),
    (r#"{"Network":"10.5.0.0/16","SubnetLen":17}"#, "`SubnetLen`: expected a length from 18"),
    (r#"{"Network":"10.5.0.0/16","SubnetLen":280}"#, "`SubnetLen`: expected a length from 18"),
    (r#"{"Network":"10.5.0.0/16","SubnetLen":"24"}"#, "`SubnetLen`: expected a whole number"),
    (r#"{"Network":"10.5.0.0/16","SubnetLen":24.0}"#, "`SubnetLen`: expected a whole number"),
    (r#"{"Network":"10.5.0.0/16","SubnetLen":-1}"#, "`SubnetLen`: expected a whole number"),
    // SubnetMin, SubnetMax
    (r#"{"Network":"10.5.0.0/16","SubnetMin":"10.6.1.0"}"#, "`SubnetMin`: expected an address inside"),
    (r#"{"Network":"10.5.0.0/16","SubnetMax":"10.4.1.0"}"#, "`SubnetMax`: expected an address inside"),
    (r#"{"Network":"10.5.0.0/16","SubnetMin":"10.5.1.1"}"#, "`SubnetMin`: expected the first address of a /24"),
    (r#"{"Network":"10.5.0.0/16","SubnetMax":"10.5.9.128"}"#, "`SubnetMax`: expected the first address of a /24"),
    (r#"{"Network":"10.5.0.0/16","SubnetMin":"10.5.9.0","SubnetMax":"10.5.8.0"}"#, "`SubnetMin`: expected an address not above"),
    (r#"{"Network":"10.5.0.0/16","SubnetMin":null}"#, "`SubnetMin`: expected a string"),
    (r#"{"Network":"10.5.0.0/16","SubnetMin":"10.5.1.0/24"}"#, "`SubnetMin`: expected a string"),
    // switches
    (r#"{"Network":"10.5.0.0/16","EnableIPv4":"true"}"#, "`EnableIPv4`: expected true or false"),
    (r#"{"Network":"10.5.0.0/16","EnableIPv4":false}"#, "`EnableIPv4`: expected at least one"),
    (r#"{"Network":"10.5.0.0/16","EnableNFTables":1}"#, "`EnableNFTables`: expected true or false"),
    // IPv6
    (r#"{"EnableIPv4":false,"EnableIPv6":true}"#, "`IPv6Network` is missing"),
    (r#"{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"::/0"}"#, "`IPv6Network` is missing"),
    (r#"{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/125"}"#, "`IPv6Network`: expected a network of /124"),
    (
        r#"{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/48","IPv6SubnetLen":49}"#,
        "`IPv6SubnetLen`: expected a length from 50",
    ),
    (
        r#"{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/48","IPv6SubnetLen":127}"#,
        "`IPv6SubnetLen`: expected a length from 50",
    ),
    (
        r#"{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00::/48","IPv6SubnetMin":"fd00::1"}"#,
        "`IPv6SubnetMin`: expected the first address",
    ),
    // Backend
    (r#"{"Network":"10.5.0.0/16","Backend":null}"#, "`Backend`: expected an object"),
    (r#"{"Network":"10.5.0.0/16","Backend":"udp"}"#, "`Backend`: expected an object"),
    (r#"{"Network":"10.5.0.0/16","Backend":{}}"#, "`Backend.Type`: expected a backend type"),
    (r#"{"Network":"10.5.0.0/16","Backend":{"Type":"magic"}}"#, "`Backend.Type`: expected \"udp\""),
    (r#"{"Network":"10.5.0.0/16","Backend":{"Type":"udp","Port":"9555"}}"#, "`Backend.Port`: expected a whole number"),
    (r#"{"Network":"10.5.0.0/16","Backend":{"Type":"udp","Port":0}}"#, "`Backend.Port`: expected a whole number"),
    (r#"{"Network":"10.5.0.0/16","Backend":{"Type":"udp","Port":70000}}"#, "`Backend.Port`: expected a whole number"),
    (r#"{"Network":"10.5.0.0/16","Backend":{"Type":"udp","MTU":60}}"#, "`Backend.MTU`: expected a whole number"),
];

#[test]
fn good_configs_mean_what_flannel_makes_of_them() {
    for (text, expected) in GOOD {
        let config = NetworkConfig::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let v4 = config.ipv4.map(|range| format!("{} /{} {}..{}", range.network, range.subnet_len, range.min, range.max));
        let v6 = config.ipv6.map(|range| format!("{} /{} {}..{}", range.network, range.subnet_len, range.min, range.max));
        assert_eq!([v4, v6].into_iter().flatten().collect::<Vec<_>>().join(", "), *expected, "{text}");
        assert_eq!(NetworkConfig::parse(&config.to_json()), Ok(config), "served and read again: {text}");
    }
}

#[test]
fn bad_configs_are_refused_with_the_key_the_fault_and_the_remedy() {
    for (text, expected) in BAD {
        let error = NetworkConfig::parse(text).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}\n  expected: {expected}…\n  found: {error}");
        assert!(error.contains("; ") || error.contains("line "), "says neither what to do nor where: {error}");
    }
}

#[test]
fn backends() {
    let backend = |text: &str| {
        let text = format!(r#"{{"Network":"10.5.0.0/16"{text}}}"#);
        NetworkConfig::parse(&text).unwrap().backend
    };
    assert_eq!(backend(""), Backend::Udp { port: 8285, mtu: None });
    assert_eq!(backend(r#","Backend":{"Type":"udp","Port":9555}"#), Backend::Udp { port: 9555, mtu: None });
    assert_eq!(backend(r#","backend":{"type":"UDP","mtu":1400}"#), Backend::Udp { port: 8285, mtu: Some(1400) });
    assert_eq!(backend(r#","Backend":{"Type":"vxlan","MTU":1400}"#), Backend::Other { kind: "vxlan" });
}

#[test]
fn a_range_knows_which_prefixes_touch_it() {
    let text = r#"{"Network":"10.5.0.0/16","SubnetMin":"10.5.3.0","SubnetMax":"10.5.8.0"}"#;
    let range = NetworkConfig::parse(text).unwrap().ipv4.unwrap();
    for (prefix, touches) in [
        ("10.5.2.0/24", false),
        ("10.5.2.0/23", true),
        ("10.5.3.0/24", true),
        ("10.5.8.128/25", true),
        ("10.5.9.0/24", false),
        ("10.0.0.0/8", true),
        ("10.50.1.0/24", false),
    ] {
        assert_eq!(range.touches(&prefix.parse().unwrap()), touches, "{prefix}");
    }
}
