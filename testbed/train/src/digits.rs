//! The data set: 8 x 8 images of handwritten digits, embedded in the program.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;

/// Pixels of one image: 8 rows of 8, row by row from the top left.
pub const PIXELS: usize = 64;

/// Number of classes.
pub const CLASSES: usize = 10;

/// Largest pixel value in the file.
const PIXEL_MAX: u8 = 16;

/// Every how many-th image of a class is held out for testing.
const TEST_EVERY: usize = 5;

/// Seed of the split, which is the same whatever the training's seed is.
const SPLIT_SEED: u64 = 0x6469_6769_7473;

/// `testbed/train/data/README.md` names the source and the licence.
const EMBEDDED: &str = include_str!("../data/digits.csv");

/// Why a text is not a digits file. Lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DigitsError {
    /// There is no image in the file.
    #[error("the file holds no image")]
    Empty,
    /// A line has not 64 pixels and a label.
    #[error("line {line} has {columns} columns where 65 are needed: 64 pixels and the digit")]
    Columns {
        /// The line.
        line: usize,
        /// Columns found.
        columns: usize,
    },
    /// A field is not a number of the range that belongs there.
    #[error("line {line}, column {column}: '{text}' is not an integer of 0 to {max}")]
    Field {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
        /// Its text, at most 16 characters of it.
        text: String,
        /// Largest value that may stand there.
        max: u8,
    },
    /// A class has too few images to hold any out.
    #[error("digit {class} has {found} images where at least {need} are needed to hold one out for testing")]
    Class {
        /// The digit.
        class: usize,
        /// Its images.
        found: usize,
        /// Images needed.
        need: usize,
    },
}

/// Images and their labels.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Samples {
    /// Pixels scaled to 0.0..=1.0, [`PIXELS`] an image, one image after the other.
    pixels: Vec<f32>,
    labels: Vec<u8>,
}

impl Samples {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Pixels of image `index`, each 0.0 (paper) to 1.0 (ink).
    ///
    /// # Panics
    ///
    /// If there is no such image.
    pub fn image(&self, index: usize) -> &[f32] {
        &self.pixels[index * PIXELS..][..PIXELS]
    }

    /// The digit that image `index` shows, below [`CLASSES`].
    ///
    /// # Panics
    ///
    /// If there is no such image.
    pub fn label(&self, index: usize) -> usize {
        usize::from(self.labels[index])
    }

    fn push(&mut self, pixels: &[u8; PIXELS], label: u8) {
        self.pixels.extend(pixels.iter().map(|&pixel| f32::from(pixel) / f32::from(PIXEL_MAX)));
        self.labels.push(label);
    }

    fn pick(&self, indices: &[usize]) -> Self {
        let mut picked = Self::default();
        for &index in indices {
            picked.pixels.extend_from_slice(self.image(index));
            picked.labels.push(self.labels[index]);
        }
        picked
    }
}

/// The data set, split into images to learn from and images to be judged by.
#[derive(Debug, Clone, PartialEq)]
pub struct Digits {
    /// Images to learn from: about four fifths of every class.
    pub train: Samples,
    /// Images held out: about one fifth of every class.
    pub test: Samples,
}

impl Digits {
    /// The data set that is built into the program: 1797 images.
    ///
    /// # Errors
    ///
    /// Never as long as the file in the source tree is whole, which a test checks.
    pub fn embedded() -> Result<Self, DigitsError> {
        Self::parse(EMBEDDED)
    }

    /// Reads lines of 64 pixels (0 to 16) and a digit (0 to 9), separated by commas, and splits them.
    ///
    /// The split is a property of the text alone: the same text gives the same split.
    ///
    /// # Errors
    ///
    /// [`DigitsError`] for anything that is not such a text, naming the line.
    pub fn parse(text: &str) -> Result<Self, DigitsError> {
        let mut samples = Samples::default();
        for (index, line) in text.lines().enumerate() {
            let (pixels, label) = parse_line(index + 1, line)?;
            samples.push(&pixels, label);
        }
        if samples.is_empty() {
            return Err(DigitsError::Empty);
        }
        Self::split(&samples)
    }

