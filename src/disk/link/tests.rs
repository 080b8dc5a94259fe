//! Others who come to a place at the same time.

use super::*;

/// Whatever came to the path since we looked is another's, also between two steps of ours.
#[test]
fn removes_a_file_only_while_it_is_the_one_that_was_meant() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("link");
    symlink("/ours", &path).unwrap();
    let ours = Identity::of(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!remove(&path, &ours).unwrap(), "nothing is there");
    symlink("/ours", &path).unwrap();
    assert!(!remove(&path, &ours).unwrap(), "another link is there");
    let theirs = Identity::of(&path).unwrap();
    assert!(remove(&path, &theirs).unwrap());
    assert!(!path.is_symlink());
}

fn socket_place(directory: &Path) -> SocketPlace<'_> {
    SocketPlace {
        path: directory.join("a-reg.sock"),
        directory,
        stage: directory,
        borrowed: false,
    }
}

/// What a kubelet is given, and where it is made.
fn link_place(root: &Path) -> LinkPlace<'_> {
    LinkPlace {
        path: root.join("registry/a-reg.sock"),
        target: root.join("a-reg.sock"),
        socket: root.join("a-reg.sock"),
        stage: root,
        hard: false,
    }
}

/// A file that is somebody's, put over whatever is at `path`.
fn come(path: &Path) {
    let beside = path.with_extension("beside");
    fs::write(&beside, "theirs").unwrap();
    fs::rename(&beside, path).unwrap();
}

#[track_caller]
fn is_theirs(path: &Path) {
    assert_eq!(fs::read_to_string(path).unwrap(), "theirs");
}

/// What is at a link's place when it is looked at.
type Found = fn(&LinkPlace);

#[test]
fn a_link_takes_the_place_of_what_was_looked_at_and_of_nothing_else() {
    let nobody: Found = |_| {};
    let dead: Found = |place| symlink("/nowhere", &place.path).unwrap();
    let ours: Found = |place| symlink(&place.target, &place.path).unwrap();
    let hard: Found = |place| fs::hard_link(&place.socket, &place.path).unwrap();
    let wait = false;
    for (found, is_hard) in [(nobody, false), (dead, false), (ours, false), (hard, true)] {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("registry")).unwrap();
        let mut place = link_place(dir.path());
        place.hard = is_hard;
        bed::dead_socket(&place.socket);
        found(&place);

        let seen = place.look();
        come(&place.path);
        assert!(place.announce_over(seen, wait).unwrap().is_none());
        is_theirs(&place.path);
        assert!(place.announce(wait).is_err() && place.publish(wait).is_err());
        is_theirs(&place.path);

        fs::remove_file(&place.path).unwrap();
        found(&place);
        let seen = place.look();
        if !matches!(seen, Occupant::Ours(_)) {
            come(&place.path);
            assert!(place.publish_over(seen, wait).unwrap().is_none());
            is_theirs(&place.path);
            fs::remove_file(&place.path).unwrap();
        }
        let made = place.announce(wait).unwrap();
        assert!(place.is_ours(&made.identity) && made.made);
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }
}

#[test]
fn what_is_found_in_the_place_of_ours_is_not_ours() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("registry")).unwrap();
    let place = link_place(dir.path());
    come(&place.path);
    let made = place.made(Ok(()));
    assert!(
        matches!(made, Err(Obstacle::RemovedAtOnce)),
        "taken for ours"
    );
}

#[tokio::test]
async fn a_socket_takes_the_place_of_what_was_looked_at_and_of_nothing_else() {
    for is_dead in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let place = socket_place(dir.path());
        if is_dead {
            bed::dead_socket(&place.path);
        }
        let seen = place.look(None);
        come(&place.path);
        let listening = place.listen_over(seen, false);
        assert!(listening.unwrap().is_none());
        is_theirs(&place.path);
        assert!(place.listen(None, false).is_err());
        is_theirs(&place.path);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
