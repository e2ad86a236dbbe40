//! Who this host is, independent of its addresses: systemd's machine id.
//!
//! It is noted beside our lease so that two hosts that announce one public IP (cloned machines, NAT boxes) notice each
//! other instead of stealing each other's subnet. A host without one is simply not told apart.

use std::fs;
use std::path::Path;

/// Where the id lives, in order of preference. Source: machine-id(5), and dbus's older place.
const PLACES: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// This host's machine id: 32 lower-case hexadecimal digits; `None` when it has none (yet).
pub fn machine_id() -> Option<String> {
    PLACES.iter().find_map(|place| read(Path::new(place)))
}

fn read(place: &Path) -> Option<String> {
    let text = fs::read_to_string(place).ok()?;
    let id = text.trim().to_ascii_lowercase();
    // Images ship an empty file or the word "uninitialized" until first boot.
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_id_counts() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, id) in [
            ("0123456789abcdef0123456789ABCDEF\n", Some("0123456789abcdef0123456789abcdef")),
            ("uninitialized\n", None),
            ("", None),
            ("0123", None),
        ] {
            fs::write(file.path(), text).unwrap();
            assert_eq!(read(file.path()).as_deref(), id, "{text:?}");
        }
        assert_eq!(read(Path::new("/nonexistent/machine-id")), None);
    }
}
