//! Whatever vol_data.json holds, it names a driver by the CSI rules or nothing, and its fault is told on
//! one line.

use super::*;
use crate::os::fuzz::Fuzz;
use crate::os::text::{garbles, printable};

const WORDS: &[&str] = &[
    "\"driverName\":\"nfs.csi.k8s.io\",",
    "\"driverName\":\"../../etc/x\",",
    "\"driverName\":\"\\u001b[2J\",",
    "\"driverName\":null,",
    "\"driverName\":[\"a\"],",
    "\"volumeHandle\":\"h\"",
    "\"volumeHandle\":\"\"",
    "\"volumeHandle\":{}",
    "\"specVolID\":\"pv-1\",",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "{\"a\":{\"a\":{\"a\":",
    "1e999",
    "\\ud800",
    "\u{202e}",
];

#[test]
fn no_file_names_more_than_a_driver_and_a_handle() {
    Fuzz::new("volumes", WORDS).short(check);
}

#[test]
#[ignore = "the long run"]
fn no_file_names_more_than_a_driver_and_a_handle_for_long() {
    Fuzz::new("volumes", WORDS).long(check);
}

fn check(input: &[u8]) -> String {
    let error = match VolData::parse(input) {
        Ok(data) => {
            assert!(!data.handle.is_empty() && data.handle.len() <= input.len());
            assert!(DriverName::parse(data.driver.as_str()).is_ok());
            // Whitespace alone may follow.
            let end = input.trim_ascii_end();
            let cut = VolData::parse(&end[..end.len() - 1]);
            assert!(matches!(cut, Err(VolDataError::Cut)), "{cut:?}");
            return "a volume".to_owned();
        }
        Err(error) => error,
    };
    let words = printable(&error.to_string());
    assert!(!words.contains(garbles), "{words}");
    let is_named = error.driver().is_some();
    let told = words.chars().filter(|c| !c.is_ascii_digit()).take(60);
    format!("{is_named} {}", told.collect::<String>())
}
