//! Why a kubelet rejects a driver. The registration service transports only text, and this is the one
//! place that reads it.

use crate::grpc::proto::control::Cause;

/// Why a kubelet rejected a driver, as far as it makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The kubelet has a driver of the same name under another registration socket.
    AlreadyRegistered,
    /// The node has a label with another value for one of the driver's topology keys.
    TopologyCollision,
    Other,
}

impl Refusal {
    /// The phrases are those of the kubelet's CSI plugin, which has not changed them since 1.20.
    pub(crate) fn of(words: &str) -> Refusal {
        if words.contains("topology value collision") {
            Refusal::TopologyCollision
        } else if words.contains("already registered") {
            Refusal::AlreadyRegistered
        } else {
            Refusal::Other
        }
    }

    /// The code for programs.
    pub(crate) fn cause(self) -> Cause {
        match self {
            Refusal::AlreadyRegistered => Cause::AlreadyRegistered,
            Refusal::TopologyCollision => Cause::TopologyCollision,
            Refusal::Other => Cause::Unspecified,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Refusal;

    #[test]
    fn a_kubelets_words_say_which_refusal_it_is() {
        for (words, refusal) in [
            (
                "RegisterPlugin error -- failed to register plugin: Another driver with the same name is already registered with a higher supported version: \"1.0.0\"",
                Refusal::AlreadyRegistered,
            ),
            (
                "detected topology value collision: driver reported \"zone\":\"b\" but existing label is \"zone\":\"a\"",
                Refusal::TopologyCollision,
            ),
            ("the version is bad", Refusal::Other),
        ] {
            assert_eq!(Refusal::of(words), refusal, "{words}");
        }
    }
}
