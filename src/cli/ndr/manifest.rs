//! A Kubernetes manifest, as far as it says how node-driver-registrar runs: its containers, their
//! commands, and the directories of the host that are mounted there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::shell::{self, of_script, of_shell, script};
use super::yaml::{Yaml, YamlError};
use crate::os::go_flags;
use crate::os::text::printable;

/// The names of the image, without registry, tag and digest.
const IMAGES: [&str; 2] = ["csi-node-driver-registrar", "node-driver-registrar"];
/// The flag that no other sidecar has. Many have --csi-address.
const FLAG: &str = "kubelet-registration-path";
/// The longest text with the values of variables, because each may repeat the one before it.
const LONGEST_VALUE: usize = 16 * 1024;
/// Lists in lists of objects are no manifest.
const DEEPEST_LIST: usize = 8;

#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum ManifestError {
    #[error("not a YAML file: {0}")]
    Yaml(#[from] YamlError),
    #[error(
        "a template, not a manifest: {0}; render it first, such as with helm template, or take the object from the cluster with kubectl get -o yaml"
    )]
    Template(YamlError),
    #[error(
        "no container of its {0} documents runs node-driver-registrar: none has the image csi-node-driver-registrar or the flag --kubelet-registration-path"
    )]
    NoContainer(usize),
}

/// A container that runs node-driver-registrar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegistrarContainer {
    /// The document, the object and the container.
    pub(crate) place: String,
    /// Its command and arguments, with the values of the variables.
    pub(crate) command: Vec<String>,
    /// The variables with a value here.
    known: BTreeSet<String>,
    /// The variables without a value here, and the reason.
    unknown: BTreeMap<String, String>,
    /// A shell runs the command, and replaces `$NAME`, too.
    in_shell: bool,
    mounts: Vec<Mount>,
}

/// A volume in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    at: PathBuf,
    volume: String,
    /// The directory of the host, or why there is none.
    source: Result<PathBuf, String>,
}

/// A path of the host that a container sees under another path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPath {
    pub(crate) path: PathBuf,
    pub(crate) volume: String,
}

impl RegistrarContainer {
    /// The containers of all documents of a manifest.
    pub(crate) fn all(text: &str) -> Result<Vec<RegistrarContainer>, ManifestError> {
        let documents = Yaml::documents(text).map_err(|error| {
            if text.contains("{{") {
                ManifestError::Template(error)
            } else {
                ManifestError::Yaml(error)
            }
        })?;
        let mut found = Vec::new();
        for (number, document) in (1..).zip(&documents) {
            of_object(document, &format!("document {number}"), 0, &mut found);
        }
        if found.is_empty() {
            return Err(ManifestError::NoContainer(documents.len()));
        }
        Ok(found)
    }

    fn of(container: &Yaml, pod: &Yaml, object: &str) -> Option<RegistrarContainer> {
        let (mut variables, mut unknown) = environment(container);
        let mut command = container.texts("command");
        if command.is_empty() {
            // The entry point of the image.
            command.push(IMAGES[0].to_owned());
        }
        command.extend(container.texts("args"));
        let words = command.iter().map(|word| expand(word, &variables));
        let words: Vec<String> = words.collect();
        let script = script(&words);
        let in_shell = script.is_some();
        let mut commands = match script {
            Some(script) => {
                for name in shell::words(script)
                    .iter()
                    .filter_map(|word| shell::assigned(word))
                {
                    variables.remove(name);
                    let why = "the script of the shell sets it".to_owned();
                    unknown.insert(name.to_owned(), why);
                }
                let mut left = LONGEST_VALUE;
                of_script(script, |name| {
                    let value = variables.get(name)?;
                    left = left.checked_sub(value.len())?;
                    Some(value.clone())
                })
            }
            None => of_shell(words),
        };
        let image = container.text("image").unwrap_or_default();
        let image = image.rsplit('/').next().unwrap_or_default();
        let image = image.split([':', '@']).next().unwrap_or_default();
        let has_flag = |command: &Vec<String>| {
            let mut flags = command.iter().filter_map(|word| go_flags::split(word));
            flags.any(|(name, _)| name == FLAG)
        };
        let command = match commands.iter().position(has_flag) {
            Some(own) => commands.swap_remove(own),
            None if IMAGES.contains(&image) => commands.into_iter().next_back()?,
            None => return None,
        };
        Some(RegistrarContainer {
            place: format!(
                "{object}, container {}",
                printable(container.text("name").unwrap_or("without a name"))
            ),
            command,
            known: variables.into_keys().collect(),
            unknown,
            in_shell,
            mounts: mounts(container, pod),
        })
    }

    /// The path of the host that the container sees as `path`, or why there is none.
    pub(crate) fn on_host(&self, path: &Path) -> Result<HostPath, String> {
        let under = self
            .mounts
            .iter()
            .filter(|mount| path.starts_with(&mount.at));
        let mount = under.max_by_key(|mount| mount.at.components().count());
        let mount = mount.ok_or_else(|| "no volume is mounted there".to_owned())?;
        let rest = path.strip_prefix(&mount.at).unwrap_or(Path::new(""));
        Ok(HostPath {
            path: mount.source.clone()?.join(rest).components().collect(),
            volume: mount.volume.clone(),
        })
    }

