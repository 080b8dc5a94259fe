//! The watcher on real directories.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tokio::time::timeout;

use super::*;

async fn told(watcher: &mut Watcher<&'static str>) -> WatchEvent<&'static str> {
    timeout(Duration::from_secs(5), watcher.changed())
        .await
        .expect("no change was told")
}

async fn is_quiet(watcher: &mut Watcher<&'static str>) -> bool {
    is_quiet_for(Duration::from_millis(100), watcher).await
}

async fn is_quiet_for(time: Duration, watcher: &mut Watcher<&'static str>) -> bool {
    timeout(time, watcher.changed()).await.is_err()
}

/// Events arrive in any number of pieces: takes them until `subject` was named.
async fn hears_of(watcher: &mut Watcher<&'static str>, subject: &'static str) {
    while told(watcher).await != WatchEvent::Subjects(BTreeSet::from([subject])) {}
    while !is_quiet(watcher).await {}
}

#[tokio::test]
async fn tells_of_a_file_whose_parents_come_one_by_one() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a/b/csi.sock");
    let mut watcher = Watcher::new(Reach::default());
    watcher.follow(&path, &"driver");
    fs::create_dir(root.path().join("a")).unwrap();
    hears_of(&mut watcher, "driver").await;
    fs::create_dir(root.path().join("a/b")).unwrap();
    hears_of(&mut watcher, "driver").await;
    fs::write(&path, "").unwrap();
    hears_of(&mut watcher, "driver").await;
}

#[tokio::test]
async fn follows_a_directory_that_is_replaced() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a/csi.sock");
    fs::create_dir(root.path().join("a")).unwrap();
    let mut watcher = Watcher::new(Reach::default());
    watcher.follow(&path, &"driver");
    for _ in 0..3 {
        fs::remove_dir_all(root.path().join("a")).unwrap();
        fs::create_dir(root.path().join("a")).unwrap();
        hears_of(&mut watcher, "driver").await;
        fs::write(&path, "").unwrap();
        hears_of(&mut watcher, "driver").await;
    }
    fs::rename(root.path().join("a"), root.path().join("b")).unwrap();
    fs::create_dir(root.path().join("a")).unwrap();
    hears_of(&mut watcher, "driver").await;
    fs::write(&path, "").unwrap();
    hears_of(&mut watcher, "driver").await;
}

#[tokio::test]
async fn sees_into_a_directory_that_is_made_while_the_watches_are_set() {
    for _ in 0..200 {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("a");
        let path = directory.join("csi.sock");
        let mut watcher = Watcher::new(Reach::default());
        let maker = std::thread::spawn({
            let directory = directory.clone();
            move || fs::create_dir(directory).unwrap()
        });
        watcher.follow(&path, &"driver");
        maker.join().unwrap();
        while timeout(Duration::from_millis(5), watcher.changed())
            .await
            .is_ok()
        {}
        fs::write(&path, "").unwrap();
        told(&mut watcher).await;
    }
}

#[tokio::test]
async fn keeps_quiet_about_reads_writes_and_other_files() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("csi.sock");
    fs::write(&path, "").unwrap();
    let mut watcher = Watcher::new(Reach::default());
    watcher.follow(&path, &"driver");
    for n in 0..100 {
        fs::write(root.path().join(format!("other-{n}")), "x").unwrap();
        fs::read_dir(root.path()).unwrap().count();
        fs::read(&path).unwrap();
    }
    assert!(is_quiet(&mut watcher).await);
}

#[tokio::test]
async fn says_that_everything_must_be_looked_at_when_events_were_lost() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a/csi.sock");
    fs::create_dir(root.path().join("a")).unwrap();
    let mut watcher = Watcher::new(Reach::default());
    watcher.follow(&path, &"driver");
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    // Two events each, and no two of a kind in a row, which the kernel would make one.
    for _ in 0..=limit / 2 {
        fs::write(&path, "").unwrap();
        fs::remove_file(&path).unwrap();
    }
    // What comes after the overflow is not told, the end of a watch included.
    fs::remove_dir(root.path().join("a")).unwrap();
    fs::create_dir(root.path().join("a")).unwrap();
    while told(&mut watcher).await != WatchEvent::Everything {}
    while !is_quiet(&mut watcher).await {}
    fs::write(&path, "").unwrap();
    hears_of(&mut watcher, "driver").await;
}

