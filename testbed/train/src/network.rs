//! The model: fully connected layers, ReLU between them, softmax cross-entropy at the end.
//!
//! Loops are written so that the innermost one runs over contiguous outputs without a carried sum; the compiler turns
//! them into vector code without changing the order of any addition, so results are the same on every machine that
//! rounds as IEEE 754 specifies.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::digits::Samples;

/// Independent partial sums of [`dot`]: one vector register of the common machines.
const DOT_LANES: usize = 8;

/// A multilayer perceptron.
///
/// A layer of `n` inputs and `m` outputs is one tensor of `(n + 1) * m` elements: the weights by input, `m` each, and then
/// the `m` biases. Gradients have the same shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Widths from the input to the output, at least two.
    widths: Vec<usize>,
    layers: Vec<Vec<f32>>,
}

/// Buffers of one sample's way through a network, so that steps allocate nothing but gradients.
#[derive(Debug, Clone)]
pub struct Scratch {
    /// Inputs of each layer, then the network's output (before softmax).
    activations: Vec<Vec<f32>>,
}

impl Network {
    /// A network of the given layer widths with random weights (He's initialisation: uniform with variance 2 / inputs,
    /// the last layer half of that) and zero biases. The same seed gives the same network.
    ///
    /// # Panics
    ///
    /// If there are fewer than two widths or one is zero.
    pub fn new(widths: &[usize], seed: u64) -> Self {
        assert!(widths.len() >= 2 && widths.iter().all(|&width| width > 0), "a layer has inputs and outputs");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let last = widths.len() - 2;
        let layers = (0..=last)
            .map(|layer| {
                let (inputs, outputs) = (widths[layer], widths[layer + 1]);
                let variance = if layer == last { 1.0 } else { 2.0 } / inputs as f32;
                let bound = (3.0 * variance).sqrt();
                let weights = (0..inputs * outputs).map(|_| rng.random_range(-bound..bound));
                weights.chain(std::iter::repeat_n(0.0, outputs)).collect()
            })
            .collect();
        Self { widths: widths.to_vec(), layers }
    }

    /// Number of layers, which is the number of tensors.
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// Elements of all tensors together.
    pub fn elements(&self) -> usize {
        self.layers.iter().map(Vec::len).sum()
    }

    /// The tensor of `layer`: weights, then biases.
    ///
    /// # Panics
    ///
    /// If there is no such layer.
    pub fn parameters(&self, layer: usize) -> &[f32] {
        &self.layers[layer]
    }

    /// The tensor of `layer`, to be changed.
    ///
    /// # Panics
    ///
    /// If there is no such layer.
    pub fn parameters_mut(&mut self, layer: usize) -> &mut [f32] {
        &mut self.layers[layer]
    }

