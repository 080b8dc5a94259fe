//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::figure::Row;

pub(crate) const USAGE: &str = "\
usage: cargo bench -- [OPTION...]

  --only ROW     measure this row; may be given more than once
  --quick        fewer runs, in less than a minute, without the thousand drivers
  --peer PATH    run this node-driver-registrar beside ours, and print the ratio
  --json PATH    where the JSON goes (target/figures.json)
  --plots DIR    where the plots go (target/figures)
  --docs         write the tables and the plots of docs/performance.md
  --help         this text

The binary that is measured is $REGISTRAR_BIN, else what `cargo build --release` makes.
The exit code says whether everything could be measured, not whether the goals were met.";

#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Empty: all of them.
    only: Vec<Row>,
    pub(crate) quick: bool,
    pub(crate) peer: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) plots: Option<PathBuf>,
    pub(crate) docs: bool,
    pub(crate) help: bool,
}

impl Options {
    pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Options, String> {
        let mut options = Options::default();
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut value = |what: &str| {
                let value = arguments.next();
                value.ok_or_else(|| format!("{} needs {what}", argument.display()))
            };
            match argument.to_str() {
                // Every program that `cargo bench` runs is given it.
                Some("--bench") => {}
                Some("--only") => options.only.push(row(&value("a row")?)?),
                Some("--quick") => options.quick = true,
                Some("--peer") => options.peer = Some(value("a path")?.into()),
                Some("--json") => options.json = Some(value("a path")?.into()),
                Some("--plots") => options.plots = Some(value("a directory")?.into()),
                Some("--docs") => options.docs = true,
                Some("--help" | "-h") => options.help = true,
                _ => return Err(format!("unknown option: {}", argument.display())),
            }
        }
        options.check()
    }

    pub(crate) fn wants(&self, row: Row) -> bool {
        self.only.is_empty() || self.only.contains(&row)
    }

    fn check(self) -> Result<Options, String> {
        if self.docs && (self.quick || !self.only.is_empty()) {
            return Err("--docs takes a whole run: not with --quick or --only".to_owned());
        }
        if self.docs && self.plots.is_some() {
            return Err("--docs draws the plots into docs: not with --plots".to_owned());
        }
        match &self.peer {
            Some(peer) if !peer.is_file() => {
                Err(format!("--peer {}: there is no such file", peer.display()))
            }
            _ => Ok(self),
        }
    }
}

fn row(name: &OsString) -> Result<Row, String> {
    let found = Row::ALL
        .into_iter()
        .find(|row| name.to_str() == Some(row.name()));
    found.ok_or_else(|| {
        let names = Row::ALL.map(Row::name).join(", ");
        format!("--only {}: the rows are {names}", name.display())
    })
}
