//! YAML that a command prints, read by a parser that the command did not write it with.

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// The only document of a text.
#[track_caller]
pub(crate) fn parse(text: &str) -> Value {
    let events = Parser::new_from_str(text)
        .map(|event| event.unwrap_or_else(|why| panic!("{why}: {text}")).0);
    let mut events =
        events.filter(|event| !matches!(event, Event::StreamStart | Event::DocumentStart(_)));
    let first = events.next().unwrap();
    let read = value(first, &mut events);
    assert_eq!(events.next(), Some(Event::DocumentEnd), "{text}");
    assert_eq!(
        events.next(),
        Some(Event::StreamEnd),
        "more than one document: {text}"
    );
    read
}

fn value<'a>(first: Event<'a>, events: &mut impl Iterator<Item = Event<'a>>) -> Value {
    match first {
        Event::Scalar(text, ScalarStyle::Plain, ..) => match &*text {
            "" | "~" | "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            number if number.parse::<f64>().is_ok() => Value::Number(number.parse().unwrap()),
            text => Value::String(text.to_owned()),
        },
        Event::Scalar(text, ..) => Value::String(text.into_owned()),
        Event::SequenceStart(..) => {
            let mut elements = Vec::new();
            loop {
                match events.next().unwrap() {
                    Event::SequenceEnd => return Value::Array(elements),
                    first => elements.push(value(first, events)),
                }
            }
        }
        Event::MappingStart(..) => {
            let mut entries = Map::new();
            loop {
                match events.next().unwrap() {
                    Event::MappingEnd => return Value::Object(entries),
                    Event::Scalar(key, ..) => {
                        let first = events.next().unwrap();
                        let twin = entries.insert(key.into_owned(), value(first, events));
                        assert_eq!(twin, None, "a key twice");
                    }
                    other => panic!("{other:?} is no key"),
                }
            }
        }
        other => panic!("{other:?}"),
    }
}
