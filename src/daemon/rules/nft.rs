//! The program `nft`: whole tables, each put there or taken away in one transaction of the kernel's.

use super::ground::{Names, RuleSet};
use super::nft_text;
use super::steady::steady;
use crate::sys::program::{self, ProgramError};

const NFT: &str = "nft";

/// Whether the kernel would take such a table. Nothing is changed.
pub(super) fn check(names: &Names, rules: &RuleSet, random: bool) -> Result<(), ProgramError> {
    program::run(NFT, &["-c", "-f", "-"], &nft_text::replace(names, rules, random)).map(drop)
}

/// Puts our table there instead of what there is of it; how it is listed then, if that is [steady].
pub(super) fn replace(names: &Names, rules: &RuleSet, random: bool) -> Result<Option<String>, ProgramError> {
    let script = nft_text::replace(names, rules, random);
    let put = || {
        program::run(NFT, &["-f", "-"], &script)?;
        list(names)
    };
    steady(put, |listed| nft_text::is_whole(&script, listed))
}

/// Our table as it is now.
///
/// # Errors
/// Also when there is none.
pub(super) fn list(names: &Names) -> Result<String, ProgramError> {
    program::run(NFT, &["-s", "list", "table", "ip", &names.table], "")
}

/// Removes a table, if it is there.
pub(super) fn remove(table: &str) -> Result<(), ProgramError> {
    program::run(NFT, &["-f", "-"], &nft_text::remove(table)).map(drop)
}
