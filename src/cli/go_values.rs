//! Values as Go's `flag` package reads them, and the ranges of our own flags. Used as clap value parsers.
//!
//! Source: Go's `strconv.ParseBool` and `strconv.ParseInt` with base 0, which flannel's flags go through.

/// A Go boolean: `1 0 t f T F true false TRUE FALSE True False`.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// A Go integer: decimal, `0x`, `0o`, `0b` or octal after a leading `0`; single underscores may part digits.
pub fn integer(text: &str) -> Result<i64, String> {
    digits(text).ok_or_else(|| "expected a whole number".to_owned())
}

/// A Go integer within `low..=high`, in words for the error.
pub fn within(text: &str, low: i64, high: i64) -> Result<i64, String> {
    let value = integer(text)?;
    if (low..=high).contains(&value) { Ok(value) } else { Err(format!("expected a number from {low} to {high}")) }
}

/// A port; 0 stands for none or any.
pub fn port(text: &str) -> Result<u16, String> {
    within(text, 0, u16::MAX.into()).map(|port| u16::try_from(port).unwrap_or_default())
}

fn digits(text: &str) -> Option<i64> {
    let (negative, magnitude) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let (base, body, mut parted) = match magnitude.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, magnitude.get(2..)?, true),
        [b'0', b'o' | b'O', ..] => (8, magnitude.get(2..)?, true),
        [b'0', b'b' | b'B', ..] => (2, magnitude.get(2..)?, true),
        [b'0', _, ..] => (8, magnitude.get(1..)?, true),
        _ => (10, magnitude, false),
    };
    // `parted`: an underscore may come next, because a digit or the base prefix came just before.
    let mut value: i128 = 0;
    let mut last_is_digit = false;
    for character in body.chars() {
        if character == '_' {
            if !parted {
                return None;
            }
            (parted, last_is_digit) = (false, false);
        } else {
            value = value.checked_mul(base.into())?.checked_add(character.to_digit(base)?.into())?;
            (parted, last_is_digit) = (true, true);
        }
    }
    if !last_is_digit {
        return None;
    }
    i64::try_from(if negative { -value } else { value }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_go_s_and_no_others() {
        for text in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(boolean(text), Ok(true), "{text}");
        }
        for text in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(boolean(text), Ok(false), "{text}");
        }
        for text in ["", "yes", "no", "on", "tRUE", " true", "2"] {
            assert!(boolean(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn integers_are_go_literals() {
        let good = [
            ("0", 0),
            ("-1", -1),
            ("+7", 7),
            ("1439", 1439),
            ("0x1F", 31),
            ("0XfF", 255),
            ("0o17", 15),
            ("017", 15),
            ("0b101", 5),
            ("00", 0),
            ("1_000", 1000),
            ("0x_1f", 31),
            ("0_17", 15),
            ("-0x10", -16),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ];
        for (text, value) in good {
            assert_eq!(integer(text), Ok(value), "{text}");
        }
        let bad = [
            "",
            "-",
            "+",
            "x",
            "1x",
            "08",
            "0x",
            "0x_",
            "0b2",
            "_1",
            "1_",
            "1__0",
            " 1",
            "1 ",
            "1.0",
            "1e3",
            "--1",
            "0x-1",
            "é",
            "9223372036854775808",
            "0xffffffffffffffffffffffffffffffffffffffff",
        ];
        for text in bad {
            assert!(integer(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn ports_have_bounds() {
        assert_eq!(port("0x50"), Ok(80));
        assert_eq!(port("65535"), Ok(65535));
        assert!(port("65536").is_err() && port("-1").is_err());
    }
}
