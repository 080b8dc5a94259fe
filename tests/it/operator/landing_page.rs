//! The landing page in a real browser.

use std::fs;
use std::process::Command;

use bed::scene::NAME;
use bed::{has_program, stdout};

use crate::http_client::get;
use crate::setup;

#[test]
#[ignore = "slow: starts Chromium three times"]
fn the_landing_page_is_shown_in_light_and_in_dark() {
    if !has_program("chromium") {
        return;
    }
    let port = bed::free_port();
    let mut scene = setup().set();
    scene.listen(&[NAME], &format!("127.0.0.1:{port}"));
    scene.registrar.start();
    scene.phase(NAME, "waiting-for-driver");
    let chromium = |more: &[String]| {
        let profile = scene.node.root().join("chromium");
        let output = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(more)
            .arg(format!("http://127.0.0.1:{port}/"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        output
    };
    let page = stdout(&chromium(&["--dump-dom".to_owned()]));
    let row = format!("<td>{NAME}</td><td class=\"phase waiting-for-driver\">");
    assert!(page.contains(&row), "{page}");
    // Blink calls dark 0 and light 1.
    let [dark, light] = [0, 1].map(|scheme| {
        let picture = scene.node.root().join(format!("{scheme}.png"));
        chromium(&[
            "--window-size=1000,400".to_owned(),
            format!("--blink-settings=preferredColorScheme={scheme}"),
            format!("--screenshot={}", picture.display()),
        ]);
        fs::read(picture).unwrap()
    });
    assert!(dark.len() > 1000 && light.len() > 1000);
    assert_ne!(dark, light, "dark looks like light");
}

/// The page has no scripts, pictures or fonts, so a browser fetches nothing else.
#[test]
fn the_landing_page_needs_nothing_from_elsewhere() {
    let scene = setup().http().started();
    let page = get(&scene.http(), "/").body;
    for foreign in ["://", "<script", "<img", "<link", "@import", "url("] {
        assert!(!page.contains(foreign), "{foreign} in {page}");
    }
}
