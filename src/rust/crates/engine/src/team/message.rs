//! The messages that members exchange before the data: in which collective they are, or that they stop.

use std::fmt;

use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};
use verdigris_ops::{id, OpId};

/// How the members' elements are combined, in the order of ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fold {
    Sum,
    Product,
    Min,
    Max,
}

impl Fold {
    const ALL: [Fold; 4] = [Fold::Sum, Fold::Product, Fold::Min, Fold::Max];

    /// The name in R.
    pub fn name(self) -> &'static str {
        match self {
            Fold::Sum => "+",
            Fold::Product => "*",
            Fold::Min => "min",
            Fold::Max => "max",
        }
    }

    pub fn from_name(name: &str) -> Option<Fold> {
        Fold::ALL.into_iter().find(|fold| fold.name() == name)
    }

    /// The row of the operation table that folds two elements.
    pub fn row(self) -> OpId {
        match self {
            Fold::Sum => id::ADD,
            Fold::Product => id::MUL,
            Fold::Min => id::PMIN,
            Fold::Max => id::PMAX,
        }
    }
}

/// A collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    AllReduce(Fold),
    ReduceScatter(Fold),
    AllGather,
    /// From the member of this rank.
    Broadcast(usize),
    Barrier,
}

impl Verb {
    fn code(self) -> [u8; 2] {
        let fold = |fold: Fold| fold as u8;
        match self {
            Verb::AllReduce(f) => [0, fold(f)],
            Verb::ReduceScatter(f) => [1, fold(f)],
            Verb::AllGather => [2, 0],
            Verb::Broadcast(_) => [3, 0],
            Verb::Barrier => [4, 0],
        }
    }

    fn of_code([verb, fold]: [u8; 2], root: usize) -> Option<Verb> {
        let fold = || Fold::ALL.get(fold as usize).copied();
        Some(match verb {
            0 => Verb::AllReduce(fold()?),
            1 => Verb::ReduceScatter(fold()?),
            2 => Verb::AllGather,
            3 => Verb::Broadcast(root),
            4 => Verb::Barrier,
            _ => return None,
        })
    }
}

/// A member's collective, as sent to the others to be compared.
#[derive(Clone, Debug)]
pub struct Call {
    pub verb: Verb,
    /// The number of the team's earlier collectives.
    pub number: u64,
    /// None if the member only receives.
    pub dtype: Option<DType>,
    /// The number of elements of the member's array.
    pub length: usize,
    /// Whether the elements are sent from GPU to GPU.
    pub on_gpus: bool,
    /// Whether the array has NA or NaN, which NCCL's own sum does not handle.
    pub missing: bool,
    /// The carrier's algorithm, which must be the same on all members.
    pub algorithm: u8,
    /// R's call; empty unless calls are compared (option `verdigris.debug`).
    pub text: String,
}

impl Call {
    /// Whether two members are in the same collective, with compatible arrays.
    pub fn goes_with(&self, other: &Call) -> bool {
        let same_length = self.length == other.length || matches!(self.verb, Verb::AllGather | Verb::Broadcast(_));
        let same_type = match (self.dtype, other.dtype) {
            (Some(own), Some(theirs)) => own == theirs,
            _ => matches!(self.verb, Verb::Broadcast(_) | Verb::Barrier),
        };
        // In other collectives, each message says for itself whether its elements are on a GPU.
        let same_way =
            self.on_gpus == other.on_gpus || !matches!(self.verb, Verb::AllReduce(_) | Verb::ReduceScatter(_));
        let same_call = self.verb == other.verb && self.number == other.number && self.algorithm == other.algorithm;
        same_call && same_length && same_type && same_way
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.verb {
            Verb::AllReduce(fold) => write!(f, "all-reduce ({})", fold.name())?,
            Verb::ReduceScatter(fold) => write!(f, "reduce-scatter ({})", fold.name())?,
            Verb::AllGather => f.write_str("all-gather")?,
            Verb::Broadcast(root) => write!(f, "broadcast of member {}", root + 1)?,
            Verb::Barrier => f.write_str("barrier")?,
        }
        if let Some(dtype) = self.dtype {
            write!(f, ", {} {dtype}{}", self.length, if self.on_gpus { " on GPUs" } else { "" })?;
        }
        write!(f, ", number {}", self.number + 1)?;
        if !self.text.is_empty() {
            write!(f, ", by `{}`", self.text)?;
        }
        Ok(())
    }
}

/// Bytes of the header that starts each message.
pub const HEADER: usize = 56;
const MAGIC: [u8; 4] = *b"vgt1";
const NONE: u8 = 255;
/// The most bytes of R's call, or of a reason to stop.
pub const MOST_TEXT: usize = 512;

/// A message: its header and text. `bytes` of data follow.
#[derive(Clone, Debug)]
pub struct Message {
    /// The step of a collective that has several exchanges.
    pub step: u32,
    pub call: Call,
    /// Whether the member stops instead; the call's text is then the reason.
    pub stops: bool,
    pub bytes: usize,
}

