//! Manifests, and the containers that are found in them.

use super::*;

fn all(text: &str) -> Vec<RegistrarContainer> {
    RegistrarContainer::all(text).unwrap()
}

#[test]
fn finds_the_container_by_its_image_or_by_its_own_flag() {
    for (container, found) in [
        (
            "image: registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.13.0",
            true,
        ),
        (
            "image: mirror:5000/csi-node-driver-registrar@sha256:00",
            true,
        ),
        ("image: csi-node-driver-registrar", true),
        (
            "image: example.com/own, args: [--kubelet-registration-path=/a/csi.sock]",
            true,
        ),
        (
            "image: example.com/own, command: [ndr, -kubelet-registration-path, /a]",
            true,
        ),
        (
            "image: registry.k8s.io/sig-storage/livenessprobe:v2, args: [--csi-address=/csi/csi.sock]",
            false,
        ),
        (
            "image: example.com/csi-node-driver-registrar/other:v1",
            false,
        ),
        ("args: [--csi-address=/csi/csi.sock]", false),
    ] {
        let text = format!("kind: Pod\nspec: {{containers: [{{name: x, {container}}}]}}\n");
        let read = RegistrarContainer::all(&text);
        assert_eq!(read.is_ok(), found, "{container}: {read:?}");
    }
}

