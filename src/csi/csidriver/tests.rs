//! Answers, and the CSIDriver object that they suggest. `tests/it/operator/inspect.rs` parses the YAML.

use super::*;

fn seen(name: &str) -> Inspection {
    Inspection {
        name: Some(name.to_owned()),
        vendor_version: Some("1.2\n- x: \u{2028}y".to_owned()),
        ..Inspection::default()
    }
}

fn suggested(
    name: &str,
    attaching: Attaching,
) -> Result<(CsiDriverObject, Vec<Breach>), CsiDriverError> {
    CsiDriverObject::suggested(&seen(name), attaching, Path::new("/p/\u{1b}[2J/csi.sock"))
}

/// The lines that are not comments.
fn fields(yaml: &str) -> Vec<&str> {
    let lines = yaml.lines().map(str::trim_end);
    let is_field = |line: &&str| !line.is_empty() && !line.trim_start().starts_with('#');
    lines.filter(is_field).collect()
}

#[test]
fn the_controllers_capability_decides_whether_volumes_are_attached() {
    let not_told = Attaching::NotTold("Unimplemented\nattachRequired: false".to_owned());
    for (attaching, required) in [
        (Attaching::Published, true),
        (Attaching::Unpublished, false),
        (Attaching::NoController, false),
        (not_told.clone(), true),
    ] {
        let warns = attaching == not_told || attaching == Attaching::NoController;
        let (object, warnings) = suggested("x.csi", attaching).unwrap();
        assert_eq!(
            fields(&object.to_string()),
            [
                "apiVersion: storage.k8s.io/v1",
                "kind: CSIDriver",
                "metadata:",
                "  name: \"x.csi\"",
                "spec:",
                &format!("  attachRequired: {required}"),
                "  volumeLifecycleModes:",
                "    - Persistent",
            ]
        );
        assert_eq!(warnings.len(), usize::from(warns), "{warnings:?}");
        let is_value = format!("attachRequired is {required}, ");
        let said = |warning: &Breach| warning.what.starts_with(&is_value) && !warning.fatal;
        assert!(warnings.iter().all(said), "{warnings:?}");
        let json = serde_json::to_value(&object).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIDriver",
                "metadata": {"name": "x.csi"},
                "spec": {"attachRequired": required, "volumeLifecycleModes": ["Persistent"]},
            })
        );
    }
}

#[test]
fn a_name_that_the_api_server_refuses_gives_no_object() {
    for (name, words) in [
        ("", "the name is empty"),
        ("../x", "may hold only letters"),
        ("a: b", "may hold only letters"),
        ("a\nkind: Secret", "may hold only letters"),
        ("a..b", "not a DNS subdomain"),
        ("a.-b", "not a DNS subdomain"),
    ] {
        let refused = suggested(name, Attaching::Unpublished).unwrap_err();
        assert!(refused.to_string().contains(words), "{name}: {refused}");
    }
    let nameless = Inspection::default();
    let refused = CsiDriverObject::suggested(&nameless, Attaching::Published, Path::new("/p"));
    assert!(matches!(refused, Err(CsiDriverError::NoName(_))));
}

#[test]
fn a_name_in_upper_case_is_printed_with_a_warning() {
    let (object, warnings) = suggested("Local.CSI", Attaching::Unpublished).unwrap();
    assert!(object.to_string().contains("name: \"Local.CSI\""));
    assert!(warnings[0].what.contains("upper-case"), "{warnings:?}");
}

#[test]
fn a_driver_that_applies_the_group_itself_says_so_at_its_policy() {
    let words = "This driver has VOLUME_MOUNT_GROUP";
    let mut seen = seen("x");
    for has in [false, true] {
        if has {
            seen.node_capabilities.push(VOLUME_MOUNT_GROUP.to_owned());
        }
        let socket = Path::new("/p/csi.sock");
        let suggested = CsiDriverObject::suggested(&seen, Attaching::Published, socket);
        let yaml = suggested.unwrap().0.to_string();
        assert_eq!(yaml.contains(words), has, "{yaml}");
    }
}

#[test]
fn text_of_the_driver_stays_in_its_comment() {
    let not_told = Attaching::NotTold("x\r\n\u{85}kind: Secret".to_owned());
    let (object, _) = suggested("x", not_told).unwrap();
    let yaml = object.to_string();
    let garbles = |c: char| c != '\n' && crate::os::text::garbles(c);
    assert!(!yaml.contains(garbles), "{yaml:?}");
    assert_eq!(fields(&yaml).len(), 8, "{yaml}");
}
