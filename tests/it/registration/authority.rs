//! The path of the socket as `:authority`, as grpc-go sends it: raw or percent-encoded.

use bed::raw;
use bed::scene::NAME;

use crate::setup;

#[test]
fn the_path_of_the_socket_is_taken_for_an_authority() {
    let scene = setup().started();
    let _driver = scene.node.driver(NAME);
    scene.wait_published(NAME);
    let link = scene.node.link(NAME);
    let path = link.display().to_string();
    let encoded = path.replace('/', "%2F");
    for authority in ["localhost", &path, &encoded] {
        let answer = raw::get_info(&link, authority).unwrap();
        let has_name = answer
            .windows(NAME.len())
            .any(|part| part == NAME.as_bytes());
        assert!(has_name, "{authority}: {answer:?}");
    }
}