#[test]
fn a_command_in_a_shell_is_taken_out_of_it() {
    let found = all("
kind: Pod
spec:
  containers:
  - env: [{name: D, value: /k}]
    command: [/bin/sh, -c]
    args: ['sleep 1; exec /ndr --csi-address=/csi/csi.sock --kubelet-registration-path=$(D)/csi.sock && true']
");
    let words = "/ndr --csi-address=/csi/csi.sock --kubelet-registration-path=/k/csi.sock";
    assert_eq!(found[0].command.join(" "), words);
}

const SHELL: &str = r#"
kind: Pod
spec:
  containers:
  - image: csi-node-driver-registrar
    env:
    - {name: ADDRESS, value: /csi/csi.sock}
    - {name: DIR, value: /var/lib/kubelet}
    - {name: MINE, value: /not/mine}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    command: [/bin/sh, -c]
    args:
    - |
      set -e
      export MINE=/of/the/script
      exec /ndr --csi-address=$ADDRESS \
        --kubelet-registration-path="${DIR}/plugins/x/csi.sock" \
        '--a=$DIR' --b=\$DIR --c=$MINE --d=$NODE --e=${DIR:-/x} --f=$OTHER --g=$@ --h=$DIRECTORY --i=5$
"#;

#[test]
fn a_shell_replaces_the_variables_of_the_container_that_its_script_does_not_set() {
    let found = all(SHELL);
    assert_eq!(
        found[0].command[1..],
        [
            "--csi-address=/csi/csi.sock",
            "--kubelet-registration-path=/var/lib/kubelet/plugins/x/csi.sock",
            "--a=$DIR",
            "--b=$DIR",
            "--c=$MINE",
            "--d=$NODE",
            "--e=${DIR:-/x}",
            "--f=$OTHER",
            "--g=$@",
            "--h=$DIRECTORY",
            "--i=5$",
        ]
    );
    let why = |word: usize| found[0].unresolved(&found[0].command[word]);
    for (word, reason) in [
        (5, "$MINE: the script of the shell sets it"),
        (6, "$NODE: its value comes from fieldRef"),
        (7, "${DIR:-/x}: only the shell knows its value"),
        (8, "$OTHER: the container does not define it"),
        (9, "$@: only the shell knows its value"),
    ] {
        assert_eq!(why(word).as_deref(), Some(reason));
    }
    assert_eq!(why(1), None);
    assert_eq!(why(11), None);
}

#[test]
fn without_a_shell_the_form_of_a_shell_is_named() {
    let found = all("
kind: Pod
spec:
  containers:
  - image: csi-node-driver-registrar
    env: [{name: ADDRESS, value: /csi/csi.sock}]
    args: [--csi-address=$ADDRESS, '--a=${ADDRESS}', --b=$OTHER]
");
    let command = &found[0].command;
    let why = |word: usize| found[0].unresolved(&command[word]);
    let reason = "the container runs no shell, and the kubelet replaces only $(ADDRESS)";
    assert_eq!(why(1), Some(format!("$ADDRESS: {reason}")));
    assert_eq!(why(2), Some(format!("${{ADDRESS}}: {reason}")));
    assert_eq!(why(3), None);
}

#[test]
fn names_the_place_in_lists_documents_and_init_containers() {
    let image = "image: csi-node-driver-registrar";
    let text = format!(
        "kind: ConfigMap\ndata: {{x: y}}\n---\n\
         kind: List\nitems:\n- kind: DaemonSet\n  metadata: {{name: a, namespace: n}}\n  \
         spec: {{template: {{spec: {{containers: [{{name: x}}, {{name: r, {image}}}]}}}}}}\n\
         ---\n---\nkind: StatefulSet\nmetadata: {{name: b}}\n\
         spec: {{template: {{spec: {{initContainers: [{{{image}}}]}}}}}}\n\
         ---\nkind: Pod\nmetadata: {{name: \"c\\e[2J\"}}\nspec: {{containers: [{{name: r, {image}}}]}}\n"
    );
    let places: Vec<String> = all(&text).into_iter().map(|found| found.place).collect();
    assert_eq!(
        places,
        [
            "document 2, item 1, DaemonSet n/a, container r",
            "document 4, StatefulSet b, container without a name",
            "document 5, Pod c\\u{1b}[2J, container r",
        ]
    );
}

#[test]
fn variables_have_their_values_and_the_others_their_reason() {
    let found = all("
kind: Pod
spec:
  containers:
  - image: csi-node-driver-registrar
    env:
    - {name: DIR, value: /var/lib/kubelet}
    - {name: ADDRESS, value: $(DIR)/plugins/x/csi.sock}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: EMPTY}
    args: [--csi-address=$(ADDRESS), '$$(DIR)', $(NODE), $(OTHER), '$', 'a$b', '$(', '[$(EMPTY)]']
");
    let [found] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        found.command[1..],
        [
            "--csi-address=/var/lib/kubelet/plugins/x/csi.sock",
            "$(DIR)",
            "$(NODE)",
            "$(OTHER)",
            "$",
            "a$b",
            "$(",
            "[]"
        ]
    );
    let why = |text| found.unresolved(text).unwrap();
    assert_eq!(why("--v=$(NODE)"), "$(NODE): its value comes from fieldRef");
    assert_eq!(
        why("$(OTHER)"),
        "$(OTHER): the container does not define it"
    );
    assert_eq!(found.unresolved("a$b$("), None);
}

#[test]
fn variables_that_repeat_each_other_stay_short() {
    let mut text = "kind: Pod\nspec:\n  containers:\n  - image: csi-node-driver-registrar\n    \
                    args: [$(V60)]\n    env:\n    - {name: V0, value: lol}\n"
        .to_owned();
    for n in 1..=60 {
        let before = n - 1;
        text += &format!("    - {{name: V{n}, value: $(V{before})$(V{before})}}\n");
    }
    assert!(all(&text)[0].command[1].len() <= 2 * LONGEST_VALUE);
    let often = "$V10".repeat(1000);
    let shell = format!("command: [sh, -c, 'ndr {often}']");
    let text = text.replace("args: [$(V60)]", &shell);
    assert!(all(&text)[0].command[1].len() <= 2 * LONGEST_VALUE);
}

#[test]
fn a_path_on_the_host_comes_from_the_innermost_mount() {
    let found = all("
kind: Pod
spec:
  volumes:
  - {name: plugin, hostPath: {path: /var/lib/kubelet/plugins/x/}}
  - {name: run, emptyDir: {}}
  - {name: root, hostPath: {path: /}}
  containers:
  - image: csi-node-driver-registrar
    volumeMounts:
    - {name: root, mountPath: /host}
    - {name: plugin, mountPath: /csi/}
    - {name: run, mountPath: /csi/run}
    - {name: plugin, mountPath: /sub, subPath: inner}
    - {name: plugin, mountPath: /expr, subPathExpr: $(POD)}
    - {name: missing, mountPath: /missing}
");
    let on_host = |path: &str| found[0].on_host(Path::new(path));
    for (path, expected) in [
        ("/csi/csi.sock", "/var/lib/kubelet/plugins/x/csi.sock"),
        ("/csi", "/var/lib/kubelet/plugins/x"),
        ("/host/a/b", "/a/b"),
        ("/sub/csi.sock", "/var/lib/kubelet/plugins/x/inner/csi.sock"),
    ] {
        let found = on_host(path).unwrap();
        assert_eq!(found.path, Path::new(expected), "{path}");
    }
    for (path, words) in [
        ("/csi/run/csi.sock", "volume run is no hostPath"),
        ("/csix/csi.sock", "no volume is mounted there"),
        ("/expr/csi.sock", "has a subPathExpr"),
        ("/missing/csi.sock", "volume missing is no hostPath"),
        ("csi.sock", "no volume is mounted there"),
    ] {
        let why = on_host(path).unwrap_err();
        assert!(why.contains(words), "{path}: {why}");
    }
}

#[test]
fn a_file_without_such_a_container_is_refused_with_the_reason() {
    for (text, words) in [
        ("", "no container of its 0 documents"),
        (
            "kind: Pod\n---\nkind: Service\nspec: {}\n",
            "no container of its 2 documents",
        ),
        ("kind: List\nitems: 5\n", "no container"),
        ("a: [", "not a YAML file: line"),
        ("kind: {{ .Values.kind }\n", "helm template"),
    ] {
        let refused = RegistrarContainer::all(text).unwrap_err().to_string();
        assert!(refused.contains(words), "{text}: {refused}");
    }
}
