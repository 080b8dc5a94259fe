//! A YAML document, as far as a Kubernetes manifest needs it: every scalar is text.
//!
//! Nesting, values and aliases are bounded, because an alias may repeat a part of the document any number
//! of times.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle};
use thiserror::Error;

/// The deepest nesting. A pod's spec has about ten levels.
const DEEPEST: usize = 100;
/// The most values in a file, repeated ones included. A scalar counts once for each 64 bytes.
const MOST: usize = 250_000;
const BYTES_OF_VALUE: usize = 64;
/// The key whose mapping is merged into the mapping around it.
const MERGE: &str = "<<";

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Yaml {
    Null,
    Scalar(String),
    List(Vec<Yaml>),
    /// In the order of the text.
    Map(Vec<(String, Yaml)>),
}

#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum YamlError {
    #[error("line {line}, column {column}: {what}")]
    Syntax {
        line: usize,
        column: usize,
        what: String,
    },
    #[error("line {0}: more than {DEEPEST} levels")]
    Deep(usize),
    #[error("line {0}: more than {MOST} values, repeated ones included")]
    Many(usize),
    #[error("line {0}: an alias without an anchor before it")]
    Alias(usize),
    #[error("line {0}: a key that is not a scalar")]
    Key(usize),
}

impl Yaml {
    /// The documents of a file.
    pub(crate) fn documents(text: &str) -> Result<Vec<Yaml>, YamlError> {
        let mut builder = Builder::default();
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| YamlError::Syntax {
                line: error.marker().line(),
                column: error.marker().col() + 1,
                what: error.info().to_owned(),
            })?;
            builder.take(event, span.start.line())?;
        }
        Ok(builder.documents)
    }

    /// The value of a key of a mapping.
    pub(crate) fn get(&self, key: &str) -> Option<&Yaml> {
        let Yaml::Map(entries) = self else {
            return None;
        };
        let of = |wanted: &str| {
            let mut entries = entries.iter().rev();
            entries.find(|(name, _)| name == wanted)
        };
        if let Some((_, value)) = of(key) {
            return Some(value);
        }
        match of(MERGE)? {
            (_, Yaml::List(merged)) => merged.iter().find_map(|map| map.get(key)),
            (_, merged) => merged.get(key),
        }
    }

    /// The value of a key in a mapping in a mapping, and so on.
    pub(crate) fn at(&self, keys: &[&str]) -> Option<&Yaml> {
        keys.iter().try_fold(self, |value, key| value.get(key))
    }

    /// The text of a key.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Yaml::Scalar(text) => Some(text),
            Yaml::Null | Yaml::List(_) | Yaml::Map(_) => None,
        }
    }

    /// The elements of the list of a key.
    pub(crate) fn list(&self, key: &str) -> &[Yaml] {
        match self.get(key) {
            Some(Yaml::List(elements)) => elements,
            Some(_) | None => &[],
        }
    }

    /// The scalars in the list of a key.
    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        let texts = self.list(key).iter().filter_map(|element| match element {
            Yaml::Scalar(text) => Some(text.clone()),
            Yaml::Null | Yaml::List(_) | Yaml::Map(_) => None,
        });
        texts.collect()
    }

    /// Its share of the limit.
    fn weight(&self) -> usize {
        match self {
            Yaml::Null => 1,
            Yaml::Scalar(text) => weight(text),
            Yaml::List(elements) => 1 + elements.iter().map(Yaml::weight).sum::<usize>(),
            Yaml::Map(entries) => {
                let weigh = |(key, value): &(String, Yaml)| weight(key) + value.weight();
                1 + entries.iter().map(weigh).sum::<usize>()
            }
        }
    }
}

fn weight(text: &str) -> usize {
    1 + text.len() / BYTES_OF_VALUE
}

/// Makes documents of the parser's events.
#[derive(Default)]
struct Builder {
    documents: Vec<Yaml>,
    /// The values that have begun, from the outside to the inside.
    open: Vec<Open>,
    /// The values that an alias may repeat. The parser counts anchors from 1.
    anchors: HashMap<usize, Yaml>,
    weight: usize,
}

struct Open {
    anchor: usize,
    value: Collection,
}

enum Collection {
    List(Vec<Yaml>),
    Map(Vec<(String, Yaml)>, Option<String>),
}