/// Nobody waits for the end of a queue that may be filled as fast as it is read.
#[tokio::test]
async fn others_have_their_turn_while_the_queue_is_read() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("csi.sock");
    let mut watcher = Watcher::new(Reach::default());
    watcher.follow(&path, &"driver");
    // Long names: there is room for some fifteen events in one reading.
    let noise = ["a", "b"].map(|letter| root.path().join(letter.repeat(255)));
    noise.iter().for_each(|file| fs::write(file, "").unwrap());
    for _ in 0..2_000 {
        for file in &noise {
            let permissions = fs::metadata(file).unwrap().permissions();
            fs::set_permissions(file, permissions).unwrap();
        }
    }
    fs::write(&path, "").unwrap();
    let mut changed = std::pin::pin!(watcher.changed());
    // Once for the first event to come; each time more is a turn for everybody else.
    let mut waits = 0;
    let change = std::future::poll_fn(|context| {
        let unwatched_paths = changed.as_mut().poll(context);
        waits += u32::from(unwatched_paths.is_pending());
        unwatched_paths
    });
    assert_eq!(
        change.await,
        WatchEvent::Subjects(BTreeSet::from(["driver"]))
    );
    assert!(waits >= 4, "{waits}");
}

#[tokio::test]
async fn one_directory_under_two_paths_is_told_for_both() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("a")).unwrap();
    std::os::unix::fs::symlink("a", root.path().join("b")).unwrap();
    let mut watcher = Watcher::new(Reach::default());
    watcher.follow(&root.path().join("a/csi.sock"), &"straight");
    watcher.follow(&root.path().join("b/csi.sock"), &"around");
    fs::write(root.path().join("a/csi.sock"), "").unwrap();
    let both = BTreeSet::from(["straight", "around"]);
    assert_eq!(told(&mut watcher).await, WatchEvent::Subjects(both));
    watcher.unfollow(&root.path().join("b/csi.sock"), &"around");
    fs::remove_file(root.path().join("a/csi.sock")).unwrap();
    hears_of(&mut watcher, "straight").await;
}

#[tokio::test]
async fn forgets_what_nobody_follows() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a/csi.sock");
    let mut watcher = Watcher::new(Reach::default());
    watcher.follow(&path, &"driver");
    watcher.unfollow(&path, &"driver");
    assert!(watcher.directories.is_empty() && watcher.subjects.is_empty());
    fs::create_dir(root.path().join("a")).unwrap();
    assert!(is_quiet(&mut watcher).await);
}

#[tokio::test]
async fn tells_of_every_child_of_a_directory_and_of_nothing_below_it() {
    let root = tempfile::tempdir().unwrap();
    let plugins = root.path().join("storage/plugins");
    let mut watcher = Watcher::new(Reach::default());
    watcher.follow_children(&plugins, &"plugins");
    fs::create_dir_all(&plugins).unwrap();
    hears_of(&mut watcher, "plugins").await;
    for _ in 0..2 {
        fs::create_dir(plugins.join("a")).unwrap();
        hears_of(&mut watcher, "plugins").await;
        fs::write(plugins.join("a/csi.sock"), "").unwrap();
        fs::read_dir(&plugins).unwrap().count();
        assert!(is_quiet(&mut watcher).await);
        fs::remove_dir_all(plugins.join("a")).unwrap();
        hears_of(&mut watcher, "plugins").await;
        // And the same again where the directory itself was replaced.
        fs::remove_dir(&plugins).unwrap();
        fs::create_dir(&plugins).unwrap();
        hears_of(&mut watcher, "plugins").await;
    }
    watcher.unfollow_children(&plugins, &"plugins");
    assert!(watcher.directories.is_empty() && watcher.families.is_empty());
}

#[tokio::test]
async fn a_directory_stays_watched_for_a_child_when_nobody_wants_the_others() {
    let root = tempfile::tempdir().unwrap();
    let child = root.path().join("csi.sock");
    let mut watcher = Watcher::new(Reach::default());
    watcher.follow_children(root.path(), &"plugins");
    watcher.follow(&child, &"driver");
    watcher.unfollow_children(root.path(), &"plugins");
    fs::write(root.path().join("other"), "").unwrap();
    assert!(is_quiet(&mut watcher).await);
    fs::write(&child, "").unwrap();
    hears_of(&mut watcher, "driver").await;
}

#[tokio::test]
async fn tells_when_a_mount_hides_a_directory_and_when_it_shows_it_again() {
    let Some(mut mounts) = bed::Mounts::private() else {
        return bed::skipped("root");
    };
    let root = tempfile::tempdir().unwrap();
    let (near, far) = (root.path().join("a"), root.path().join("b"));
    fs::create_dir(&near).unwrap();
    fs::create_dir(&far).unwrap();
    let mut watcher = Watcher::new(Reach::default());
    watcher.follow(&near.join("csi.sock"), &"driver");
    mounts.tmpfs(&near, 10, 4096);
    assert_eq!(told(&mut watcher).await, WatchEvent::Everything);
    fs::write(near.join("csi.sock"), "").unwrap();
    hears_of(&mut watcher, "driver").await;
    mounts.tmpfs(&far, 10, 4096);
    // The second mount within a second is told at its end.
    let quiet = is_quiet_for(Duration::from_millis(1500), &mut watcher).await;
    assert!(quiet, "nothing of ours was there");
    // Its file system ends with it, and that is an event of inotify.
    mounts.unmount(&near);
    hears_of(&mut watcher, "driver").await;
    fs::write(near.join("csi.sock"), "").unwrap();
    hears_of(&mut watcher, "driver").await;
}

