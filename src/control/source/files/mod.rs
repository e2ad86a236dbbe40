//! Policy objects from folders and files of manifests on this machine.
//!
//! | what happens | what follows |
//! |---|---|
//! | a file is new or changed | in force within a second, once it has looked the same in two looks: files are seen half-written |
//! | a file cannot be read, or not parsed | said once; what it held before stays in force, whole |
//! | an object in it cannot be read | said once; that object stays as it was; if it cannot be told which one it is, nothing of the file goes |
//! | a file is gone from its folder in two looks | so is what it held |
//! | a folder, or a file that was named itself, is gone | said once; what was there stays in force |
//! | two files hold an object of one name | the later file counts, in the order the paths were given and then by name; said once |
//!
//! The source is synced once every file could be parsed: what a broken file holds would otherwise be open.
//!
//! Files are looked at four times a second rather than waited for: inotify hears nothing of network file systems and of changes
//! below an overlay, is short in nested containers, and would have to follow the links by which Kubernetes swaps a mounted
//! `ConfigMap`. A look is one `stat` a file, and slows down where there are very many of them.
//!
//! Of a folder, files directly in it count whose names end in `.yaml`, `.yml` or `.json`; hidden ones, what editors leave behind
//! and folders do not. A file that is named itself counts whatever its name; what is not `.json` is read as YAML.

mod folder;
mod look;
mod watch;

pub use look::{manifests_in, read as read_manifest};
pub use watch::FileSource;