impl Builder {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), YamlError> {
        match event {
            Event::DocumentStart(_) => self.anchors.clear(),
            Event::Scalar(text, style, anchor, _) => {
                let is_null = matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let value = if style == ScalarStyle::Plain && is_null {
                    Yaml::Null
                } else {
                    Yaml::Scalar(text.into_owned())
                };
                self.weigh(value.weight(), line)?;
                self.add(value, anchor, line)?;
            }
            Event::SequenceStart(anchor, _) => {
                self.begin(anchor, Collection::List(Vec::new()), line)?;
            }
            Event::MappingStart(anchor, _) => {
                self.begin(anchor, Collection::Map(Vec::new(), None), line)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open { anchor, value }) = self.open.pop() {
                    let value = match value {
                        Collection::List(elements) => Yaml::List(elements),
                        Collection::Map(entries, _) => Yaml::Map(entries),
                    };
                    self.add(value, anchor, line)?;
                }
            }
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).ok_or(YamlError::Alias(line))?;
                let weight = value.weight();
                // Before the copy.
                self.weigh(weight, line)?;
                let copy = self.anchors.get(&anchor).cloned();
                self.add(copy.ok_or(YamlError::Alias(line))?, 0, line)?;
            }
            Event::DocumentEnd | Event::StreamStart | Event::StreamEnd | Event::Nothing => {}
        }
        Ok(())
    }

    fn weigh(&mut self, more: usize, line: usize) -> Result<(), YamlError> {
        self.weight += more;
        if self.weight > MOST {
            return Err(YamlError::Many(line));
        }
        Ok(())
    }

    fn begin(&mut self, anchor: usize, value: Collection, line: usize) -> Result<(), YamlError> {
        if self.open.len() >= DEEPEST {
            return Err(YamlError::Deep(line));
        }
        self.weigh(1, line)?;
        self.open.push(Open { anchor, value });
        Ok(())
    }

    /// Puts a complete value into the one around it.
    fn add(&mut self, value: Yaml, anchor: usize, line: usize) -> Result<(), YamlError> {
        if anchor > 0 {
            self.weigh(value.weight(), line)?;
            self.anchors.insert(anchor, value.clone());
        }
        match self.open.last_mut().map(|open| &mut open.value) {
            None => self.documents.push(value),
            Some(Collection::List(elements)) => elements.push(value),
            Some(Collection::Map(entries, key)) => match (key.take(), value) {
                (Some(key), value) => entries.push((key, value)),
                (None, Yaml::Scalar(text)) => *key = Some(text),
                (None, Yaml::Null) => *key = Some(String::new()),
                (None, Yaml::List(_) | Yaml::Map(_)) => return Err(YamlError::Key(line)),
            },
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Yaml {
        let mut documents = Yaml::documents(text).unwrap();
        assert_eq!(documents.len(), 1, "{documents:?}");
        documents.remove(0)
    }

    #[test]
    fn reads_what_manifests_are_made_of() {
        let read = document(
            "a: &x {b: [1, 'two', \"th\\u0072ee\", ~, null, '']}\nc: *x\n\
             d: |\n  e\n  f\ng:\n- h: i\n  j: true\n",
        );
        assert_eq!(read.at(&["c", "b"]), read.at(&["a", "b"]));
        let b = read.get("c").unwrap();
        assert_eq!(b.texts("b"), ["1", "two", "three", ""]);
        assert_eq!(b.list("b").len(), 6);
        assert_eq!(read.text("d"), Some("e\nf\n"));
        assert_eq!(read.list("g")[0].text("j"), Some("true"));
        assert_eq!(read.text("a"), None);
        assert!(read.at(&["a", "b", "c"]).is_none() && read.list("d").is_empty());
    }

    #[test]
    fn a_merge_key_gives_way_to_the_keys_beside_it() {
        let read = document("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\ne: {<<: [{b: 4}, *x]}\n");
        let text = |map: &str, key: &str| read.get(map).unwrap().text(key).map(str::to_owned);
        assert_eq!(text("d", "b").as_deref(), Some("1"));
        assert_eq!(text("d", "c").as_deref(), Some("3"));
        assert_eq!(text("e", "b").as_deref(), Some("4"));
        assert_eq!(text("e", "c").as_deref(), Some("2"));
        assert_eq!(text("e", "f"), None);
    }

    #[test]
    fn json_is_yaml_and_a_file_may_have_several_documents() {
        assert_eq!(document("{\"a\": [\"b\"]}").texts("a"), ["b"]);
        let all = Yaml::documents("a: 1\n---\n---\nb: 2\n...\n").unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(all[1], Yaml::Null);
        assert_eq!(all[2].text("b"), Some("2"));
        assert_eq!(Yaml::documents("").unwrap(), []);
    }

    #[test]
    fn what_repeats_itself_is_bounded() {
        let mut laughs = "l0: &l0 [lol, lol]\n".to_owned();
        for level in 1..=30 {
            let before = level - 1;
            laughs += &format!("l{level}: &l{level} [*l{before}, *l{before}, *l{before}]\n");
        }
        let refused = Yaml::documents(&laughs).unwrap_err();
        assert!(matches!(refused, YamlError::Many(_)), "{refused}");
        let long = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), "*a,".repeat(1000));
        let refused = Yaml::documents(&long).unwrap_err();
        assert!(matches!(refused, YamlError::Many(_)), "{refused}");
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_line() {
        for (text, words) in [
            ("a: [1", "line 2, column 1: "),
            ("a: b: c", "line 1, column 5: "),
            ("a:\n  b: *x", "line 2"),
            ("a: &x [*x]", "line 1: an alias without an anchor before it"),
            ("? [a]\n: b", "line 1: a key that is not a scalar"),
            (&"[".repeat(200), "line 1: more than 100 levels"),
            (&"[".repeat(5000), "line 1, column 256: "),
        ] {
            let refused = Yaml::documents(text).unwrap_err().to_string();
            assert!(refused.starts_with(words), "{text}: {refused}");
        }
    }
}
