//! Secrets of 256 bits as text: 64 hexadecimal digits, for `#[serde(with = "netfold_wire::hex")]`.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

/// Writes 64 lower-case digits.
///
/// # Errors
///
/// The serializer's.
pub fn serialize<S: Serializer>(secret: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
    let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    serializer.serialize_str(&digits)
}

/// Reads 64 digits of either case.
///
/// # Errors
///
/// Anything else; the message does not repeat the text, which may be a secret.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    let digits = String::deserialize(deserializer)?;
    let invalid = || D::Error::custom("expected 64 hexadecimal digits");
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let mut secret = [0; 32];
    if pairs.len() != secret.len() || !rest.is_empty() {
        return Err(invalid());
    }
    for (byte, pair) in secret.iter_mut().zip(pairs) {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        let (high, low) = high.zip(low).ok_or_else(invalid)?;
        // Two digits are below 256.
        *byte = (high << 4 | low) as u8;
    }
    Ok(secret)
}
