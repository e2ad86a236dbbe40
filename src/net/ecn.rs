//! The two congestion bits of an IP header.

/// RFC 3168 section 5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not capable.
    #[default]
    NotEct = 0,
    /// Capable, codepoint ECT(1).
    Ect1 = 1,
    /// Capable, codepoint ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// Every mark, in the order of its bits.
    pub const ALL: [Self; 4] = [Self::NotEct, Self::Ect1, Self::Ect0, Self::Ce];

    /// From the lowest two bits of a TOS or traffic-class byte.
    #[inline]
    #[must_use]
    pub const fn from_tos(tos: u8) -> Self {
        match tos & 0b11 {
            1 => Self::Ect1,
            2 => Self::Ect0,
            3 => Self::Ce,
            _ => Self::NotEct,
        }
    }

    /// `tos` with this mark in its lowest two bits.
    #[inline]
    #[must_use]
    pub const fn in_tos(self, tos: u8) -> u8 {
        tos & !0b11 | self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_written_is_the_mark_read_and_the_other_bits_stay() {
        for tos in 0..=u8::MAX {
            for mark in Ecn::ALL {
                assert_eq!(Ecn::from_tos(mark.in_tos(tos)), mark);
                assert_eq!(mark.in_tos(tos) >> 2, tos >> 2);
            }
        }
    }
}
