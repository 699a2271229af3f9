//! Plots as SVG.

use std::fmt::Write;

/// A drawing of numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Plot {
    /// Bars, in groups.
    Bars(Bars),
    /// Curves.
    Lines(Lines),
}

/// Groups of bars: a heading, and bars with their names and values.
pub type Groups = Vec<(String, Vec<(String, f64)>)>;

/// Curves: names and points.
pub type Series = Vec<(String, Vec<(f64, f64)>)>;

/// Horizontal bars from 0 on, in groups with a heading each.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// What is shown, with its unit.
    pub title: String,
    /// The groups.
    pub groups: Groups,
}

/// Curves over a common axis. Points that are no numbers are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// What is shown.
    pub title: String,
    /// The horizontal axis, with its unit.
    pub x: String,
    /// The vertical axis, with its unit.
    pub y: String,
    /// The curves.
    pub series: Series,
}

const WIDTH: f64 = 760.0;
const LABEL: f64 = 210.0;
const BAR: f64 = 18.0;
const GAP: f64 = 5.0;
const HEAD: f64 = 34.0;
const GROUP: f64 = 26.0;
/// Height of a drawing of curves, and its margins.
const LINES: f64 = 330.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const BOTTOM: f64 = 46.0;
const ROW: f64 = 20.0;
const COLOURS: [&str; 6] = ["#1f5fa8", "#e08a1e", "#2e8540", "#b8323c", "#7a5ea8", "#6b6b6b"];

/// All plots, one below the other, as a drawing of its own.
pub fn svg(plots: &[Plot]) -> String {
    let mut body = String::new();
    let mut top = 0.0;
    for plot in plots {
        top += match plot {
            Plot::Bars(bars) => bars.draw(&mut body, top),
            Plot::Lines(lines) => lines.draw(&mut body, top),
        };
    }
    let height = top + 14.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{height:.0}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

// Writing to a string cannot fail, so results of `writeln!` are not looked at.
impl Bars {
    /// Draws below `top`, and returns its height.
    fn draw(&self, out: &mut String, top: f64) -> f64 {
        let all = self.groups.iter().flat_map(|(_, bars)| bars).map(|(_, value)| *value);
        let max = all.filter(|value| value.is_finite()).fold(f64::MIN_POSITIVE, f64::max);
        let scale = (WIDTH - LABEL - 80.0) / max;
        heading(out, top, &self.title);
        let mut y = top + HEAD;
        for (name, bars) in &self.groups {
            if !name.is_empty() {
                let _ = writeln!(
                    out,
                    "<text x=\"10\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
                    y + 15.0,
                    escape(name)
                );
                y += GROUP;
            }
            for (place, (name, value)) in bars.iter().enumerate() {
                let width = (value * scale).clamp(0.0, WIDTH);
                let middle = y + BAR / 2.0 + 4.5;
                let _ = writeln!(
                    out,
                    "<text x=\"{:.0}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>\
                     <rect x=\"{LABEL}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{}\"/>\
                     <text x=\"{:.1}\" y=\"{middle:.1}\">{}</text>",
                    LABEL - 8.0,
                    escape(name),
                    COLOURS[place % COLOURS.len()],
                    LABEL + width + 6.0,
                    if *value < 10.0 { format!("{value:.3}") } else { format!("{value:.1}") },
                );
                y += BAR + GAP;
            }
            y += GAP;
        }
        y - top
    }
}

/// Where values of curves are in the drawing.
struct Axes {
    /// From the least to the greatest value across.
    across: (f64, f64),
    /// From 0 to the first tick that is not below any value.
    up: f64,
    /// Between two ticks across, and up.
    steps: (f64, f64),
    /// The upper and the lower end, in units of the drawing.
    ends: (f64, f64),
}

impl Axes {
    fn new<'a>(points: impl Iterator<Item = &'a (f64, f64)>, ends: (f64, f64)) -> Self {
        let (mut across, mut up) = ((f64::MAX, f64::MIN), 0.0_f64);
        for (x, y) in points {
            (across, up) = ((across.0.min(*x), across.1.max(*x)), up.max(*y));
        }
        let across = if across.1 > across.0 { across } else { (0.0, 1.0) };
        let up = if up > 0.0 { up } else { 1.0 };
        let steps = (nice_step((across.1 - across.0) / 8.0), nice_step(up / 5.0));
        Self { across, up: (up / steps.1).ceil() * steps.1, steps, ends }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (value - self.across.0) / (self.across.1 - self.across.0)
    }

    fn y(&self, value: f64) -> f64 {
        self.ends.1 - (self.ends.1 - self.ends.0) * value / self.up
    }

    /// The lines of ticks, and their numbers.
    fn draw(&self, out: &mut String) {
        let (across, up) = self.steps;
        for tick in 0..=(self.up / up).round() as u32 {
            let (value, at) = (f64::from(tick) * up, self.y(f64::from(tick) * up));
            let _ = writeln!(
                out,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#dddddd\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.5,
                number(value, up)
            );
        }
        let ticks = ((self.across.0 / across).ceil() as i64)..=((self.across.1 / across).floor() as i64);
        for value in ticks.map(|tick| tick as f64 * across) {
            let (at, below) = (self.x(value), self.ends.1 + 18.0);
            let number = number(value, across);
            let _ =
                writeln!(out, "<text x=\"{at:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{number}</text>");
        }
    }
}