    /// A 64-bit FNV-1a digest of all parameters' bits: equal on workers that hold the same model.
    pub fn digest(&self) -> u64 {
        let bytes = self.layers.iter().flatten().flat_map(|value| value.to_bits().to_le_bytes());
        bytes
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    /// Buffers for this network's shape.
    pub fn scratch(&self) -> Scratch {
        Scratch { activations: self.widths.iter().map(|&width| vec![0.0; width]).collect() }
    }

    /// Loss (cross-entropy in nats, summed over the images) and number of images classified correctly.
    ///
    /// # Panics
    ///
    /// If an image's size or a label does not fit the network.
    pub fn judge(&self, samples: &Samples, scratch: &mut Scratch) -> (f64, usize) {
        let mut loss = 0.0;
        let mut right = 0;
        for index in 0..samples.len() {
            self.forward(samples.image(index), scratch);
            let logits = scratch.logits();
            loss += cross_entropy(logits, samples.label(index));
            right += usize::from(argmax(logits) == samples.label(index));
        }
        (loss, right)
    }

    /// The gradient of the loss summed over the images `indices`, added up in that order.
    ///
    /// `done` gets each layer's tensor as soon as it is complete, the last layer first.
    ///
    /// # Errors
    ///
    /// What `done` returns; the rest is skipped then.
    ///
    /// # Panics
    ///
    /// If an index, an image's size or a label does not fit.
    pub fn gradient<E>(
        &self,
        samples: &Samples,
        indices: &[usize],
        scratch: &mut Scratch,
        mut done: impl FnMut(usize, Vec<f32>) -> Result<(), E>,
    ) -> Result<(), E> {
        // Per image: the inputs of every layer, and the loss's derivative by the outputs of the layer in hand.
        let mut inputs: Vec<Vec<f32>> = vec![Vec::new(); self.layers()];
        let mut errors = Vec::with_capacity(indices.len() * self.widths[self.layers()]);
        for &index in indices {
            self.forward(samples.image(index), scratch);
            for (kept, activation) in inputs.iter_mut().zip(&scratch.activations) {
                kept.extend_from_slice(activation);
            }
            let at = errors.len();
            errors.extend_from_slice(scratch.logits());
            softmax(&mut errors[at..]);
            errors[at + samples.label(index)] -= 1.0;
        }
        for layer in (0..self.layers()).rev() {
            done(layer, self.layer_gradient(layer, &inputs[layer], &errors))?;
            if layer > 0 {
                errors = self.propagate(layer, &inputs[layer], &errors);
            }
        }
        Ok(())
    }

    fn shape(&self, layer: usize) -> (usize, usize) {
        (self.widths[layer], self.widths[layer + 1])
    }

    fn forward(&self, image: &[f32], scratch: &mut Scratch) {
        scratch.activations[0].copy_from_slice(image);
        for layer in 0..self.layers() {
            let (inputs, outputs) = self.shape(layer);
            let (weights, biases) = self.layers[layer].split_at(inputs * outputs);
            let (before, after) = scratch.activations.split_at_mut(layer + 1);
            let sums = &mut after[0];
            sums.copy_from_slice(biases);
            for (&input, row) in before[layer].iter().zip(weights.chunks_exact(outputs)) {
                // Blank pixels and idle neurons are common, and adding 0 * weight changes nothing.
                if input != 0.0 {
                    add_scaled(sums, input, row);
                }
            }
            if layer + 1 < self.layers() {
                sums.iter_mut().for_each(|sum| *sum = sum.max(0.0));
            }
        }
    }

    /// Sum over the images of the outer product of inputs and errors, then of the errors.
    fn layer_gradient(&self, layer: usize, inputs: &[f32], errors: &[f32]) -> Vec<f32> {
        let (width, outputs) = self.shape(layer);
        let mut gradient = vec![0.0; self.layers[layer].len()];
        let (weights, biases) = gradient.split_at_mut(width * outputs);
        for (input, error) in inputs.chunks_exact(width).zip(errors.chunks_exact(outputs)) {
            for (&value, row) in input.iter().zip(weights.chunks_exact_mut(outputs)) {
                if value != 0.0 {
                    add_scaled(row, value, error);
                }
            }
            add_scaled(biases, 1.0, error);
        }
        gradient
    }

    /// The loss's derivative by the outputs of the layer below: through the weights, then through ReLU.
    fn propagate(&self, layer: usize, inputs: &[f32], errors: &[f32]) -> Vec<f32> {
        let (width, outputs) = self.shape(layer);
        let weights = &self.layers[layer][..width * outputs];
        let mut below = vec![0.0; inputs.len()];
        for ((below, input), error) in
            below.chunks_exact_mut(width).zip(inputs.chunks_exact(width)).zip(errors.chunks_exact(outputs))
        {
            for ((below, &input), row) in below.iter_mut().zip(input).zip(weights.chunks_exact(outputs)) {
                if input > 0.0 {
                    *below = dot(row, error);
                }
            }
        }
        below
    }
}

impl Scratch {
    fn logits(&self) -> &[f32] {
        self.activations.last().map_or(&[], Vec::as_slice)
    }
}

fn add_scaled(sums: &mut [f32], factor: f32, values: &[f32]) {
    for (sum, &value) in sums.iter_mut().zip(values) {
        *sum += factor * value;
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut partial = [0.0; DOT_LANES];
    let (a_blocks, b_blocks) = (a.chunks_exact(DOT_LANES), b.chunks_exact(DOT_LANES));
    let rest: f32 = a_blocks.remainder().iter().zip(b_blocks.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_blocks.zip(b_blocks) {
        for lane in 0..DOT_LANES {
            partial[lane] += x[lane] * y[lane];
        }
    }
    partial.iter().sum::<f32>() + rest
}

fn argmax(values: &[f32]) -> usize {
    let mut best = 0;
    for (index, &value) in values.iter().enumerate() {
        if value > values[best] {
            best = index;
        }
    }
    best
}

fn softmax(values: &mut [f32]) {
    let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for value in values.iter_mut() {
        *value = (*value - largest).exp();
        sum += *value;
    }
    values.iter_mut().for_each(|value| *value /= sum);
}

/// `-log(softmax(logits)[label])`, in `f64` so that a sum over many images keeps its digits.
fn cross_entropy(logits: &[f32], label: usize) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&value| f64::from(value - largest).exp()).sum();
    sum.ln() - f64::from(logits[label] - largest)
}

#[cfg(test)]
mod tests {
    use super::super::digits::{CLASSES, Digits, PIXELS};
    use super::*;

