//! Something that keeps going wrong, said once: when it starts, when its reason changes, and when it is over.

use std::fmt::Display;

/// What was last said about one matter.
#[derive(Debug, Default)]
pub struct Complaint {
    said: Option<String>,
}

impl Complaint {
    /// It goes wrong like this. Whether that is news, to be logged.
    pub fn is_news(&mut self, problem: impl Display) -> bool {
        let problem = problem.to_string();
        if self.said.as_ref() == Some(&problem) {
            return false;
        }
        self.said = Some(problem);
        true
    }

    /// Whether it went wrong when last heard of.
    pub fn is_said(&self) -> bool {
        self.said.is_some()
    }

    /// It goes right. Whether that is news, to be logged.
    pub fn is_over(&mut self) -> bool {
        self.said.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_is_news_once() {
        let mut complaint = Complaint::default();
        assert!(!complaint.is_over());
        assert!(complaint.is_news("refused") && !complaint.is_news("refused") && complaint.is_news("timed out"));
        assert!(complaint.is_over() && !complaint.is_over() && complaint.is_news("timed out"));
    }
}
