//! How the kernel backs large tables with memory.

use std::io;
use std::sync::atomic::AtomicU64;

/// Huge pages are a multiple of ordinary ones, and those of 4 KiB everywhere that matters; a larger page only makes the advice
/// be refused.
const PAGE: usize = 4096;

/// Asks for huge pages behind `words`, where the kernel gives them on request (`transparent_hugepage=madvise`): a look into a
/// table of many megabytes costs less with them. Nothing that `words` holds changes; the few bytes outside of whole pages stay as
/// they are.
///
/// # Errors
/// `EINVAL` on kernels without them. Everything works all the same.
pub fn prefer_huge_pages(words: &[AtomicU64]) -> io::Result<()> {
    let bytes = size_of_val(words);
    let skip = words.as_ptr().cast::<u8>().align_offset(PAGE);
    let whole = bytes.saturating_sub(skip) / PAGE * PAGE;
    if whole == 0 {
        return Ok(());
    }
    // SAFETY: `skip + whole <= bytes`, so the range lies in the one allocation that `words` borrows; the advice concerns how it is
    // backed and changes no byte.
    let done = unsafe { libc::madvise(words.as_ptr().cast_mut().cast::<u8>().add(skip).cast(), whole, libc::MADV_HUGEPAGE) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn advice_changes_nothing() {
        for len in [0, 1, 511, 600, 1 << 19] {
            let words: Vec<AtomicU64> = (0..len).map(AtomicU64::new).collect();
            match prefer_huge_pages(&words) {
                Ok(()) => {}
                Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{error}"),
            }
            assert!(words.iter().zip(0..).all(|(word, at)| word.load(Relaxed) == at));
        }
    }
}
