//! Blocks of addresses.

use super::super::model::Block;
use super::at::At;
use super::remark::Notes;
use crate::net::{Address, Prefix, Prefix4, Prefix6};

/// An `ipBlock`. `None`: not understood, and remarked on.
///
/// Host bits are ignored, as older objects have them. An exception must be a smaller block inside, or it is no block at all.
pub(super) fn block(at: &At<'_>, notes: &mut Notes) -> Option<Block> {
    if !notes.knows(at, &["cidr", "except"]) {
        return None;
    }
    let mut block = network(&at.place("cidr"), notes)?;
    let list = at.place("except");
    match &mut block {
        Block::V4 { cidr, except } => *except = exceptions(&list, *cidr, notes)?,
        Block::V6 { cidr, except } => *except = exceptions(&list, *cidr, notes)?,
    }
    Some(block)
}

/// A CIDR block without exceptions. `None`: not understood, and remarked on.
pub(super) fn network(at: &At<'_>, notes: &mut Notes) -> Option<Block> {
    let text = at.text().unwrap_or_default();
    let v4 = text.parse::<Prefix4>().map(|cidr| Block::V4 { cidr, except: Vec::new() });
    let block = v4.or_else(|_| text.parse::<Prefix6>().map(|cidr| Block::V6 { cidr, except: Vec::new() }));
    if block.is_err() {
        notes.add(at, "a CIDR block, such as `10.0.0.0/8` or `fd00::/8`");
    }
    block.ok()
}

fn exceptions<A: Address>(at: &At<'_>, cidr: Prefix<A>, notes: &mut Notes) -> Option<Vec<Prefix<A>>> {
    let Some(items) = at.items() else {
        if !at.value.is_null() {
            notes.add(at, "a list of CIDR blocks");
        }
        return at.value.is_null().then(Vec::new);
    };
    let mut found = Vec::new();
    for item in items {
        let except = item.text().and_then(|text| text.parse::<Prefix<A>>().ok());
        let Some(except) = except.filter(|except| cidr.covers(except) && except.len() > cidr.len()) else {
            notes.add(&item, format!("a CIDR block inside {cidr}"));
            return None;
        };
        found.push(except);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::model::ObjectId;
    use super::*;

    #[test]
    fn blocks() {
        let v4 = |cidr: &str, except: &[&str]| {
            let except = except.iter().map(|text| text.parse().unwrap()).collect();
            Some(Block::V4 { cidr: cidr.parse().unwrap(), except })
        };
        let v6 = |cidr: &str| Some(Block::V6 { cidr: cidr.parse().unwrap(), except: vec![] });
        let table = [
            (json!({"cidr": "10.0.0.0/8"}), v4("10.0.0.0/8", &[])),
            (json!({"cidr": "10.1.2.3/8", "except": null}), v4("10.0.0.0/8", &[])),
            (
                json!({"cidr": "0.0.0.0/0", "except": ["10.1.2.3/16", "10.0.0.0/8"]}),
                v4("0.0.0.0/0", &["10.1.0.0/16", "10.0.0.0/8"]),
            ),
            (json!({"cidr": "fd00::1/8", "except": []}), v6("fd00::/8")),
            (json!({"cidr": "::ffff:10.0.0.0/104"}), v6("::ffff:10.0.0.0/104")),
            (json!({}), None),
            (json!("10.0.0.0/8"), None),
            (json!({"cidr": "10.0.0.0"}), None),
            (json!({"cidr": "10.0.0.0/33"}), None),
            (json!({"cidr": "fd00::/129"}), None),
            (json!({"cidr": 10}), None),
            (json!({"cidr": "10.0.0.0/8", "except": "10.1.0.0/16"}), None),
            (json!({"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"]}), None),
            (json!({"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}), None),
            (json!({"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "fd00::/16"]}), None),
            (json!({"cidr": "10.0.0.0/8", "except": ["10.1.0.0"]}), None),
            (json!({"cidr": "10.0.0.0/8", "unless": ["10.1.0.0/16"]}), None),
        ];
        for (value, expected) in table {
            let mut notes = Notes::new(ObjectId::Node("n".into()));
            assert_eq!(block(&At::root(&value), &mut notes), expected, "{value}");
            assert_eq!(notes.into_remarks().len(), usize::from(expected.is_none()), "{value}");
        }
    }
}
