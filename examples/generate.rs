//! Writes the man pages and the shell completions into a directory; `packaging/build` runs it.
//!
//! Page 8 comes from the command line. Page 5 comes from docs/configuration.md, which a test compares
//! with the program.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ArgAction;
use clap_complete::{Generator, Shell};
use clap_mangen::Man;
use node_storage_driver_registrar::cli;

const NAME: &str = "node-storage-driver-registrar";
const REFERENCE: &str = include_str!("../docs/configuration.md");

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(
        std::env::args_os()
            .nth(1)
            .ok_or("usage: generate DIRECTORY")?,
    );
    fs::create_dir_all(&out)?;
    completions(&out)?;
    fs::write(out.join(format!("{NAME}.8")), command_page()?)?;
    fs::write(out.join(format!("{NAME}.toml.5")), config_page(&day()?))?;
    Ok(())
}

fn completions(out: &Path) -> Result<(), Box<dyn Error>> {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        fs::write(out.join(shell.file_name(NAME)), cli::completions(shell))?;
    }
    Ok(())
}

fn command_page() -> Result<Vec<u8>, Box<dyn Error>> {
    let mut command = cli::command();
    command.build();
    let mut page = Vec::new();
    let man = Man::new(command.clone())
        .section("8")
        .date(day()?)
        .manual("System administration");
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    page.extend(synopsis(&command).as_bytes());
    page.extend(DESCRIPTION.as_bytes());
    man.render_options_section(&mut page)?;
    page.extend(commands(&command).as_bytes());
    page.extend(REST.as_bytes());
    Ok(page)
}

/// The commands that a user sees.
fn shown(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    let commands = command.get_subcommands();
    commands.filter(|sub| sub.get_name() != "help" && !sub.is_hide_set())
}

/// The arguments of a command that are its own.
fn arguments(sub: &clap::Command) -> impl Iterator<Item = &clap::Arg> {
    sub.get_arguments().filter(|argument| {
        let inherited = matches!(argument.get_id().as_str(), "help" | "version");
        !inherited && !argument.is_global_set() && !argument.is_hide_set()
    })
}

/// An option with its value, or a positional argument.
fn tag(argument: &clap::Arg) -> String {
    let names = argument.get_value_names().and_then(|names| names.first());
    let value = names
        .filter(|_| argument.get_action().takes_values())
        .map(|name| format!("\\fI{}\\fR", escape(name)));
    let option = argument
        .get_long()
        .map(|long| format!("\\fB\\-\\-{}\\fR", escape(long)));
    let many = argument.is_positional() && matches!(argument.get_action(), ArgAction::Append);
    let dots = many.then(|| "...".to_owned());
    let parts: Vec<String> = [option, value, dots].into_iter().flatten().collect();
    parts.join(" ")
}

/// A command with its arguments. More options than a line has room for are shown as OPTIONS.
fn usage(sub: &clap::Command) -> String {
    let mut usage = vec![format!("\\fB{}\\fR", escape(sub.get_name()))];
    let (options, operands): (Vec<_>, Vec<_>) =
        arguments(sub).partition(|argument| !argument.is_positional());
    if options.len() > 3 {
        usage.push("[\\fIOPTIONS\\fR]".to_owned());
    } else {
        usage.extend(options.iter().map(|option| format!("[{}]", tag(option))));
    }
    usage.extend(operands.iter().map(|operand| {
        let tag = tag(operand);
        if operand.is_required_set() {
            tag
        } else {
            format!("[{tag}]")
        }
    }));
    usage.join(" ")
}

fn synopsis(command: &clap::Command) -> String {
    let name = format!("\\fB{}\\fR [\\fIOPTIONS\\fR]", escape(NAME));
    let lines: Vec<String> = shown(command)
        .map(|sub| match sub.get_name() {
            "run" => format!("{name} [{}]\n", usage(sub)),
            _ => format!("{name} {}\n", usage(sub)),
        })
        .collect();
    format!(".SH SYNOPSIS\n{}", lines.join(".br\n"))
}

