//! Manifests that were named on the command line: files, folders, standard input.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::anyhow;

use super::super::Failure;
use crate::control::source::documents::Format;
use crate::control::source::files::{manifests_in, read_manifest};
use crate::control::source::reading::{self, Item};

/// The objects of one file.
pub struct Manifest {
    /// What the file is called, for messages.
    pub name: String,
    /// Its objects, in order.
    pub items: Vec<Item>,
}

/// Reads all of `paths`; `-` is standard input.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Manifest>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            found.push(parse("standard input".to_owned(), &stdin()?, Format::Yaml)?);
            continue;
        }
        let files = manifests_in(path).map_err(|error| unreadable(path, &error.to_string()))?;
        for file in files {
            let (text, format) = read_manifest(&file).map_err(|error| unreadable(&file, &error))?;
            found.push(parse(file.display().to_string(), &text, format)?);
        }
    }
    Ok(found)
}

fn parse(name: String, text: &str, format: Format) -> Result<Manifest, Failure> {
    match reading::read(text, format) {
        Ok(items) => Ok(Manifest { name, items }),
        Err(error) => Err(Failure::AnsweredNo(anyhow!("{name}: {error}"))),
    }
}

fn stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = io::stdin().lock().read_to_string(&mut text);
    read.map_err(|error| Failure::Usage(format!("cannot read standard input: {error}")))?;
    Ok(text)
}

fn unreadable(path: &Path, error: &str) -> Failure {
    Failure::Usage(format!("cannot read {}: {error}", path.display()))
}
