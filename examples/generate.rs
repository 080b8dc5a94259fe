//! Writes the man pages and the shell completions into a directory; `packaging/build` runs it.
//!
//! Page 8 comes from the command line. Page 5 comes from docs/configuration.md, which a test compares
//! with the program.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap_complete::Shell;
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
        clap_complete::generate_to(shell, &mut cli::command(), NAME, out)?;
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
    man.render_synopsis_section(&mut page)?;
    page.extend(DESCRIPTION.as_bytes());
    man.render_options_section(&mut page)?;
    page.extend(commands(&command).as_bytes());
    page.extend(REST.as_bytes());
    Ok(page)
}

/// The commands with their own options, on the one page: they are too short for pages of their own.
fn commands(command: &clap::Command) -> String {
    let mut text = String::from(".SH COMMANDS\n");
    for sub in command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help" && !sub.is_hide_set())
    {
        let mut heading = format!("\\fB{}\\fR", escape(sub.get_name()));
        let mut options = String::new();
        for argument in sub
            .get_arguments()
            .filter(|argument| !argument.is_global_set() && !argument.is_hide_set())
        {
            if matches!(argument.get_id().as_str(), "help" | "version") {
                continue;
            }
            let value = argument
                .get_value_names()
                .and_then(|names| names.first())
                .map(|name| format!("\\fI{}\\fR", escape(name)))
                .filter(|_| argument.get_action().takes_values());
            let Some(long) = argument.get_long() else {
                let many = matches!(argument.get_action(), clap::ArgAction::Append);
                let dots = if many { " ..." } else { "" };
                let shown = format!("{}{dots}", value.unwrap_or_default());
                heading += &if argument.is_required_set() {
                    format!(" {shown}")
                } else {
                    format!(" [{shown}]")
                };
                continue;
            };
            let tag = format!("\\fB\\-\\-{}\\fR", escape(long));
            let shown = value.map_or(tag.clone(), |value| format!("{tag} {value}"));
            let help = argument.get_help().map(ToString::to_string);
            options += &format!(".RS\n.TP\n{shown}\n{}", escape(&help.unwrap_or_default()));
            let choices: Vec<String> = argument
                .get_possible_values()
                .iter()
                .filter(|_| argument.get_action().takes_values())
                .map(|choice| escape(choice.get_name()))
                .collect();
            if !choices.is_empty() {
                options += &format!(": {}", choices.join(" or "));
            }
            let defaults: Vec<String> = argument
                .get_default_values()
                .iter()
                .map(|value| escape(&value.to_string_lossy()))
                .filter(|_| argument.get_action().takes_values())
                .collect();
            if !defaults.is_empty() {
                options += &format!("; {} if not given", defaults.join(" "));
            }
            options += "\n.RE\n";
        }
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        text += &format!(
            ".TP\n{heading}\n{}.\n{options}",
            escape(about.trim_end_matches('.'))
        );
    }
    text
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
The daemon asks each CSI driver on its socket who it is, serves a registration socket for it, and
puts a symbolic link to that socket into the directory that the kubelet watches. It waits for ever
for drivers that are not there yet. A restart of the daemon, of a driver or of the kubelet is not
noticed by the cluster.
.PP
Without a command it runs as the daemon. The other commands look at the configuration or ask the
daemon that runs.
"#;

const REST: &str = r#".SH "EXIT STATUS"
.TP
0
Done; for \fBstatus\fR: every driver is registered.
.TP
1
Failed, or the answer is no.
.TP
64
The command line was not understood.
.TP
78
The configuration has an error. systemd does not start the daemon again then.
.SH ENVIRONMENT
Each key of the configuration can be set by a variable: NSDR_ and the key in capitals, with two
underscores between levels, as in NSDR_LOG__LEVEL=debug. Drivers have no variables.
The unit reads them from /etc/default/node\-storage\-driver\-registrar and
/etc/sysconfig/node\-storage\-driver\-registrar. The commands check, config and doctor read these
files too, unless \-\-config is given; a variable of the shell wins.
.SH FILES
.TP
/etc/node\-storage\-driver\-registrar/config.toml
The configuration; see \fBnode\-storage\-driver\-registrar.toml\fR(5).
.TP
/etc/node\-storage\-driver\-registrar/config.d/*.toml
Read next, in the order of their names.
.TP
/run/node\-storage\-driver\-registrar/
The lock, the state that survives a restart, and the socket that the commands ask on.
.SH SIGNALS
.TP
SIGHUP
Reads the configuration again, as \fBreload\fR does.
.TP
SIGTERM, SIGINT
Ends the daemon. What becomes of the registrations is up to on_stop in the configuration.
.SH "SEE ALSO"
.BR node\-storage\-driver\-registrar.toml (5),
.BR systemctl (1),
.BR journalctl (1)
"#;
