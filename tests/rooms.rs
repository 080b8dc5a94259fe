//! The rooms of the crate: their order on the architecture page, and the paths in the source that break it.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## The rooms, in order";
/// The most lines that a production file may have, without its tests.
const LONGEST: usize = 400;

/// A source file as far as it is production code: without comments, strings' contents and test items.
struct Source {
    tokens: Vec<TokenTree>,
    /// The lines of each test item.
    tests: Vec<RangeInclusive<usize>>,
    /// The line of production code that follows a test module.
    after_tests: Option<usize>,
}

/// A path from the root of the crate, such as `crate::disk::socket`.
#[derive(Debug, PartialEq, Eq)]
struct RoomPath {
    line: usize,
    /// The first name after the root.
    room: String,
}

impl Source {
    fn parse(text: &str) -> Source {
        let stream = TokenStream::from_str(text).expect("the compiler accepts the file");
        let mut source = Source {
            tokens: Vec::new(),
            tests: Vec::new(),
            after_tests: None,
        };
        source.tokens = source.without_tests(stream, true);
        source
    }

    fn without_tests(&mut self, stream: TokenStream, is_top: bool) -> Vec<TokenTree> {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut kept = Vec::new();
        let mut has_test_module = false;
        let mut at = 0;
        while at < tokens.len() {
            let item = after_attributes(&tokens, at);
            if tokens[at..item].iter().any(is_cfg_test) {
                let end = end_of_item(&tokens, item);
                has_test_module |=
                    is_top && tokens[item..end].iter().any(|token| is_word(token, "mod"));
                self.tests
                    .push(line(&tokens[at])..=last_line(&tokens[end - 1]));
                at = end;
                continue;
            }
            if has_test_module && self.after_tests.is_none() {
                self.after_tests = Some(line(&tokens[at]));
            }
            for token in &tokens[at..(item + 1).min(tokens.len())] {
                kept.push(self.without_inner_tests(token.clone()));
            }
            at = item + 1;
        }
        kept
    }

    fn without_inner_tests(&mut self, token: TokenTree) -> TokenTree {
        let TokenTree::Group(group) = token else {
            return token;
        };
        let inner = self.without_tests(group.stream(), false);
        let mut filtered = proc_macro2::Group::new(group.delimiter(), inner.into_iter().collect());
        filtered.set_span(group.span());
        filtered.into()
    }

    /// The files that `mod name;` declares.
    fn modules(&self) -> Vec<String> {
        let declared = self.tokens.windows(3).filter_map(|tokens| match tokens {
            [word, TokenTree::Ident(name), end] if is_word(word, "mod") && is_punct(end, ';') => {
                Some(name.to_string())
            }
            _ => None,
        });
        declared.collect()
    }

    /// Every path that starts at the root of the crate; the file itself is `depth` modules below it.
    fn room_paths(&self, depth: usize) -> Vec<RoomPath> {
        let mut paths = Vec::new();
        find_room_paths(&self.tokens, depth, &mut paths);
        paths
    }

    fn production_lines(&self, text: &str) -> usize {
        let tests = self
            .tests
            .iter()
            .map(|lines| lines.end() - lines.start() + 1);
        text.lines().count() - tests.sum::<usize>()
    }
}

fn find_room_paths(tokens: &[TokenTree], depth: usize, paths: &mut Vec<RoomPath>) {
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        // `mod name { … }` is one module deeper.
        let is_inline_module = at > 2 && is_word(&tokens[at - 3], "mod");
        if let TokenTree::Group(group) = token {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            find_room_paths(&inner, depth + usize::from(is_inline_module), paths);
            continue;
        }
        let mut left = depth;
        if is_word(token, "crate") {
            left = 0;
        } else if is_word(token, "super") {
            left -= 1;
            while is_path_separator(tokens, at) && is_super(tokens.get(at + 2)) {
                left -= 1;
                at += 3;
            }
        } else {
            continue;
        }
        if left == 0 && is_path_separator(tokens, at) {
            take_rooms(tokens.get(at + 2), paths);
        }
    }
}

/// What follows `crate::`: a name, or names in braces.
fn take_rooms(after_root: Option<&TokenTree>, paths: &mut Vec<RoomPath>) {
    match after_root {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let names: Vec<TokenTree> = group.stream().into_iter().collect();
            for name in names.split(|token| is_punct(token, ',')) {
                take_rooms(name.first(), paths);
            }
        }
        Some(name) => paths.push(RoomPath {
            line: line(name),
            room: name.to_string(),
        }),
        None => {}
    }
}

