//! The user agent of a kubelet's gRPC library, which tells how new the kubelet is.
//!
//! A kubelet before 1.25 ignores links that are in its directory when it starts. Each kubelet is
//! built with a version of grpc-go, which every call names.

/// The grpc-go of kubelet 1.27. Kubelet 1.24, the last that ignores links, has 1.40. The gap is a
/// margin for distributions that build with another version.
const FOLLOWS_LINKS: (u32, u32) = (1, 51);

/// A caller with this user agent registers links that exist when it starts. False also if the user
/// agent is missing or is not grpc-go.
pub(super) fn follows_links(user_agent: &str) -> bool {
    version(user_agent).is_some_and(|version| version >= FOLLOWS_LINKS)
}

fn version(user_agent: &str) -> Option<(u32, u32)> {
    let mut words = user_agent.split_ascii_whitespace();
    let version = words.find_map(|word| word.strip_prefix("grpc-go/"))?;
    let (major, rest) = version.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_grpc_go_that_is_new_enough_is_known_to_follow_links() {
        for known in [
            "grpc-go/1.51.0",
            "grpc-go/1.76.0",
            "grpc-go/1.81.0-dev",
            "kubelet grpc-go/2.0.1",
        ] {
            assert!(follows_links(known), "{known}");
        }
        for unknown in [
            "",
            "grpc-go/1.27.1",
            "grpc-go/1.40.0",
            "grpc-go/1.47.0",
            "grpc-go/",
            "grpc-go/1",
            "grpc-go/x.99",
            "grpc-go/99999999999.1",
            "tonic/0.14.2",
            "grpc-python/1.60.0 grpc-c/37.0.0 (linux; chttp2)",
        ] {
            assert!(!follows_links(unknown), "{unknown}");
        }
    }
}
