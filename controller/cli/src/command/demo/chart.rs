//! The loss curve against its reference: as text, and as SVG.

use std::fmt::{self, Write};

/// Two curves of one positive value per epoch, the first before any step.
pub(crate) struct Chart<'a> {
    pub(crate) ours: &'a [f64],
    pub(crate) reference: &'a [f64],
}

const COLUMNS: usize = 61;
const ROWS: usize = 12;

/// Size of the drawing and its margins, in SVG units.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 50.0;

/// The logarithmic axis: from the smallest to the largest value.
#[derive(Clone, Copy)]
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let logs = values.filter(|value| value.is_finite() && *value > 0.0).map(f64::log10);
        let (low, high) = logs.fold((f64::MAX, f64::MIN), |(low, high), log| (low.min(log), high.max(log)));
        if low < high { Self { low, high } } else { Self { low: -1.0, high: 1.0 } }
    }

    /// 0.0 at the bottom, 1.0 at the top. Values off the axis are drawn at its ends, NaN at the top.
    fn position(self, value: f64) -> f64 {
        let position = (value.max(f64::MIN_POSITIVE).log10() - self.low) / (self.high - self.low);
        if value.is_nan() { 1.0 } else { position.clamp(0.0, 1.0) }
    }

    fn value(self, position: f64) -> f64 {
        10.0_f64.powf(self.low + position * (self.high - self.low))
    }
}