    fn whole_gradient(network: &Network, samples: &Samples, indices: &[usize]) -> Vec<Vec<f32>> {
        let mut gradients = vec![Vec::new(); network.layers()];
        network
            .gradient(samples, indices, &mut network.scratch(), |layer, gradient| {
                gradients[layer] = gradient;
                Ok::<(), ()>(())
            })
            .unwrap();
        gradients
    }

    fn loss(network: &Network, samples: &Samples, indices: &[usize]) -> f64 {
        let mut scratch = network.scratch();
        indices
            .iter()
            .map(|&index| {
                network.forward(samples.image(index), &mut scratch);
                cross_entropy(scratch.logits(), samples.label(index))
            })
            .sum()
    }

    #[test]
    fn gradient_is_the_slope_of_the_loss() {
        let digits = Digits::embedded().unwrap();
        let mut network = Network::new(&[PIXELS, 12, 9, CLASSES], 7);
        let indices: Vec<usize> = (0..6).collect();
        let gradients = whole_gradient(&network, &digits.train, &indices);
        let largest = gradients.iter().flatten().fold(0.0_f32, |a, b| a.max(b.abs()));
        let step = 2e-3_f32;
        let mut checked = 0;
        for (layer, gradient) in gradients.iter().enumerate() {
            // Every 3rd parameter and all biases, so that each term of the derivation is covered.
            let biases = gradient.len() - network.widths[layer + 1];
            for at in (0..biases).step_by(3).chain(biases..gradient.len()) {
                let kept = network.layers[layer][at];
                network.layers[layer][at] = kept + step;
                let (above, high) = (loss(&network, &digits.train, &indices), network.layers[layer][at]);
                network.layers[layer][at] = kept - step;
                let (below, low) = (loss(&network, &digits.train, &indices), network.layers[layer][at]);
                network.layers[layer][at] = kept;
                let slope = (above - below) / f64::from(high - low);
                let off = (slope - f64::from(gradient[at])).abs();
                assert!(
                    off < 2e-3 * f64::from(largest),
                    "layer {layer}, parameter {at}: slope {slope}, gradient {}",
                    gradient[at]
                );
                checked += 1;
            }
        }
        assert!(checked > 300, "{checked}");
    }

    #[test]
    fn gradients_come_last_layer_first_and_stop_at_an_error() {
        let digits = Digits::embedded().unwrap();
        let network = Network::new(&[PIXELS, 8, 8, CLASSES], 1);
        let mut order = Vec::new();
        let outcome = network.gradient(&digits.train, &[0, 1], &mut network.scratch(), |layer, tensor| {
            order.push((layer, tensor.len()));
            if layer == 1 { Err("enough") } else { Ok(()) }
        });
        assert_eq!(outcome, Err("enough"));
        assert_eq!(order, [(2, 9 * CLASSES), (1, 9 * 8)]);
    }

    #[test]
    fn an_empty_shard_has_a_zero_gradient() {
        let digits = Digits::embedded().unwrap();
        let network = Network::new(&[PIXELS, 8, CLASSES], 1);
        let gradients = whole_gradient(&network, &digits.train, &[]);
        assert_eq!(gradients.iter().map(Vec::len).sum::<usize>(), network.elements());
        assert!(gradients.iter().flatten().all(|&value| value == 0.0));
    }

    #[test]
    fn dot_handles_every_remainder() {
        for len in 0..40 {
            let a: Vec<f32> = (0..len).map(|i| i as f32).collect();
            let b: Vec<f32> = (0..len).map(|i| 2.0 * i as f32 - 5.0).collect();
            let want: f32 = (0..len).map(|i| i as f32 * (2.0 * i as f32 - 5.0)).sum();
            assert_eq!(dot(&a, &b), want);
        }
    }

    #[test]
    fn seeds_and_digests() {
        let network = Network::new(&[4, 3, 2], 5);
        assert_eq!(network, Network::new(&[4, 3, 2], 5));
        assert_eq!(network.digest(), Network::new(&[4, 3, 2], 5).digest());
        assert_ne!(network.digest(), Network::new(&[4, 3, 2], 6).digest());
        assert_eq!(network.elements(), 5 * 3 + 4 * 2);
    }
}
