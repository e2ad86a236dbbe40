//! What Docker is to be started with on a node: options that follow from the subnet file. Pure: text in, text out.
//!
//! Source: the output of flannel's `mk-docker-opts.sh`, byte for byte.

use super::subnet_env::assignments;

/// What is to be written.
#[derive(Clone, Copy, Debug)]
pub struct DockerOpts<'a> {
    /// Each option as a variable of its own.
    pub individual: bool,
    /// The variable that holds all options, if there is to be one.
    pub combined: Option<&'a str>,
    /// Say whether Docker is to masquerade: if nobody else does.
    pub ip_masq: bool,
}

/// The subnet file does not say what it should.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DockerOptsError {
    /// Neither yes nor no.
    #[error("FLANNEL_IPMASQ: expected `true` or `false`, found `{0}`")]
    IpMasq(String),
    /// It could not stand in the file that is written.
    #[error("{name}: expected no quotes, blanks or `$`, found `{value}`")]
    Value {
        /// The variable.
        name: &'static str,
        /// What it says.
        value: String,
    },
}

impl DockerOpts<'_> {
    /// The file for the subnet file that reads `subnet_env`. What that does not name is left out.
    ///
    /// # Errors
    /// When a value makes no sense.
    pub fn render(self, subnet_env: &str) -> Result<String, DockerOptsError> {
        let value = |name: &'static str| -> Result<Option<&str>, DockerOptsError> {
            let found = assignments(subnet_env).filter(|(found, _)| *found == name).last().map(|(_, value)| value);
            match found.filter(|value| !value.is_empty()) {
                Some(value) if value.contains(['"', '\'', '$', '`', '\\', ' ', '\t']) => {
                    Err(DockerOptsError::Value { name, value: value.to_owned() })
                }
                value => Ok(value),
            }
        };
        let masquerade = match value("FLANNEL_IPMASQ")?.filter(|_| self.ip_masq) {
            // Once is enough.
            Some("true") => Some("--ip-masq=false".to_owned()),
            Some("false") => Some("--ip-masq=true".to_owned()),
            Some(other) => return Err(DockerOptsError::IpMasq(other.to_owned())),
            None => None,
        };
        // In the order in which a shell lists its variables.
        let options = [
            ("DOCKER_OPT_BIP", value("FLANNEL_SUBNET")?.map(|subnet| format!("--bip={subnet}"))),
            ("DOCKER_OPT_IPMASQ", masquerade),
            ("DOCKER_OPT_MTU", value("FLANNEL_MTU")?.map(|mtu| format!("--mtu={mtu}"))),
        ];
        let options: Vec<(&str, String)> = options.into_iter().filter_map(|(name, option)| Some((name, option?))).collect();
        let mut text = String::new();
        if self.individual {
            text.extend(options.iter().map(|(name, option)| format!("{name}=\"{option}\"\n")));
        }
        if let Some(key) = self.combined {
            // The script puts a blank before each.
            let all = options.iter().map(|(_, option)| [" ", option].concat()).collect::<String>();
            text.extend([key, "=\"", &all, "\"\n"]);
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: DockerOpts = DockerOpts { individual: true, combined: Some("DOCKER_OPTS"), ip_masq: true };

    #[test]
    fn docker_masquerades_if_nobody_else_does() {
        let text = |masq: &str| BOTH.render(&format!("FLANNEL_IPMASQ={masq}\n"));
        assert_eq!(text("true").unwrap(), "DOCKER_OPT_IPMASQ=\"--ip-masq=false\"\nDOCKER_OPTS=\" --ip-masq=false\"\n");
        assert_eq!(text("false").unwrap(), "DOCKER_OPT_IPMASQ=\"--ip-masq=true\"\nDOCKER_OPTS=\" --ip-masq=true\"\n");
        assert_eq!(text("").unwrap(), "DOCKER_OPTS=\"\"\n");
        assert_eq!(text("yes").unwrap_err(), DockerOptsError::IpMasq("yes".to_owned()));
        // Where it is not asked for, it does not matter either.
        assert_eq!(DockerOpts { ip_masq: false, ..BOTH }.render("FLANNEL_IPMASQ=yes\n").unwrap(), "DOCKER_OPTS=\"\"\n");
    }

    #[test]
    fn the_last_of_several_counts_as_in_a_shell() {
        let text = "# old\nFLANNEL_MTU=1400\nexport FLANNEL_MTU=\"1472\"\nOTHER=x\n";
        assert_eq!(BOTH.render(text).unwrap(), "DOCKER_OPT_MTU=\"--mtu=1472\"\nDOCKER_OPTS=\" --mtu=1472\"\n");
    }

    #[test]
    fn nothing_is_smuggled_into_the_file() {
        let error = BOTH.render("FLANNEL_SUBNET=10.5.1.1/24 --privileged\n").unwrap_err();
        assert!(error.to_string().contains("FLANNEL_SUBNET: expected no quotes"), "{error}");
    }
}