    /// A variable in this text that has no value here, and the reason.
    pub(crate) fn unresolved(&self, text: &str) -> Option<String> {
        let of_kubelet = text
            .split_once("$(")
            .and_then(|(_, after)| after.split_once(')'));
        if let Some((name, _)) = of_kubelet {
            return Some(format!("$({}): {}", printable(name), self.reason(name)));
        }
        let mut references = text.split('$').skip(1).filter_map(shell::reference);
        references.find_map(|(text, name)| {
            let is_known = self.known.contains(name);
            let why = match (self.in_shell, is_known || self.unknown.contains_key(name)) {
                // In quotes, so that the shell leaves it.
                (true, true) if is_known => return None,
                (true, _) if shell::identifier(name) != name => {
                    "only the shell knows its value".to_owned()
                }
                (true, _) => self.reason(name).to_owned(),
                (false, true) => format!(
                    "the container runs no shell, and the kubelet replaces only $({})",
                    printable(name)
                ),
                // Without a shell it is a text like any other.
                (false, false) => return None,
            };
            Some(format!("${}: {why}", printable(text)))
        })
    }

    fn reason(&self, name: &str) -> &str {
        let why = self.unknown.get(name);
        why.map_or("the container does not define it", String::as_str)
    }
}

/// Adds the containers of an object, or of the objects in a List.
fn of_object(object: &Yaml, place: &str, depth: usize, found: &mut Vec<RegistrarContainer>) {
    let kind = object.text("kind").unwrap_or("object");
    if kind.ends_with("List") && depth < DEEPEST_LIST {
        for (number, item) in (1..).zip(object.list("items")) {
            let place = format!("{place}, item {number}");
            of_object(item, &place, depth + 1, found);
        }
        return;
    }
    // A Pod, or an object with a template of one: DaemonSet, Deployment, StatefulSet, Job.
    let template = object.at(&["spec", "template", "spec"]);
    let Some(pod) = template.or_else(|| object.get("spec")) else {
        return;
    };
    let of_metadata = |key| {
        object
            .get("metadata")
            .and_then(|metadata| metadata.text(key))
    };
    let namespace = of_metadata("namespace").map_or(String::new(), |name| format!("{name}/"));
    let name = format!(
        "{namespace}{}",
        of_metadata("name").unwrap_or("without a name")
    );
    let place = format!("{place}, {} {}", printable(kind), printable(&name));
    // A sidecar may be an init container that goes on.
    for container in pod
        .list("containers")
        .iter()
        .chain(pod.list("initContainers"))
    {
        found.extend(RegistrarContainer::of(container, pod, &place));
    }
}

/// The variables with a value in the manifest, and those without one, with the reason.
fn environment(container: &Yaml) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let (mut known, mut unknown) = (BTreeMap::new(), BTreeMap::new());
    for variable in container.list("env") {
        let Some(name) = variable.text("name") else {
            continue;
        };
        match variable.get("valueFrom") {
            Some(Yaml::Map(source)) => {
                let kind = source.first().map_or("valueFrom", |(kind, _)| kind);
                let why = format!("its value comes from {}", printable(kind));
                known.remove(name);
                unknown.insert(name.to_owned(), why);
            }
            Some(_) | None => {
                // A value may refer to the variables before it.
                let value = expand(variable.text("value").unwrap_or_default(), &known);
                known.insert(name.to_owned(), value);
            }
        }
    }
    (known, unknown)
}

/// Replaces `$(NAME)` as the kubelet does: `$$` is a `$`, and an unknown name stays as it is.
fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out += before;
        let reference = after
            .strip_prefix('(')
            .and_then(|name| name.split_once(')'));
        rest = match reference {
            Some((name, behind)) => {
                match variables.get(name) {
                    Some(value) if out.len() + value.len() <= LONGEST_VALUE => out += value,
                    Some(_) | None => out += &format!("$({name})"),
                }
                behind
            }
            None => {
                out.push('$');
                after.strip_prefix('$').unwrap_or(after)
            }
        };
    }
    out + rest
}

fn mounts(container: &Yaml, pod: &Yaml) -> Vec<Mount> {
    let mounts = container.list("volumeMounts").iter().filter_map(|mount| {
        let (at, name) = (mount.text("mountPath")?, mount.text("name")?);
        let mut volumes = pod.list("volumes").iter();
        let volume = volumes.find(|volume| volume.text("name") == Some(name));
        let volume_name = printable(name);
        let host = volume.and_then(|volume| volume.at(&["hostPath"])?.text("path"));
        let source = match (host, mount.text("subPathExpr")) {
            (_, Some(_)) => Err(format!(
                "the mount of volume {volume_name} has a subPathExpr"
            )),
            (Some(path), None) => {
                let inside = mount.text("subPath").unwrap_or_default();
                Ok(Path::new(path).join(inside).components().collect())
            }
            (None, None) => Err(format!("volume {volume_name} is no hostPath")),
        };
        Some(Mount {
            at: Path::new(at).components().collect(),
            volume: volume_name,
            source,
        })
    });
    mounts.collect()
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