/// The place after the attributes and doc comments that start at `at`.
fn after_attributes(tokens: &[TokenTree], mut at: usize) -> usize {
    while let (Some(hash), Some(TokenTree::Group(group))) = (tokens.get(at), tokens.get(at + 1))
        && is_punct(hash, '#')
        && group.delimiter() == Delimiter::Bracket
    {
        at += 2;
    }
    at
}

fn is_cfg_test(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else {
        return false;
    };
    let words: Vec<String> = group
        .stream()
        .into_iter()
        .map(|word| word.to_string())
        .collect();
    words == ["cfg", "(test)"]
}

/// The place after the item, field or match arm that starts at `at`.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let word = tokens[at..].iter().find_map(|token| match token {
        TokenTree::Ident(word) if word != "pub" => Some(word.to_string()),
        _ => None,
    });
    let word = word.unwrap_or_default();
    let has_body = matches!(
        word.as_str(),
        "async" | "enum" | "fn" | "impl" | "mod" | "struct" | "trait" | "unsafe"
    );
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => has_body && group.delimiter() == Delimiter::Brace,
        token => is_punct(token, ';') || (!has_body && is_punct(token, ',')),
    };
    let end = tokens[at..].iter().position(is_end);
    end.map_or(tokens.len(), |end| at + end + 1)
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(found) if found == word)
}

fn is_super(token: Option<&TokenTree>) -> bool {
    token.is_some_and(|token| is_word(token, "super"))
}

fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == sign)
}

fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    let is_colon = |at: usize| tokens.get(at).is_some_and(|token| is_punct(token, ':'));
    let is_joint = matches!(tokens.get(at), Some(TokenTree::Punct(first)) if first.spacing() == Spacing::Joint);
    is_joint && is_colon(at) && is_colon(at + 1)
}

fn line(token: &TokenTree) -> usize {
    token.span().start().line
}

fn last_line(token: &TokenTree) -> usize {
    token.span().end().line
}

/// The rooms on the architecture page: the names in backticks in the first column of its table.
fn rooms_on(page: &str) -> Vec<String> {
    let table = page
        .lines()
        .skip_while(|line| *line != HEADING)
        .skip(1)
        .take_while(|line| !line.starts_with("## "));
    let names = table.filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// What is wrong with a file `depth` modules below the root, which belongs to `room`.
fn faults(file: &str, text: &str, depth: usize, room: &str, rooms: &[String]) -> Vec<String> {
    let source = Source::parse(text);
    let place = |name: &str| rooms.iter().position(|room| room == name);
    let mut faults = Vec::new();
    for path in source.room_paths(depth) {
        let (line, used) = (path.line, path.room);
        match place(&used) {
            None => faults.push(format!("{file}:{line}: {used} is not a room in {PAGE}")),
            Some(used_at) if Some(used_at) > place(room) => faults.push(format!(
                "{file}:{line}: {room} uses {used}, a room further down in {PAGE}"
            )),
            Some(_) => {}
        }
    }
    if let Some(line) = source.after_tests {
        faults.push(format!(
            "{file}:{line}: production code after a test module"
        ));
    }
    let lines = source.production_lines(text);
    if lines > LONGEST {
        faults.push(format!(
            "{file}:1: {lines} lines without tests, more than {LONGEST}"
        ));
    }
    faults
}

/// The production files of the crate, each with the names of the modules that lead to it.
fn production_files(root: &Path) -> Vec<(PathBuf, Vec<String>)> {
    let mut found = Vec::new();
    let mut left = vec![(root.join("src/lib.rs"), Vec::new())];
    while let Some((file, names)) = left.pop() {
        let is_named = file.ends_with("lib.rs") || file.ends_with("mod.rs");
        let directory = if is_named {
            file.with_file_name("")
        } else {
            file.with_extension("")
        };
        for name in Source::parse(&read(&file)).modules() {
            let flat = directory.join(format!("{name}.rs"));
            let nested = directory.join(&name).join("mod.rs");
            let below = [names.as_slice(), &[name]].concat();
            left.push((if flat.is_file() { flat } else { nested }, below));
        }
        found.push((file, names));
    }
    found
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn each_room_uses_only_the_rooms_above_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rooms = rooms_on(&read(&root.join(PAGE)));
    let mut wrong = Vec::new();
    for (file, modules) in production_files(root) {
        let Some(room) = modules.first() else {
            continue;
        };
        let shown = file
            .strip_prefix(root)
            .unwrap_or(&file)
            .display()
            .to_string();
        wrong.extend(faults(&shown, &read(&file), modules.len(), room, &rooms));
    }
    wrong.sort();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_page_has_the_rooms_of_the_crate_in_the_order_of_lib_rs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rooms = rooms_on(&read(&root.join(PAGE)));
    let modules = Source::parse(&read(&root.join("src/lib.rs"))).modules();
    assert_eq!(
        rooms, modules,
        "{PAGE} on the left, src/lib.rs on the right"
    );
}

/// The faults of a file `src/disk/link.rs` with this text.
fn in_disk(text: &str) -> Vec<String> {
    let rooms = ["os", "disk", "config"].map(str::to_owned);
    faults("link.rs", text, 2, "disk", &rooms)
}

#[test]
fn a_path_to_a_room_further_down_is_found_in_every_spelling() {
    for text in [
        "use crate::config::Settings;",
        "use crate::{os::task, config};",
        "use crate::{\n    os::{a, b},\n    config::{c, d},\n};",
        "use super::super::config;",
        "use super::super::{os, config::Settings};",
        "mod inner { use super::super::super::config; }",
        "fn f() { g(|| crate::config::load()) }",
        "fn f() { select! { x = crate::config::load() => {} } }",
        "/// A comment.\nfn f(settings: &crate::config::Settings) {}",
        "#[cfg(test)]\nuse crate::os::{a, b};\nuse crate::config;",
        "struct S { #[cfg(test)] a: u8, b: crate::config::B }",
        "fn f<'a>(x: &'a str) { g('\"', crate::config::B) }",
    ] {
        let found = in_disk(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].contains("disk uses config"), "{text}: {found:?}");
    }
    let found = in_disk("\n\nuse crate::{\n    os,\n    config,\n};");
    assert!(found[0].starts_with("link.rs:5: "), "{found:?}");
}

