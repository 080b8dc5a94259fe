//! Fuzzes manifests: each is refused, or gives containers that can be shown and paths that are bounded.

use std::path::Path;

use super::super::yaml::Yaml;
use super::*;
use crate::os::fuzz::Fuzz;
use crate::os::text::garbles;

const WORDS: &[&str] = &[
    "kind: Pod\n",
    "kind: List\nitems:\n- ",
    "spec:\n  ",
    "template:\n    ",
    "containers:\n  - ",
    "image: csi-node-driver-registrar\n",
    "args: [--csi-address=$(A)]\n",
    "command: [sh, -c, 'ndr --csi-address=$A ${B} $@']\n",
    "env:\n    - {name: A, value: $(A)$(A)}\n",
    "volumeMounts: [{name: v, mountPath: /csi}]\n",
    "hostPath: {path: /}\n",
    "---\n",
    "...\n",
    "&a ",
    "*a ",
    "<<: *a\n",
    "[",
    "]",
    "{",
    "}",
    ": ",
    "- ",
    "? ",
    "|",
    ">-\n",
    "\"",
    "'",
    "\\u0000",
    "#",
    "%YAML 1.2\n",
    "!!str ",
    "\t",
    "\r",
    "\n  ",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "\0",
    "{{",
];

#[test]
fn no_manifest_breaks_the_import() {
    Fuzz::new("manifest", WORDS).short(check);
}

#[test]
#[ignore = "the long run"]
fn no_manifest_breaks_the_import_for_long() {
    Fuzz::new("manifest", WORDS).long(check);
}

fn check(input: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(input) else {
        return "not UTF-8".to_owned();
    };
    if let Ok(documents) = Yaml::documents(text) {
        assert!(documents.len() <= text.len());
    }
    match RegistrarContainer::all(text) {
        Err(error) => {
            let words = error.to_string();
            assert!(!words.contains(garbles), "{words:?}");
            words.chars().filter(|c| !c.is_ascii_digit()).collect()
        }
        Ok(found) => {
            for container in &found {
                assert!(!container.place.contains(garbles), "{container:?}");
                for word in &container.command {
                    // A text with the values of variables, or a text of the file.
                    assert!(word.len() <= 2 * LONGEST_VALUE + text.len());
                    if let Some(why) = container.unresolved(word) {
                        assert!(!why.contains(garbles), "{why:?}");
                    }
                }
                if let Ok(host) = container.on_host(Path::new("/csi/csi.sock")) {
                    assert!(host.path.as_os_str().len() <= 2 * text.len() + 16);
                }
            }
            format!("{} containers", found.len().min(3))
        }
    }
}
