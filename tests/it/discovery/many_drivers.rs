//! Many drivers in one process: how long it takes, and what it costs.

use std::fs;
use std::time::{Duration, Instant};

use bed::driver::Call;
use bed::kubelet::{Event, Mark};
use bed::scene::SOON;
use bed::{Behaviour, FakeDriver, Registrar, Scene, TestKubelet, eventually};

use crate::{PROGRAM, setup};

/// A thousand fake drivers are a thousand threads on the same machine.
const LONG_WHILE: Duration = Duration::from_secs(300);

/// The cost of this many drivers.
struct Cost {
    drivers: usize,
    rss_kb: u64,
    threads: u64,
    linked: Duration,
    registered: Duration,
}

fn id(number: usize) -> String {
    format!("driver-{number:04}.test")
}

/// Creates the directories, as packages do; the sockets come later.
fn directories(scene: &Scene, drivers: usize) {
    for number in 0..drivers {
        fs::create_dir(scene.directory(&id(number))).unwrap();
    }
}

fn appear(scene: &Scene, drivers: usize) -> Vec<FakeDriver> {
    let start = |number| {
        let id = id(number);
        FakeDriver::start(scene.node.csi_socket(&id), Behaviour::named(&id))
    };
    (0..drivers).map(start).collect()
}

#[track_caller]
fn wait_linked(scene: &Scene, drivers: usize) {
    let directory = scene.node.plugins_registry();
    eventually("every link is there", LONG_WHILE, || {
        let there = (0..drivers).filter(|number| {
            directory
                .join(format!("{}-reg.sock", id(*number)))
                .is_symlink()
        });
        let there = there.count();
        if there == drivers {
            Ok(())
        } else {
            Err(there.to_string())
        }
    });
}

#[track_caller]
fn wait_registered(kubelet: &TestKubelet, drivers: usize) {
    eventually("all are registered", LONG_WHILE, || {
        let there = kubelet.registered().len();
        if there == drivers {
            Ok(())
        } else {
            Err(there.to_string())
        }
    });
}

fn measure(drivers: usize) -> Cost {
    let scene = setup().discovery().started();
    let kubelet = scene.node.kubelet();
    directories(&scene, drivers);
    let start = Instant::now();
    let _drivers = appear(&scene, drivers);
    let appeared = start.elapsed();
    wait_linked(&scene, drivers);
    let linked = start.elapsed();
    wait_registered(&kubelet, drivers);
    let registered = start.elapsed();
    eprintln!("{drivers} drivers appeared within {appeared:?}");
    let status = || scene.registrar.status().unwrap().drivers;
    eventually("the registrar agrees", LONG_WHILE, || {
        status().iter().all(|driver| driver.phase == "registered")
    });
    // The kubelet's calls end, and their descriptors close. Two stay for each driver: the connection to
    // it, and the registration socket.
    eventually("the calls end", LONG_WHILE, || {
        scene.registrar.fd_count() <= 2 * drivers + 32
    });
    let undone = kubelet.events_since(Mark::default(), |event| {
        matches!(event, Event::Deregister { .. })
    });
    // The kubelet needs more than three seconds for a thousand drivers, and the registrar announces
    // some again meanwhile; on a machine that stalls, also some of a hundred.
    let few = if drivers > 100 { drivers } else { drivers / 10 };
    assert!(undone.len() <= few, "{undone:?}");
    Cost {
        drivers,
        rss_kb: scene.registrar.rss_kb(),
        threads: scene.registrar.thread_count(),
        linked,
        registered,
    }
}

#[test]
fn a_hundred_drivers_that_appear_at_once_are_linked_and_registered() {
    let cost = measure(100);
    assert!(cost.linked < Duration::from_secs(15), "{:?}", cost.linked);
    assert!(
        cost.registered < Duration::from_secs(40),
        "{:?}",
        cost.registered
    );
    assert!(cost.threads <= 4, "{}", cost.threads);
}

