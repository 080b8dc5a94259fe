//! The plots, as SVG that looks right on a light and on a dark page.

mod axis;
mod growth;
mod paper;
mod times;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::results::Results;

/// Draws what there are results for, and says which files it wrote.
pub(crate) fn draw(results: &Results, directory: &Path) -> io::Result<Vec<PathBuf>> {
    let plots = [
        ("performance-times.svg", times::draw(&results.lines)),
        (
            "performance-growth.svg",
            growth::draw(&results.growth, &results.peer_growth),
        ),
    ];
    let mut written = Vec::new();
    for (name, plot) in plots {
        if let Some(svg) = plot {
            let file = directory.join(name);
            fs::write(&file, svg)?;
            written.push(file);
        }
    }
    Ok(written)
}
