//! How rules are listed just after they were put there, though somebody else may be changing them at that very moment.

/// How often rules are put there before it is given up to see them listed as they were put.
const TRIES: usize = 4;

/// Puts rules there by `put`, which says how they are listed then, until the listing is whole, or is the same twice: then that
/// is how this host's programs list them. `None` if neither comes about, so that nothing is known of what there is.
///
/// # Errors
/// The first one of `put`.
pub(super) fn steady<E>(
    mut put: impl FnMut() -> Result<String, E>,
    is_whole: impl Fn(&str) -> bool,
) -> Result<Option<String>, E> {
    let mut former = None;
    for _ in 0..TRIES {
        let listed = put()?;
        if is_whole(&listed) || former.as_ref() == Some(&listed) {
            return Ok(Some(listed));
        }
        former = Some(listed);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(listings: &[&str]) -> Result<Option<String>, &'static str> {
        let mut listings = listings.iter();
        steady(|| listings.next().map(ToString::to_string).ok_or("failed"), |listed| listed == "whole")
    }

    #[test]
    fn only_a_listing_that_is_whole_or_lasts_is_believed() {
        let found = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(listed(&["whole"]), found("whole"));
        assert_eq!(listed(&["", "lacking", "whole"]), found("whole"));
        assert_eq!(listed(&["", "other", "other"]), found("other"));
        assert_eq!(listed(&["a", "b", "c", "d", "whole"]), Ok(None));
        assert_eq!(listed(&["a"]), Err("failed"));
    }
}
