//! Others who come to a place at the same time.

use super::*;

/// What a kubelet is given, and where it is made.
fn link_place(root: &Path) -> LinkPlace<'_> {
    LinkPlace {
        path: root.join("registry/a-reg.sock"),
        target: root.join("a-reg.sock"),
        socket: root.join("a-reg.sock"),
        stage: root,
    }
}

/// A file that is somebody's, put over whatever is at `path`.
pub(in crate::disk) fn come(path: &Path) {
    let beside = path.with_extension("beside");
    fs::write(&beside, "theirs").unwrap();
    fs::rename(&beside, path).unwrap();
}

#[track_caller]
pub(in crate::disk) fn is_theirs(path: &Path) {
    assert_eq!(fs::read_to_string(path).unwrap(), "theirs");
}

#[track_caller]
fn is_refused<T: std::fmt::Debug>(done: io::Result<T>) {
    assert_eq!(done.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
}

/// What is at a link's place when it is looked at.
type Found = fn(&LinkPlace);

#[test]
fn a_link_takes_the_place_of_what_was_looked_at_and_of_nothing_else() {
    let nobody: Found = |_| {};
    let dead: Found = |place| symlink("/nowhere", &place.path).unwrap();
    let ours: Found = |place| symlink(&place.target, &place.path).unwrap();
    for found in [nobody, dead, ours] {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("registry")).unwrap();
        let place = link_place(dir.path());
        bed::dead_socket(&place.socket);
        found(&place);

        let seen = place.look().unwrap();
        come(&place.path);
        is_refused(place.rename_over(&seen));
        is_theirs(&place.path);
        assert!(place.announce(false).is_err() && place.publish(false).is_err());
        is_theirs(&place.path);

        fs::remove_file(&place.path).unwrap();
        found(&place);
        let seen = place.look().unwrap();
        if !matches!(seen, Occupant::Ours(_)) {
            come(&place.path);
            is_refused(place.publish_over(&seen));
            is_theirs(&place.path);
            fs::remove_file(&place.path).unwrap();
        }
        let made = place.announce(false).unwrap();
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
    let made = place.made();
    assert!(
        matches!(made, Err(Obstacle::RemovedAtOnce)),
        "taken for ours"
    );
}
