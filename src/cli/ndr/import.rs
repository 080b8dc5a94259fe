//! `import-ndr`: prints the configuration that is equivalent to flags of node-driver-registrar.

use super::flags::NdrFlags;
use crate::cli::exit::Exit;
use crate::cli::render::print;
use crate::config::{self, ExplainedKey, Key, Origin, Provenance, Sources};
use crate::os::text::printable;

/// The form of the command, for a command line that has no flags.
const FORM: &str = "node-storage-driver-registrar import-ndr --csi-address=SOCKET \
                    --kubelet-registration-path=SOCKET";

/// Before the keys that apply to every driver.
const OF_THE_NODE: &str = "
# These flags concern every driver of the node, so their keys are comments: a key that you set here
# changes the other drivers, too. Compare with the output of `node-storage-driver-registrar config`.
# The registrar serves in registry_dir, and puts a link into the kubelet's plugins_registry: registry_dir
# need not be the kubelet's directory.
";

/// `words` are arguments that are no flags.
pub(crate) fn import(flags: &NdrFlags, ignored: &[String], words: &[String]) -> Result<(), Exit> {
    if let Some(word) = words.first() {
        let word = printable(word);
        return Err(Exit::Usage(format!(
            "import-ndr takes flags of node-driver-registrar, and \"{word}\" is not a flag; write: {FORM}"
        )));
    }
    print(&configuration(flags, ignored).map_err(Exit::Usage)?)
}

/// The table of the driver, and comments. The other keys have their defaults.
fn configuration(flags: &NdrFlags, ignored: &[String]) -> Result<String, String> {
    if !flags.name_a_driver() {
        return Err(format!("no flag names a driver; write: {FORM}"));
    }
    let mut sources = Sources::default();
    let put = flags.put_into(&mut sources);
    put.map_err(|error| error.to_string())?;
    let loaded = config::load(&sources).map_err(|error| error.to_string())?;
    let mut table = String::new();
    let mut of_node = String::new();
    for ExplainedKey {
        key,
        value,
        provenance,
    } in loaded.provenance()
    {
        let (Provenance::Set(Origin::Flag(flag)), Some(value)) = (provenance, value) else {
            continue;
        };
        match key.parts() {
            [drivers, id, key] if drivers == "drivers" => {
                if table.is_empty() {
                    table = format!("\n[{}]\n", Key::of(&["drivers", id]));
                }
                table += &format!("{key} = {value}  # {flag}\n");
            }
            // node-driver-registrar's path may be the kubelet's directory or another one.
            [kubelet, _] if kubelet == "kubelet" && flag != "--kubelet-plugins-registry" => {}
            [registry_dir]
                if registry_dir == "registry_dir" && flags.plugin_registration_path.is_none() => {}
            _ => of_node += &format!("# {key} = {value}  # {flag}\n"),
        }
    }
    if !of_node.is_empty() {
        of_node.insert_str(0, OF_THE_NODE);
    }
    let no_effect = (!ignored.is_empty()).then(|| format!("no effect: {}", ignored.join(" ")));
    let mut notes = vec!["Equivalent to the flags of node-driver-registrar"];
    notes.extend(flags.without_effect());
    notes.extend(no_effect.as_deref());
    // Before the table of the driver, so that a key which loses its "#" is not one of that table.
    Ok(format!("# {}\n{of_node}{table}", notes.join("\n# ")))
}

#[cfg(test)]
mod tests;