#[tokio::test]
async fn another_thread_watches_a_directory_that_may_hang() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let directory = root.join("mount/driver");
    fs::create_dir_all(&directory).unwrap();
    let mut watcher = Watcher::new(Reach::with_mount(&root.join("mount")));
    watcher.follow(&directory.join("csi.sock"), &"driver");
    // What was there before the watch was set has to be looked at.
    hears_of(&mut watcher, "driver").await;
    assert_eq!(watcher.unwatched_paths().count(), 0);
    fs::write(directory.join("csi.sock"), "").unwrap();
    hears_of(&mut watcher, "driver").await;
    // A slow look that finds nothing new tells nobody.
    assert!(!watcher.resync());
    assert!(is_quiet(&mut watcher).await);
    fs::remove_dir_all(&directory).unwrap();
    hears_of(&mut watcher, "driver").await;
    fs::create_dir(&directory).unwrap();
    hears_of(&mut watcher, "driver").await;
    fs::write(directory.join("csi.sock"), "").unwrap();
    hears_of(&mut watcher, "driver").await;
    watcher.unfollow(&directory.join("csi.sock"), &"driver");
    fs::remove_file(directory.join("csi.sock")).unwrap();
    assert!(is_quiet(&mut watcher).await);
}

/// Without the rights of root in this thread, for as long as it lives.
struct AsNobody;

impl AsNobody {
    fn new() -> AsNobody {
        nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
        AsNobody
    }
}

impl Drop for AsNobody {
    fn drop(&mut self) {
        nix::unistd::setfsuid(nix::unistd::geteuid());
    }
}

#[tokio::test]
async fn a_directory_that_may_not_be_read_is_not_polled_and_its_parent_tells_when_it_may() {
    let root = tempfile::tempdir().unwrap();
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(root.path(), 0o755);
    let directory = root.path().join("a/b");
    fs::create_dir_all(&directory).unwrap();
    let closed = root.path().join("a");
    mode(&closed, 0o000);
    let mut watcher = Watcher::new(Reach::default());
    {
        let _nobody = AsNobody::new();
        watcher.follow(&directory.join("csi.sock"), &"driver");
        assert!(!watcher.resync(), "nothing has changed");
    }
    assert_eq!(watcher.unwatched_paths().count(), 0);
    assert_eq!(watcher.forbidden().collect::<Vec<_>>(), [closed.as_path()]);
    mode(&closed, 0o755);
    hears_of(&mut watcher, "driver").await;
    assert_eq!(watcher.forbidden().count(), 0);
    fs::write(directory.join("csi.sock"), "").unwrap();
    hears_of(&mut watcher, "driver").await;
}

/// Each mount that comes or goes elsewhere is a reason to try again, and nobody ends before the server
/// answers.
#[tokio::test]
async fn a_mount_that_hangs_does_not_gather_those_who_wait_for_it() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let reach = Reach::with_mount(&root);
    let (answer, server) = std::sync::mpsc::channel::<()>();
    let hangs = reach.look(&root, Duration::from_millis(10), move || {
        server.recv().is_ok()
    });
    assert!(hangs.await.is_err());
    let mut watcher = Watcher::new(reach);
    for number in 0..5 {
        watcher.follow(&root.join(format!("{number}/csi.sock")), &"driver");
    }
    for _ in 0..100 {
        watcher.apart.forget();
        watcher.resync();
        tokio::task::yield_now().await;
    }
    let waiting = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    assert!(waiting < 20, "{waiting} wait");
    drop(answer);
    hears_of(&mut watcher, "driver").await;
}

/// The clock jumps to the next deadline: what passes is what the watcher leaves to the rest of the daemon.
#[tokio::test(start_paused = true)]
async fn a_storm_leaves_half_of_the_time_to_others() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("csi.sock");
    fs::write(&path, "").unwrap();
    let mut watcher = Watcher::new(Reach::default());
    watcher.follow(&path, &"driver");
    let start = tokio::time::Instant::now();
    for mode in [0o600, 0o644].repeat(200) {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        watcher.changed().await;
    }
    // Each look counts for half a millisecond, and the allowance is a tenth of a second.
    assert!(start.elapsed() >= Duration::from_millis(200));
}