#[test]
fn a_path_that_keeps_the_order_passes() {
    for text in [
        "use crate::os::task;",
        "use crate::disk::socket;",
        "use super::config;",
        "mod inner { use super::super::config; }",
        "pub(crate) fn f() {}",
        "// use crate::config;",
        "/// As [`crate::config`] says.\nfn f() { g(\"crate::config\", r#\"crate::config\"#) }",
        "#[cfg(test)]\nuse crate::config::{a, b};",
        "#[cfg(test)]\nfn f() { crate::config::load() }",
        "impl S { #[cfg(test)] pub(crate) fn f() { crate::config::load() } }",
        "fn f() {}\n\n#[cfg(test)]\nmod tests { use crate::config; }",
    ] {
        assert_eq!(in_disk(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn a_path_to_something_that_is_not_a_room_is_found() {
    let found = in_disk("use crate::Layout;");
    assert_eq!(
        found,
        ["link.rs:1: Layout is not a room in ARCHITECTURE.md"]
    );
}

#[test]
fn a_test_module_is_the_last_item_of_a_file() {
    for text in [
        "#[cfg(test)]\nmod tests;\n\nfn f() {}",
        "#[cfg(test)]\nmod tests {\n}\nfn f() {}",
        "#[cfg(test)]\npub(crate) mod fuzz;\nfn f() {}",
    ] {
        let found = in_disk(text);
        assert!(
            found.len() == 1 && found[0].contains("after a test module"),
            "{text}: {found:?}"
        );
    }
    let last =
        "#[cfg(test)]\nfn f() {}\nfn g() {}\n#[cfg(test)]\nmod fuzz;\n#[cfg(test)]\nmod tests;";
    assert_eq!(in_disk(last), Vec::<String>::new());
}

#[test]
fn a_long_file_is_found_and_its_tests_do_not_count() {
    let lines = |count: usize| "// A line.\n".repeat(count);
    assert_eq!(in_disk(&lines(LONGEST)), Vec::<String>::new());
    let found = in_disk(&lines(LONGEST + 1));
    assert_eq!(found, ["link.rs:1: 401 lines without tests, more than 400"]);
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", lines(100));
    assert_eq!(in_disk(&(lines(LONGEST) + &tests)), Vec::<String>::new());
}

#[test]
fn the_page_is_read_from_the_table_under_its_heading() {
    let page = format!(
        "| `no` | x |\n{HEADING}\n\n| room | for |\n|---|---|\n| `os` | `x` |\n| `cli` | y |\n\n## More\n| `no` | z |\n"
    );
    assert_eq!(rooms_on(&page), ["os", "cli"]);
}