/// The start of a text, at most `most` bytes, cut between characters.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl Message {
    pub fn stop(number: u64, reason: &str) -> Message {
        let text = cut(reason, MOST_TEXT).to_string();
        let call = Call {
            verb: Verb::Barrier,
            number,
            dtype: None,
            length: 0,
            on_gpus: false,
            missing: false,
            algorithm: 0,
            text,
        };
        Message { step: 0, call, stops: true, bytes: 0 }
    }

    /// The header followed by the text, and their length in bytes.
    pub fn encode(&self) -> ([u8; HEADER + MOST_TEXT], usize) {
        let mut out = [0; HEADER + MOST_TEXT];
        let text = cut(&self.call.text, MOST_TEXT).as_bytes();
        let root = if let Verb::Broadcast(root) = self.call.verb { root } else { 0 };
        out[..4].copy_from_slice(&MAGIC);
        out[4] = self.stops.into();
        out[5..7].copy_from_slice(&self.call.verb.code());
        out[7] = self.call.dtype.map_or(NONE, |dtype| dtype as u8);
        let numbers = [self.call.number, self.call.length as u64, self.bytes as u64, root as u64];
        for (k, number) in numbers.into_iter().enumerate() {
            out[8 * (k + 1)..8 * (k + 2)].copy_from_slice(&number.to_le_bytes());
        }
        out[40..44].copy_from_slice(&(text.len() as u32).to_le_bytes());
        out[44..48].copy_from_slice(&self.step.to_le_bytes());
        out[48] = self.call.on_gpus.into();
        out[49] = self.call.missing.into();
        out[50] = self.call.algorithm;
        out[HEADER..HEADER + text.len()].copy_from_slice(text);
        (out, HEADER + text.len())
    }

    /// The length of the text that follows a header.
    ///
    /// # Errors
    /// `Member` if this is not a header.
    pub fn text_length(header: &[u8]) -> Result<usize> {
        let length = u32::from_le_bytes([header[40], header[41], header[42], header[43]]) as usize;
        if header[..4] != MAGIC || length > MOST_TEXT {
            return Err(Error::new(Kind::Member, "a member sent bytes that are no message of a team"));
        }
        Ok(length)
    }

    /// Decodes a header and its text.
    ///
    /// # Errors
    /// As `text_length`.
    pub fn decode(header: &[u8], text: &[u8]) -> Result<Message> {
        Message::text_length(header)?;
        let wrong = || Error::new(Kind::Member, "a member sent a message that this version does not know");
        let number = |k: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&header[8 * k..8 * (k + 1)]);
            u64::from_le_bytes(bytes)
        };
        let verb = Verb::of_code([header[5], header[6]], number(4) as usize).ok_or_else(wrong)?;
        let dtype = match header[7] {
            NONE => None,
            code => Some(DType::ALL.get(code as usize).copied().ok_or_else(wrong)?),
        };
        let text = String::from_utf8_lossy(text).into_owned();
        let step = u32::from_le_bytes([header[44], header[45], header[46], header[47]]);
        let [on_gpus, missing] = [header[48] != 0, header[49] != 0];
        let (length, algorithm) = (number(2) as usize, header[50]);
        let call = Call { verb, number: number(1), dtype, length, on_gpus, missing, algorithm, text };
        Ok(Message { step, call, stops: header[4] != 0, bytes: number(3) as usize })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        for (k, verb) in [Verb::AllReduce(Fold::Max), Verb::Broadcast(7), Verb::Barrier].into_iter().enumerate() {
            let text = ["", "gpu_all_reduce(x)", "é"][k].to_string();
            let dtype = [None, Some(DType::Complex128), None][k];
            let call =
                Call { verb, number: 1 << 40, dtype, length: k, on_gpus: k == 0, missing: k == 1, algorithm: 2, text };
            let sent = Message { step: k as u32, call, stops: k == 2, bytes: 99 };
            let (bytes, n) = sent.encode();
            assert_eq!(Message::text_length(&bytes[..HEADER]).unwrap(), n - HEADER);
            let got = Message::decode(&bytes[..HEADER], &bytes[HEADER..n]).unwrap();
            assert_eq!(format!("{got:?}"), format!("{sent:?}"));
            assert!(k == 0 || got.call.goes_with(&sent.call));
        }
        assert!(Message::text_length(&[0; HEADER]).is_err());
        let (_, n) = Message::stop(0, &"é".repeat(1000)).encode();
        assert_eq!(n, HEADER + MOST_TEXT);
    }

    #[test]
    fn collectives_differ_by_verb_number_type_and_length() {
        let call = |verb, number, dtype, length| Call {
            verb,
            number,
            dtype,
            length,
            on_gpus: false,
            missing: false,
            algorithm: 0,
            text: String::new(),
        };
        let sum = call(Verb::AllReduce(Fold::Sum), 3, Some(DType::Float64), 10);
        assert!(sum.goes_with(&sum.clone()));
        for other in [
            call(Verb::AllReduce(Fold::Max), 3, Some(DType::Float64), 10),
            call(Verb::AllReduce(Fold::Sum), 4, Some(DType::Float64), 10),
            call(Verb::AllReduce(Fold::Sum), 3, Some(DType::Float32), 10),
            call(Verb::AllReduce(Fold::Sum), 3, Some(DType::Float64), 11),
            call(Verb::Barrier, 3, None, 0),
        ] {
            assert!(!sum.goes_with(&other) && !other.goes_with(&sum), "{other}");
        }
        // members' parts may have different lengths, and receivers know none
        let parts = [3, 4].map(|n| call(Verb::AllGather, 0, Some(DType::Int32), n));
        assert!(parts[0].goes_with(&parts[1]));
        assert!(call(Verb::Broadcast(1), 0, None, 0).goes_with(&call(Verb::Broadcast(1), 0, Some(DType::Int8), 5)));
        assert!(!call(Verb::Broadcast(1), 0, None, 0).goes_with(&call(Verb::Broadcast(0), 0, None, 0)));
    }
}
