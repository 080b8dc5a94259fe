//! A drop-in of the unit that the packages have as an example: where it is, and how to install it.

use std::fmt;

const EXAMPLES: &str = "/usr/share/doc/node-storage-driver-registrar/examples";
const DIRECTORY: &str = "/etc/systemd/system/node-storage-driver-registrar.service.d";

/// Makes systemd use a drop-in that was added or changed.
const APPLY: &str = "systemctl daemon-reload && systemctl restart node-storage-driver-registrar";

/// An example drop-in; shown as its path in the packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DropIn(&'static str);

/// Lets the daemon connect to a driver that runs as another user.
pub(crate) const DRIVER_OF_ANOTHER_USER: DropIn = DropIn("driver-of-another-user.conf");
/// Lets the daemon serve HTTP on a TCP address.
pub(crate) const HTTP_TCP: DropIn = DropIn("http-tcp.conf");

impl DropIn {
    /// The commands that install it.
    pub(crate) fn install(self) -> String {
        format!("mkdir -p {DIRECTORY} && cp {self} {DIRECTORY}/ && {APPLY}")
    }
}

impl fmt::Display for DropIn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{EXAMPLES}/{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_drop_in_is_an_example_that_says_the_same_path() {
        for drop_in in [DRIVER_OF_ANOTHER_USER, HTTP_TCP] {
            let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/examples/");
            let text = std::fs::read_to_string(format!("{examples}{}", drop_in.0)).unwrap();
            let installed = format!("{DIRECTORY}/{}", drop_in.0);
            assert!(text.contains(&installed), "{text}");
            assert!(text.contains(APPLY), "{text}");
        }
    }
}
