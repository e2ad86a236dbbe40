//! How congestion marks pass through the tunnel: RFC 6040, normal mode.

use crate::net::Ecn;

/// The outer mark of a packet at encapsulation: a copy, congestion included (section 4.1).
#[inline]
pub(super) const fn outer(inner: Ecn) -> Ecn {
    inner
}

/// The mark a packet leaves the tunnel with (section 4.2, figure 4); `None` when it is to be dropped.
///
/// A flannel peer leaves the outer header unmarked; the inner mark then stays as it is.
#[inline]
pub(super) const fn merged(inner: Ecn, outer: Ecn) -> Option<Ecn> {
    match (inner, outer) {
        // A router saw congestion and could only say so by a mark this sender does not react to: loss is what it reacts to.
        (Ecn::NotEct, Ecn::Ce) => None,
        (Ecn::NotEct, _) => Some(Ecn::NotEct),
        (Ecn::Ce, _) | (_, Ecn::Ce) => Some(Ecn::Ce),
        (Ecn::Ect0, Ecn::Ect1) => Some(Ecn::Ect1),
        (Ecn::Ect0 | Ecn::Ect1, _) => Some(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decapsulation_follows_the_table_of_rfc_6040() {
        use Ecn::{Ce, Ect0, Ect1, NotEct};
        let arriving = [NotEct, Ect0, Ect1, Ce];
        let table = [
            (NotEct, [Some(NotEct), Some(NotEct), Some(NotEct), None]),
            (Ect0, [Some(Ect0), Some(Ect0), Some(Ect1), Some(Ce)]),
            (Ect1, [Some(Ect1), Some(Ect1), Some(Ect1), Some(Ce)]),
            (Ce, [Some(Ce), Some(Ce), Some(Ce), Some(Ce)]),
        ];
        for (inner, row) in table {
            for (outer, expected) in arriving.into_iter().zip(row) {
                assert_eq!(merged(inner, outer), expected, "inner {inner:?}, outer {outer:?}");
            }
        }
    }

    #[test]
    fn encapsulation_copies_every_mark() {
        assert_eq!(Ecn::ALL.map(outer), Ecn::ALL);
    }
}