#[test]
fn one_broken_driver_does_not_delay_the_others() {
    let patient = "[defaults]\nrequest_timeout = \"30s\"\n";
    let scene = setup().discovery().more(patient).started();
    let mut hung = Behaviour::named("hung.test");
    hung.listening = bed::driver::Listening::Mute;
    let _hung = FakeDriver::start_in_new_directory(scene.node.csi_socket("hung.test"), hung);
    scene.phase("hung.test", "waiting-for-driver");
    let start = Instant::now();
    directories(&scene, 20);
    let _drivers = appear(&scene, 20);
    wait_linked(&scene, 20);
    // Less than the deadline of a call.
    assert!(
        start.elapsed() < Duration::from_secs(25),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_hundred_slow_drivers_delay_no_other_driver_and_use_little_memory() {
    const SLOW: usize = 100;
    // Short, but not so short that a busy machine is late with GetPluginInfo: the driver would be asked again.
    let impatient = "[defaults]\nrequest_timeout = \"4s\"\n";
    let scene = setup().discovery().more(impatient).started();
    let healthy = scene.node.driver("first.test");
    scene.phase("first.test", "waiting-for-kubelet");
    let before = scene.registrar.private_kb();
    let slow = |number| {
        let behaviour = Behaviour::named(id(number)).hanging_on(Call::NodeGetInfo);
        scene.node.behaving(&id(number), behaviour)
    };
    let mut drivers: Vec<FakeDriver> = (0..SLOW).map(slow).collect();
    let told = |words: &str| {
        let drivers = scene.registrar.status().unwrap().drivers;
        let tells =
            |reason: &Option<String>| reason.as_ref().is_some_and(|why| why.contains(words));
        drivers.iter().filter(|one| tells(&one.reason)).count()
    };
    eventually("each is told of", LONG_WHILE, || {
        told("NodeGetInfo has taken longer than 4s") == SLOW
    });
    // The registrar asks each driver once: one connection for the call, and one that it holds.
    assert!(scene.registrar.fd_count() <= 2 * SLOW + 48);
    let grown = scene.registrar.private_kb().saturating_sub(before);
    eprintln!("{SLOW} slow drivers cost {grown} kB");
    assert!(grown < 24 << 10, "{grown} kB");
    for driver in &drivers {
        assert_eq!(driver.called(Call::NodeGetInfo), 1);
    }
    let _another = scene.node.driver("another.test");
    scene.phase("another.test", "waiting-for-kubelet");
    for (number, driver) in drivers.iter_mut().enumerate() {
        driver.restart(Behaviour::named(id(number)));
    }
    wait_linked(&scene, SLOW);
    drop(healthy);
}

#[test]
fn the_limit_of_open_files_is_raised_and_reported_when_it_is_too_low() {
    for (hard, words) in [
        (4096, "raised the limit of open files"),
        (80, "LimitNOFILE="),
    ] {
        let mut scene = setup().discovery().set();
        let _drivers: Vec<_> = (0..6)
            .map(|number| scene.node.driver(&id(number)))
            .collect();
        let script = format!("ulimit -Sn 70 && ulimit -Hn {hard} && exec \"$@\"");
        scene.registrar = Registrar::wrapped(PROGRAM, &scene.node, &script);
        scene.registrar.start();
        eventually(words, SOON, || scene.registrar.logs().contains(words));
        wait_linked(&scene, 6);
    }
}

/// The benchmark has the exact figures.
#[test]
#[ignore = "takes a minute: LONG=1 adds the thousand"]
fn a_driver_more_costs_less_than_a_hundred_kilobytes_and_no_thread() {
    let long = std::env::var_os("LONG").is_some();
    let counts: &[usize] = if long {
        &[1, 10, 100, 1000]
    } else {
        &[1, 10, 100]
    };
    let costs: Vec<Cost> = counts.iter().map(|drivers| measure(*drivers)).collect();
    for pair in costs.windows(2) {
        let more = (pair[1].drivers - pair[0].drivers) as u64;
        let kb = pair[1].rss_kb.saturating_sub(pair[0].rss_kb) / more;
        assert!(kb < 100, "{kb} kB for each driver more");
        assert_eq!(pair[0].threads, pair[1].threads);
    }
}
