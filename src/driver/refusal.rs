//! Why a kubelet rejects a driver. The registration service transports only text, and this is the one
//! place that reads it.

use crate::grpc::proto::control::Cause;

/// The code for programs. The phrases are those of the kubelet's CSI plugin, which has not changed them
/// since 1.20.
pub(crate) fn cause(words: &str) -> Cause {
    if words.contains("topology value collision") {
        // The node has a label with another value for one of the driver's topology keys.
        Cause::TopologyCollision
    } else if words.contains("already registered") {
        // The kubelet has a driver of the same name under another registration socket.
        Cause::AlreadyRegistered
    } else {
        Cause::Unspecified
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelets_words_say_which_refusal_it_is() {
        for (words, refusal) in [
            (
                "RegisterPlugin error -- failed to register plugin: Another driver with the same name is already registered with a higher supported version: \"1.0.0\"",
                Cause::AlreadyRegistered,
            ),
            (
                "detected topology value collision: driver reported \"zone\":\"b\" but existing label is \"zone\":\"a\"",
                Cause::TopologyCollision,
            ),
            ("the version is bad", Cause::Unspecified),
        ] {
            assert_eq!(cause(words), refusal, "{words}");
        }
    }
}