impl Lines {
    /// Draws below `top`, and returns its height.
    fn draw(&self, out: &mut String, top: f64) -> f64 {
        heading(out, top, &self.title);
        let legend = ROW * self.series.len().div_ceil(4) as f64;
        let ends = (top + HEAD + legend + 8.0, top + HEAD + legend + LINES - BOTTOM);
        let drawn = |point: &&(f64, f64)| point.0.is_finite() && point.1.is_finite();
        let points = self.series.iter().flat_map(|(_, points)| points).filter(drawn);
        let axes = Axes::new(points, ends);
        axes.draw(out);
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        let _ = writeln!(
            out,
            "<text x=\"{middle}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            ends.1 + 38.0,
            escape(&self.x),
            (ends.0 + ends.1) / 2.0,
            escape(&self.y)
        );
        for (place, (name, points)) in self.series.iter().enumerate() {
            let colour = COLOURS[place % COLOURS.len()];
            let at = |point: &(f64, f64)| format!("{:.1},{:.1}", axes.x(point.0), axes.y(point.1));
            let at: Vec<String> = points.iter().filter(drawn).map(at).collect();
            let left = LEFT + 170.0 * (place % 4) as f64;
            let row = top + HEAD + ROW * (place / 4) as f64 + 8.0;
            let _ = writeln!(
                out,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\
                 <line x1=\"{left}\" x2=\"{}\" y1=\"{row:.1}\" y2=\"{row:.1}\" stroke=\"{colour}\" stroke-width=\"3\"/>\
                 <text x=\"{}\" y=\"{:.1}\">{}</text>",
                at.join(" "),
                left + 22.0,
                left + 28.0,
                row + 4.5,
                escape(name)
            );
        }
        HEAD + legend + LINES
    }
}

fn heading(out: &mut String, top: f64, title: &str) {
    let _ = writeln!(out, "<text x=\"10\" y=\"{:.1}\" font-size=\"15\">{}</text>", top + 24.0, escape(title));
}

/// 1, 2 or 5 times a power of ten, not below `min`.
fn nice_step(min: f64) -> f64 {
    let min = if min.is_finite() && min > 0.0 { min } else { 1.0 };
    let mut power = 1.0;
    while power * 10.0 <= min {
        power *= 10.0;
    }
    while power > min {
        power /= 10.0;
    }
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|step| *step >= min).unwrap_or(power)
}

/// With as many places as the step between two of them has.
fn number(value: f64, step: f64) -> String {
    let places = (0..9).find(|places| (step * 10_f64.powi(*places)).fract().abs() < 1e-6).unwrap_or(9);
    format!("{value:.*}", places as usize)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_numbers_are_drawn_all_the_same() {
        for values in [vec![], vec![0.0], vec![f64::NAN, f64::INFINITY, -1.0], vec![1e-9, 1e12]] {
            let points = values.iter().map(|value| (*value, *value)).collect();
            let bars = values.iter().map(|value| ("a < b".into(), *value)).collect();
            let drawing = svg(&[
                Plot::Bars(Bars { title: "bars".into(), groups: vec![("g & h".into(), bars)] }),
                Plot::Lines(Lines {
                    title: "lines".into(),
                    x: "x".into(),
                    y: "y".into(),
                    series: vec![("s".into(), points)],
                }),
            ]);
            assert!(drawing.ends_with("</svg>\n") && drawing.contains("g &amp; h"), "{drawing}");
            assert_eq!(drawing.matches("a &lt; b").count(), values.len());
        }
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!([0.3, 1.0, 1.1, 7.0, 120.0].map(nice_step), [0.5, 1.0, 2.0, 10.0, 200.0]);
        assert_eq!(
            (number(0.5, 0.5), number(2.0, 2.0), number(0.25, 0.05)),
            ("0.5".into(), "2".into(), "0.25".into())
        );
    }
}
