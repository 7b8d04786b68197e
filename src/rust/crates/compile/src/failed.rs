//! Records of failed elements: the failure's number and the subscript. The failing element with the lowest index is
//! reported, since a loop in R would stop there.

use std::fmt::Write as _;

use super::{FailureId, Routine};

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Failed {
    /// The element's index, from 0.
    pub element: i64,
    pub failure: FailureId,
    /// The offending subscript, and the number of elements; 0 for failures that are not subscripts.
    pub subscript: f64,
    pub extent: i64,
}

/// Payload bits in each 64-bit word of a device's record, below the element's index.
const PART: u32 = 24;

impl Failed {
    /// The number of 64-bit words of a record on a device.
    pub const WORDS: usize = 5;

    /// The record with the lower element index.
    pub fn first(self, other: Option<Failed>) -> Failed {
        other.filter(|other| other.element <= self.element).unwrap_or(self)
    }

    /// Decodes the words that `note_failed` in kernels/routine.cuh writes. All words are 0 if nothing has failed.
    pub fn read(words: [u64; Failed::WORDS]) -> Option<Failed> {
        let [a, b, c, d, e] = words.map(|word| !word & ((1 << PART) - 1));
        (words[0] != 0).then_some(Failed {
            element: (!words[0] >> PART) as i64,
            failure: a as FailureId,
            extent: (a >> 8 | b << 16) as i64,
            subscript: f64::from_bits(c | d << PART | e << (2 * PART)),
        })
    }

    /// The text of R's error message.
    pub fn message(&self, routine: &Routine) -> String {
        let failure = &routine.failures[self.failure as usize];
        let mut message = failure.message.clone();
        let mut add = |text: std::fmt::Arguments| message.write_fmt(text).expect("a string takes all");
        if let Some(subscript) = &failure.subscript {
            let value = shown(self.subscript);
            match subscript.trim_end_matches('L') == value || subscript.is_empty() {
                true => add(format_args!(": {value}")),
                false => add(format_args!(": `{subscript}` is {value}")),
            }
            if self.subscript >= 1.0 {
                add(format_args!(" of {}", self.extent));
            }
        }
        if !failure.expression.is_empty() {
            add(format_args!(", in `{}`", failure.expression));
        }
        match (failure.line, self.element + 1) {
            (Some(line), element) => add(format_args!(" (line {line}, element {element})")),
            (None, element) => add(format_args!(" (element {element})")),
        }
        message
    }
}

/// A number, formatted roughly as R prints it.
fn shown(x: f64) -> String {
    match x {
        _ if x.is_infinite() => if x > 0.0 { "Inf" } else { "-Inf" }.into(),
        _ if x.abs() < 1e15 => x.to_string(),
        _ => format!("{x:e}").replace('e', "e+"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;

    /// Encodes a record as `note_failed` does.
    fn packed(failed: Failed) -> [u64; Failed::WORDS] {
        let (x, n) = (failed.subscript.to_bits(), failed.extent as u64);
        let parts = [u64::from(failed.failure) | n << 8, n >> 16, x, x >> 24, x >> 48];
        parts.map(|part| !((failed.element as u64) << PART | part & 0xFF_FFFF))
    }

    #[test]
    fn records_come_back_from_a_devices_words() {
        assert_eq!(Failed::read([0; Failed::WORDS]), None);
        for (element, failure, subscript, extent) in
            [(0, 0, 0.0, 0), (1 << 39, 254, -1.5e300, (1 << 40) - 1), (12, 3, f64::INFINITY, 123_456_789)]
        {
            let failed = Failed { element, failure, subscript, extent };
            assert_eq!(Failed::read(packed(failed)), Some(failed));
            // The maximum of each word belongs to the earlier element, since the words are complements.
            let later = packed(Failed { element: element + 1, failure: 0, subscript: 0.0, extent: 0 });
            let both: Vec<u64> = packed(failed).into_iter().zip(later).map(|(a, b)| a.max(b)).collect();
            assert_eq!(Failed::read(both.try_into().unwrap()), Some(failed));
        }
    }

    #[test]
    fn messages_name_the_subscript_and_its_value() {
        let failure = |message: &str, subscript: Option<&str>, line| Failure {
            message: message.into(),
            expression: "m[i, 5L]".into(),
            line,
            subscript: subscript.map(String::from),
        };
        let failures = vec![
            failure("subscript out of bounds", Some("i"), Some(2)),
            failure("subscript out of bounds", Some("5L"), None),
            failure("a subscript below 1", Some("i"), None),
            failure("missing value", None, Some(1)),
        ];
        let routine = Routine { failures, ..Routine::default() };
        let said = |failure, subscript| Failed { element: 2, failure, subscript, extent: 3 }.message(&routine);
        assert_eq!(said(0, 12.0), "subscript out of bounds: `i` is 12 of 3, in `m[i, 5L]` (line 2, element 3)");
        assert_eq!(said(0, 1e300), "subscript out of bounds: `i` is 1e+300 of 3, in `m[i, 5L]` (line 2, element 3)");
        assert_eq!(said(1, 5.0), "subscript out of bounds: 5 of 3, in `m[i, 5L]` (element 3)");
        assert_eq!(said(2, -0.5), "a subscript below 1: `i` is -0.5, in `m[i, 5L]` (element 3)");
        assert_eq!(said(3, 0.0), "missing value, in `m[i, 5L]` (line 1, element 3)");
    }
}