/// The commands with their own options, on the one page: they are too short for pages of their own.
fn commands(command: &clap::Command) -> String {
    let mut text = String::from(".SH COMMANDS\n");
    for sub in shown(command) {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        text += &format!(
            ".TP\n{}\n{}.\n",
            usage(sub),
            escape(about.trim_end_matches('.'))
        );
        for argument in arguments(sub) {
            text += &format!(".RS\n.TP\n{}\n{}.\n.RE\n", tag(argument), help(argument));
        }
    }
    text
}

/// The help of an argument, with its values and its default where the words do not name them.
fn help(argument: &clap::Arg) -> String {
    let mut help = argument
        .get_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    if argument.get_action().takes_values() && !argument.is_hide_possible_values_set() {
        let choices = argument.get_possible_values();
        let choices: Vec<&str> = choices.iter().map(|choice| choice.get_name()).collect();
        if let Some((last, others)) = choices.split_last() {
            help += &format!(": {} or {last}", others.join(", "));
        }
    }
    let defaults = argument.get_default_values().iter();
    for default in defaults.filter(|_| argument.get_action().takes_values()) {
        help += &format!(". Default: {}", default.to_string_lossy());
    }
    escape(&help)
}

/// The reference as a man page: a heading becomes a section, the row of a table a tagged paragraph.
fn config_page(day: &str) -> String {
    let mut page = format!(
        ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n.TH {NAME}.toml 5 {day} \"{NAME} {}\" \"File formats\"\n\
         .SH NAME\n{NAME}.toml \\- configuration of {NAME}(8)\n\
         .SH SYNOPSIS\n/etc/{NAME}/config.toml\n.br\n/etc/{NAME}/config.d/*.toml\n.SH DESCRIPTION\n",
        env!("CARGO_PKG_VERSION"),
    );
    let mut lines = REFERENCE.lines().skip(1).peekable();
    let (mut opens, mut is_code) = (false, false);
    while let Some(line) = lines.next() {
        let heads_table = lines.next_if(|next| next.starts_with("|---")).is_some();
        let line = Line::of(line);
        page += &match &line {
            Line::Fence => {
                is_code = !is_code;
                if is_code { ".PP\n.nf\n" } else { ".fi\n" }.to_owned()
            }
            Line::Text(text) if is_code => format!("{}\n", escape(text)),
            Line::Blank => String::new(),
            Line::Section(title) => format!(".SH \"{}\"\n", escape(&title.to_uppercase())),
            Line::Subsection(title) => format!(".SS \"{}\"\n", plain(title)),
            Line::Row(_) if heads_table => String::new(),
            Line::Row(cells) => row(cells),
            Line::Item(mark, text) => format!(".IP {mark} 4\n{}\n", roff(text)),
            Line::Text(text) if opens => format!(".PP\n{}\n", roff(text)),
            Line::Text(text) => format!("{}\n", roff(text)),
        };
        opens = match line {
            // A heading opens a paragraph by itself.
            Line::Blank => !page
                .lines()
                .last()
                .is_some_and(|last| last.starts_with(".S")),
            _ => false,
        };
    }
    page + &format!(
        ".SH \"SEE ALSO\"\n.BR {NAME} (8),\n.BR systemctl (1)\n\
         .PP\nThe pages named *.md are in /usr/share/doc/{NAME}/docs.\n"
    )
}

/// A key with its type and default, or a term, and below it the meaning.
fn row(cells: &[&str]) -> String {
    match cells {
        [key, kind, default, meaning] => format!(
            ".TP\n{} ({}; default {})\n{}\n",
            roff(key),
            roff(kind),
            roff(default),
            roff(meaning)
        ),
        _ => format!(".TP\n{}\n{}\n", roff(cells[0]), roff(&cells[1..].join(" "))),
    }
}

/// The commit's day, so that the pages do not differ from one build to the next.
fn day() -> Result<String, Box<dyn Error>> {
    let epoch = std::env::var("SOURCE_DATE_EPOCH")?.parse()?;
    Ok(jiff::Timestamp::from_second(epoch)?
        .strftime("%Y-%m-%d")
        .to_string())
}