impl Chart<'_> {
    fn axis(&self) -> Axis {
        Axis::of(self.ours.iter().chain(self.reference).copied())
    }

    fn epochs(&self) -> usize {
        self.ours.len().max(self.reference.len()).saturating_sub(1).max(1)
    }

    /// A complete SVG drawing.
    pub(crate) fn svg(&self, title: &str) -> String {
        let mut text = String::new();
        self.draw(&mut text, title).expect("writing to a string does not fail");
        text
    }

    fn draw(&self, out: &mut String, title: &str) -> fmt::Result {
        let (axis, epochs) = (self.axis(), self.epochs());
        let x = |epoch: usize| LEFT + (WIDTH - LEFT - RIGHT) * epoch as f64 / epochs as f64;
        let y = |value: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - axis.position(value));
        writeln!(
            out,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">"#
        )?;
        writeln!(out, r##"<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>"##)?;
        writeln!(out, r#"<text x="{LEFT}" y="24" font-size="16">{}</text>"#, escape(title))?;
        for (value, label) in ticks(axis) {
            let at = y(value);
            writeln!(
                out,
                r##"<line x1="{LEFT}" x2="{}" y1="{at:.1}" y2="{at:.1}" stroke="#dddddd"/><text x="{}" y="{:.1}" text-anchor="end">{label}</text>"##,
                WIDTH - RIGHT,
                LEFT - 8.0,
                at + 4.0
            )?;
        }
        for epoch in (0..=epochs).step_by(epochs.div_ceil(10)) {
            let (at, below) = (x(epoch), HEIGHT - BOTTOM + 20.0);
            writeln!(out, r#"<text x="{at:.1}" y="{below}" text-anchor="middle">{epoch}</text>"#)?;
        }
        let (middle, foot) = ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 10.0);
        writeln!(out, r#"<text x="{middle}" y="{foot}" text-anchor="middle">epoch</text>"#)?;
        let curves = [
            (
                self.reference,
                "one process, f32",
                r##"stroke="#e8a33d" stroke-width="6" stroke-opacity="0.6""##,
            ),
            (self.ours, "summed by the switch", r##"stroke="#1f5fa8" stroke-width="2""##),
        ];
        for (index, (curve, name, style)) in curves.iter().enumerate() {
            write!(out, r#"<polyline fill="none" {style} points=""#)?;
            for (epoch, &value) in curve.iter().enumerate() {
                write!(out, "{:.1},{:.1} ", x(epoch), y(value))?;
            }
            writeln!(out, r#""/>"#)?;
            let at = LEFT + 200.0 * index as f64;
            writeln!(
                out,
                r#"<line x1="{at}" x2="{}" y1="42" y2="42" {style}/><text x="{}" y="46">{name}</text>"#,
                at + 24.0,
                at + 32.0
            )?;
        }
        writeln!(out, "</svg>")
    }
}

/// Text for terminals: `●` is the training, `·` its reference where the two differ.
impl fmt::Display for Chart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (axis, epochs) = (self.axis(), self.epochs());
        let row = |value| ((1.0 - axis.position(value)) * (ROWS - 1) as f64).round() as usize;
        let epoch = |column| column as f64 * epochs as f64 / (COLUMNS - 1) as f64;
        let mut cells = vec![[' '; COLUMNS]; ROWS];
        for (curve, mark) in [(self.reference, '·'), (self.ours, '●')] {
            let points =
                (0..COLUMNS).filter_map(|column| Some((column, interpolated(curve, epoch(column))?)));
            points.for_each(|(column, value)| cells[row(value)][column] = mark);
        }
        for (index, cells) in cells.iter().enumerate() {
            let value = axis.value(1.0 - index as f64 / (ROWS - 1) as f64);
            let line: String = cells.iter().collect();
            writeln!(f, "  {value:>8.4} │{}", line.trim_end())?;
        }
        writeln!(f, "  {:>8} └{}", "", "─".repeat(COLUMNS))?;
        write!(f, "  {:>8}  epoch 0{:>width$}", "", epochs, width = COLUMNS - 7)
    }
}

/// The value between two epochs, on the logarithmic scale.
fn interpolated(curve: &[f64], at: f64) -> Option<f64> {
    let before = *curve.get(at.floor() as usize)?;
    let after = *curve.get(at.ceil() as usize)?;
    Some(before * (after / before).powf(at.fract()))
}

/// Values 1, 2 and 5 times a power of ten within the axis.
fn ticks(axis: Axis) -> Vec<(f64, String)> {
    let powers = axis.low.floor() as i32..=axis.high.ceil() as i32;
    powers
        .flat_map(|power| [1, 2, 5].map(|step| (step, power)))
        .map(|(step, power)| (f64::from(step) * 10.0_f64.powi(power), power))
        .filter(|(value, _)| (axis.low..=axis.high).contains(&value.log10()))
        .map(|(value, power)| (value, format!("{value:.*}", usize::try_from(-power).unwrap_or(0))))
        .collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_shows_where_curves_differ() {
        let curve = [2.0, 1.0, 0.5, 0.25];
        let same = Chart { ours: &curve, reference: &curve }.to_string();
        assert!(same.contains('●') && !same.contains('·'), "{same}");
        assert_eq!(same.lines().count(), ROWS + 2);
        assert!(same.lines().next().unwrap().contains("2.0000 │●"), "{same}");
        assert!(same.lines().nth(ROWS - 1).unwrap().contains("0.2500 │"), "{same}");
        let apart = Chart { ours: &curve, reference: &[2.0, 1.8, 1.6, 1.4] }.to_string();
        assert!(apart.contains('·'), "{apart}");
    }

    #[test]
    fn unusual_curves_are_drawn() {
        for (ours, reference) in [
            (&[][..], &[][..]),
            (&[1.0], &[1.0]),
            (&[1.0, f64::NAN, f64::INFINITY], &[1.0]),
            (&[0.0, 0.0], &[-1.0, 2.0]),
        ] {
            let chart = Chart { ours, reference };
            assert_eq!(chart.to_string().lines().count(), ROWS + 2);
            assert!(chart.svg("x").ends_with("</svg>\n"));
        }
    }

    #[test]
    fn svg_has_both_curves_and_an_escaped_title() {
        let svg = Chart { ours: &[2.0, 0.1], reference: &[2.0, 0.2] }.svg("a < b & c");
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("a &lt; b &amp; c"));
        assert!(svg.contains(">0.5</text>") && svg.contains(">1</text>"), "{svg}");
    }
}
