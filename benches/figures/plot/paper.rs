//! SVG as text: lines, paths and words, in the colours of a light or a dark page.

use std::fmt::{Display, Write as _};

const STYLE: &str = "\
    .back { fill: #ffffff } .text { fill: #1f2328 } .dim { fill: #59636e }
    .grid { stroke: #d1d9e0; stroke-width: 1 } .faint { stroke: #eff2f5; stroke-width: 1 }
    .series { fill: none; stroke-width: 2; stroke-linejoin: round } .peer { stroke-dasharray: 5 4 }
    .dot { stroke: none } .goal { fill: none; stroke-width: 2 }
    .c0 { color: #0969da } .c1 { color: #1a7f37 } .c2 { color: #bf3989 }
    .c3 { color: #9a6700 } .c4 { color: #8250df } .c5 { color: #cf222e }
    .series, .goal { stroke: currentColor } .dot, .name { fill: currentColor }
    @media (prefers-color-scheme: dark) {
      .back { fill: #0d1117 } .text { fill: #e6edf3 } .dim { fill: #9198a1 }
      .grid { stroke: #3d444d } .faint { stroke: #212830 }
      .c0 { color: #58a6ff } .c1 { color: #3fb950 } .c2 { color: #f778ba }
      .c3 { color: #d29922 } .c4 { color: #bc8cff } .c5 { color: #ff7b72 }
    }
";

/// A sheet that is being drawn on.
pub(super) struct Paper {
    body: String,
}

/// Which end of the words is at their place.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Paper {
    pub(super) fn new(width: f64, height: f64, title: &str, description: &str) -> Paper {
        let mut paper = Paper {
            body: String::new(),
        };
        paper.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-labelledby=\"t d\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\">\n\
             <title id=\"t\">{}</title>\n<desc id=\"d\">{}</desc>\n<style>\n{STYLE}</style>\n\
             <rect class=\"back\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>",
            escaped(title),
            escaped(description)
        ));
        paper
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.put(format_args!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A line through all points.
    pub(super) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1} {y:.1}"))
            .collect();
        self.put(format_args!(
            "<path class=\"series {class}\" d=\"M{}\"/>",
            points.join(" L")
        ));
    }

    pub(super) fn dot(&mut self, class: &str, at: (f64, f64)) {
        self.put(format_args!(
            "<circle class=\"dot {class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
            at.0, at.1
        ));
    }

    /// A diamond where a goal is.
    pub(super) fn goal(&mut self, class: &str, at: (f64, f64)) {
        self.put(format_args!(
            "<path class=\"goal {class}\" d=\"M{:.1} {:.1} l5 5 -5 5 -5 -5z\"/>",
            at.0,
            at.1 - 5.0
        ));
    }

    pub(super) fn text(&mut self, class: &str, anchor: Anchor, at: (f64, f64), text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.put(format_args!(
            "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            at.0,
            at.1,
            escaped(text)
        ));
    }

    pub(super) fn finish(mut self) -> String {
        self.put("</svg>");
        self.body
    }

    fn put(&mut self, element: impl Display) {
        writeln!(self.body, "{element}").expect("a string takes any text");
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