/// A line of the reference.
enum Line<'a> {
    Blank,
    Fence,
    Section(&'a str),
    Subsection(&'a str),
    Row(Vec<&'a str>),
    Item(&'a str, &'a str),
    Text(&'a str),
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Line<'a> {
        let text = line.trim();
        if text.is_empty() {
            return Line::Blank;
        }
        if text.starts_with("```") {
            return Line::Fence;
        }
        if let Some(title) = text.strip_prefix("## ") {
            return Line::Section(title);
        }
        if let Some(title) = text.strip_prefix("### ") {
            return Line::Subsection(title);
        }
        if let Some(cells) = text.strip_prefix('|').and_then(|row| row.strip_suffix('|')) {
            return Line::Row(cells.split(" | ").map(str::trim).collect());
        }
        match text.split_once(' ') {
            Some(("-", item)) => Line::Item("\\(bu", item),
            Some((number, item)) if is_number(number) => Line::Item(number, item),
            _ => Line::Text(text),
        }
    }
}

/// The mark of a numbered list, such as `2.`
fn is_number(mark: &str) -> bool {
    mark.strip_suffix('.')
        .is_some_and(|number| number.parse::<u8>().is_ok())
}

/// Markdown as roff: code is bold, and a link is its text.
fn roff(markdown: &str) -> String {
    let mut text = String::new();
    for (index, part) in markdown.split('`').enumerate() {
        match index % 2 {
            0 => text += &escape(&without_links(part)),
            _ => text += &format!("\\fB{}\\fR", escape(part)),
        }
    }
    text
}

fn plain(markdown: &str) -> String {
    escape(&markdown.replace('`', "")).replace('"', "\\(dq")
}

fn without_links(markdown: &str) -> String {
    let mut parts = markdown.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // The text of the link is behind its last bracket, the target up to the parenthesis.
        if let Some(bracket) = text.rfind('[') {
            text.remove(bracket);
        }
        text += part.split_once(')').map_or(part, |(_, rest)| rest);
    }
    text
}

/// Text as roff takes it: no escapes, no requests, hyphens that can be copied into a shell.
fn escape(text: &str) -> String {
    let text = text
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq")
        .replace('…', "...");
    match text.strip_prefix('.') {
        Some(rest) => format!("\\&.{rest}"),
        None => text,
    }
}

const DESCRIPTION: &str = r#".SH DESCRIPTION
The daemon asks each CSI driver for its identity on the driver\(aqs socket, serves a registration socket
for the driver, and puts a symbolic link to that socket into the directory that the kubelet watches. It
waits indefinitely for drivers that do not run yet. A restart of the daemon, of a driver or of the
kubelet changes nothing in the cluster.
.PP
Without a command, the program runs as the daemon. The other commands read the configuration or ask the
running daemon.
"#;

const REST: &str = r#".SH "EXIT STATUS"
.TP
0
Success; for \fBstatus\fR and \fBwait\fR: every driver is ready, and at least one exists; for \fBverify\fR:
the cluster agrees.
.TP
1
Failure, or the answer is no.
.TP
64
The command line is wrong.
.TP
69
\fBverify\fR could not ask the cluster.
.TP
78
The configuration has an error. systemd does not restart the daemon.
.SH ENVIRONMENT
A variable can set each key of the configuration, except those of drivers: NSDR_ and the key in capitals,
with two underscores between levels, as in NSDR_LOG__LEVEL=debug.
A variable that sets no key is ignored, with a warning.
.SH FILES
.TP
/etc/node\-storage\-driver\-registrar/config.toml
The configuration; see \fBnode\-storage\-driver\-registrar.toml\fR(5).
.TP
/etc/node\-storage\-driver\-registrar/config.d/*.toml
Read next, in the order of their names.
.TP
/run/node\-storage\-driver\-registrar/
The lock, the state that persists across restarts, and the control socket; what \fBverify\fR remembers of its
repairs.
.TP
/usr/lib/node\-storage\-driver\-registrar/verify
The program that \fBverify\fR runs.
.TP
/usr/lib/systemd/system/node\-storage\-driver\-registrar\-verify.timer
Runs \fBverify \-\-repair\fR about every six minutes, if it is enabled.
.SH SIGNALS
.TP
SIGHUP
Reads the configuration again, as \fBreload\fR does.
.TP
SIGTERM, SIGINT
Stops the daemon. on_stop in the configuration decides whether the drivers stay registered.
.SH "SEE ALSO"
.BR node\-storage\-driver\-registrar.toml (5),
.BR systemctl (1),
.BR journalctl (1)
"#;