    /// Holds out one in [`TEST_EVERY`] of each class, chosen at random.
    fn split(samples: &Samples) -> Result<Self, DigitsError> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(SPLIT_SEED);
        let mut train = Vec::new();
        let mut test = Vec::new();
        for class in 0..CLASSES {
            let mut members: Vec<usize> =
                (0..samples.len()).filter(|&index| samples.label(index) == class).collect();
            if members.len() < TEST_EVERY {
                return Err(DigitsError::Class { class, found: members.len(), need: TEST_EVERY });
            }
            members.shuffle(&mut rng);
            let held_out = members.len() / TEST_EVERY;
            test.extend_from_slice(&members[..held_out]);
            train.extend_from_slice(&members[held_out..]);
        }
        train.sort_unstable();
        test.sort_unstable();
        Ok(Self { train: samples.pick(&train), test: samples.pick(&test) })
    }
}

fn parse_line(line: usize, text: &str) -> Result<([u8; PIXELS], u8), DigitsError> {
    let columns = text.split(',').count();
    if columns != PIXELS + 1 {
        return Err(DigitsError::Columns { line, columns });
    }
    let mut pixels = [0; PIXELS];
    let mut label = 0;
    for (index, field) in text.split(',').enumerate() {
        let (into, max) = match pixels.get_mut(index) {
            Some(pixel) => (pixel, PIXEL_MAX),
            None => (&mut label, CLASSES as u8 - 1),
        };
        *into = field.parse().ok().filter(|&value| value <= max).ok_or_else(|| DigitsError::Field {
            line,
            column: index + 1,
            text: field.chars().take(16).collect(),
            max,
        })?;
    }
    Ok((pixels, label))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: usize) -> String {
        format!("{}{label}\n", "16,".repeat(PIXELS))
    }

    #[test]
    fn the_embedded_set_is_whole_and_split_by_class() {
        let digits = Digits::embedded().unwrap();
        assert_eq!(digits.train.len() + digits.test.len(), 1797);
        assert_eq!(digits.test.len(), 355);
        for class in 0..CLASSES {
            let held_out = (0..digits.test.len()).filter(|&i| digits.test.label(i) == class).count();
            assert!((34..=36).contains(&held_out), "class {class}: {held_out}");
        }
        let all = digits.train.pixels.iter().chain(&digits.test.pixels);
        assert!(all.clone().all(|&pixel| (0.0..=1.0).contains(&pixel)));
        assert!(all.clone().any(|&pixel| pixel == 1.0));
        assert_eq!(digits, Digits::embedded().unwrap());
    }

    #[test]
    fn faults_are_named_with_their_place() {
        let good: String = (0..CLASSES).map(|class| line(class).repeat(TEST_EVERY)).collect();
        assert_eq!(Digits::parse(&good).unwrap().test.len(), CLASSES);
        assert_eq!(Digits::parse(""), Err(DigitsError::Empty));
        assert_eq!(
            Digits::parse(&format!("{good}1,2,3\n")),
            Err(DigitsError::Columns { line: 51, columns: 3 })
        );
        let broken = good.replacen("16,", "17,", 1);
        assert_eq!(
            Digits::parse(&broken),
            Err(DigitsError::Field { line: 1, column: 1, text: "17".into(), max: 16 })
        );
        let broken = format!("{}10\n", "0,".repeat(PIXELS));
        assert_eq!(
            Digits::parse(&broken),
            Err(DigitsError::Field { line: 1, column: 65, text: "10".into(), max: 9 })
        );
        let broken = format!("{}-1\n", "0,".repeat(PIXELS));
        assert!(matches!(Digits::parse(&broken), Err(DigitsError::Field { .. })));
        assert_eq!(
            Digits::parse(&line(0).repeat(TEST_EVERY)),
            Err(DigitsError::Class { class: 1, found: 0, need: TEST_EVERY })
        );
    }
}
