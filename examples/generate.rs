//! Writes the man pages and the shell completions into a directory; `packaging/build` runs it.
//!
//! Page 8 comes from the command line and page 5 from the shipped configuration file, so that
//! neither says anything that the program does not know.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ArgAction;
use clap_complete::{Generator, Shell};
use clap_mangen::Man;
use node_storage_driver_registrar::cli;

const NAME: &str = "node-storage-driver-registrar";
const CONFIG: &str = include_str!("../config/config.toml");

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

/// Prose of the configuration file becomes text, a heading a section, a key a tagged paragraph.
fn config_page(day: &str) -> String {
    let mut page = format!(
        ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n.TH {NAME}.toml 5 {day} \"{NAME} {}\" \"File formats\"\n\
         .SH NAME\n{NAME}.toml \\- the configuration of {NAME}(8)\n\
         .SH SYNOPSIS\n/etc/{NAME}/config.toml\n.br\n/etc/{NAME}/config.d/*.toml\n.SH DESCRIPTION\n",
        env!("CARGO_PKG_VERSION"),
    );
    let mut prose: Vec<&str> = Vec::new();
    let mut table = "";
    for line in CONFIG.lines().skip(1) {
        match Line::of(line) {
            Line::Prose(text) => prose.push(text),
            Line::Blank => paragraphs(&mut prose, &mut page),
            Line::Table(name) => {
                table = name;
                page += &format!(".SH \"[{}]\"\n", escape(name).replace('"', "\\(dq"));
                paragraphs(&mut prose, &mut page);
            }
            Line::Key(assignment) => {
                page += &format!(".TP\n\\fB{}\\fR\n", escape(assignment));
                if prose.is_empty() {
                    let driver = table.starts_with("drivers");
                    page += if driver {
                        "As in [defaults].\n"
                    } else {
                        "See above.\n"
                    };
                }
                for text in prose.drain(..) {
                    page += &format!("{}\n", escape(text));
                }
            }
        }
    }
    paragraphs(&mut prose, &mut page);
    page + &format!(".SH \"SEE ALSO\"\n.BR {NAME} (8),\n.BR systemctl (1)\n")
}

fn paragraphs(prose: &mut Vec<&str>, page: &mut String) {
    let mut opens = true;
    for text in prose.drain(..) {
        if text.is_empty() {
            opens = true;
            continue;
        }
        // Indented lines are commands, and stay on lines of their own.
        let command = text.strip_prefix("  ");
        let after_heading = page
            .lines()
            .last()
            .is_some_and(|last| last.starts_with(".SH"));
        if opens && !after_heading {
            *page += ".PP\n";
        } else if command.is_some() {
            *page += ".br\n";
        }
        opens = false;
        *page += &match command {
            Some(command) => format!("\\fB{}\\fR\n", escape(command.trim())),
            None => format!("{}\n", escape(text)),
        };
    }
}

/// The commit's day, so that the pages do not differ from one build to the next.
fn day() -> Result<String, Box<dyn Error>> {
    let epoch = std::env::var("SOURCE_DATE_EPOCH")?.parse()?;
    Ok(jiff::Timestamp::from_second(epoch)?
        .strftime("%Y-%m-%d")
        .to_string())
}

/// What a line of the configuration file is. "# " begins prose, "#" alone a default.
enum Line<'a> {
    Blank,
    Prose(&'a str),
    Table(&'a str),
    Key(&'a str),
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Line<'a> {
        if line.is_empty() {
            return Line::Blank;
        }
        if line == "#" {
            return Line::Prose("");
        }
        if let Some(prose) = line.strip_prefix("# ") {
            return Line::Prose(prose);
        }
        let code = line.strip_prefix('#').unwrap_or(line);
        match code
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            Some(table) => Line::Table(table),
            None => Line::Key(code),
        }
    }
}

/// Text as roff takes it: no escapes, no requests, hyphens that can be copied into a shell.
fn escape(text: &str) -> String {
    let text = text
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq");
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
Success; for \fBstatus\fR: every driver is registered.
.TP
1
Failure, or the answer is no.
.TP
64
The command line is wrong.
.TP
78
The configuration has an error. systemd does not restart the daemon.
.SH ENVIRONMENT
A variable can set each key of the configuration, except those of drivers: NSDR_ and the key in capitals,
with two underscores between levels, as in NSDR_LOG__LEVEL=debug.
The unit reads them from /etc/default/node\-storage\-driver\-registrar and
/etc/sysconfig/node\-storage\-driver\-registrar. The commands check, config and doctor read these
files too, unless \-\-config is given; a variable of the shell takes precedence.
.SH FILES
.TP
/etc/node\-storage\-driver\-registrar/config.toml
The configuration; see \fBnode\-storage\-driver\-registrar.toml\fR(5).
.TP
/etc/node\-storage\-driver\-registrar/config.d/*.toml
Read next, in the order of their names.
.TP
/run/node\-storage\-driver\-registrar/
The lock, the state that persists across restarts, and the control socket.
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
