//! The header of a safetensors file: names, types, shapes and offsets of its tensors.
//!
//! A file consists of the header's length (8 bytes, little-endian), the header (JSON), and the tensors' bytes,
//! row-major, one after the other without gaps (<https://github.com/huggingface/safetensors>, whose README is the
//! specification). `files` reads the tensors.

use crate::interop::json::{Json, NO_MEMORY};
use verdigris_ops::dtype::DType;
use verdigris_ops::error::{Error, Kind, Result};

/// The specification's limit on the header's length.
pub const LONGEST: u64 = 100_000_000;
const METADATA: &str = "__metadata__";

/// A tensor in a file.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    pub name: String,
    /// The format's name of the dtype, which may be one that arrays do not have.
    pub dtype: String,
    pub shape: Vec<usize>,
    /// Relative to the end of the header.
    pub offset: u64,
    pub bytes: u64,
}

/// The contents of a header.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Header {
    pub entries: Vec<Entry>,
    pub metadata: Vec<(String, String)>,
}

pub fn dtype_of(name: &str) -> Option<DType> {
    DType::ALL.into_iter().find(|&d| d.safetensors() == Some(name))
}

/// Bits of an element; None for a dtype that is not in the specification.
fn bits_of(name: &str) -> Option<u64> {
    Some(match name {
        "F4" => 4,
        "F6_E2M3" | "F6_E3M2" => 6,
        "F8_E5M2" | "F8_E4M3" | "F8_E8M0" | "F8_E4M3FNUZ" | "F8_E5M2FNUZ" => 8,
        "U16" => 16,
        "U32" => 32,
        "U64" => 64,
        other => 8 * dtype_of(other)?.size() as u64,
    })
}

pub fn malformed(what: impl std::fmt::Display) -> Error {
    Error::new(Kind::File, format!("this is not a safetensors file: {what}"))
}

impl Entry {
    fn parse(name: &str, value: &Json) -> Result<Entry> {
        let wrong = |what: &str| malformed(format!("tensor \"{name}\" {what}"));
        let text = value.get("dtype").and_then(Json::text).ok_or_else(|| wrong("has no dtype"))?;
        let numbers = |key: &str| -> Option<Vec<u64>> { value.get(key)?.array()?.iter().map(Json::integer).collect() };
        let shape = numbers("shape").ok_or_else(|| wrong("has no shape of whole numbers"))?;
        let &[begin, end] = &numbers("data_offsets").ok_or_else(|| wrong("has no data_offsets"))?[..] else {
            return Err(wrong("has data_offsets that are not two numbers"));
        };
        let bytes = end.checked_sub(begin).ok_or_else(|| wrong("ends before it begins"))?;
        let bits = bits_of(text).ok_or_else(|| wrong(&format!("has the unknown dtype \"{text}\"")))?;
        let expected = shape.iter().try_fold(bits, |product, &extent| product.checked_mul(extent));
        let shape = shape.iter().map(|&extent| usize::try_from(extent).ok()).collect::<Option<Vec<usize>>>();
        let (Some(expected), Some(shape)) = (expected, shape) else {
            return Err(wrong("has a shape that is too large"));
        };
        if !expected.is_multiple_of(8) || bytes != expected / 8 {
            return Err(wrong(&format!("has {bytes} bytes, but its shape and dtype require {expected} bits")));
        }
        Ok(Entry { name: name.into(), dtype: text.into(), shape, offset: begin, bytes })
    }
}

impl Header {
    /// Parses a header; `data` is the number of bytes that follow it.
    ///
    /// # Errors
    /// `File` if it is not JSON, if a tensor's dtype, shape and offsets are inconsistent, or if the tensors overlap,
    /// leave gaps, or do not end at the end of the file.
    pub fn parse(text: &[u8], data: u64) -> Result<Header> {
        let text = std::str::from_utf8(text).map_err(|_| malformed("its header is not UTF-8"))?;
        if !text.starts_with('{') {
            return Err(malformed("its header does not begin with '{'"));
        }
        let json = Json::parse(text).map_err(|e| match e.as_str() {
            NO_MEMORY => Error::new(Kind::Memory, "the host has too little memory for the file's header"),
            e => malformed(format!("its header is not JSON: {e}")),
        })?;
        let mut header = Header::default();
        for (name, value) in json.object().unwrap_or_default() {
            if name != METADATA {
                header.entries.push(Entry::parse(name, value)?);
                continue;
            }
            let members = value.object().ok_or_else(|| malformed("its metadata is not an object"))?;
            for (key, value) in members {
                let text = value.text().ok_or_else(|| malformed(format!("metadata \"{key}\" is not a string")))?;
                header.metadata.push((key.clone(), text.into()));
            }
        }
        let mut in_order: Vec<&Entry> = header.entries.iter().collect();
        in_order.sort_by_key(|e| (e.offset, e.bytes));
        let mut end = 0;
        for entry in in_order {
            if entry.offset != end {
                let what = if entry.offset < end { "overlaps another" } else { "leaves a gap before it" };
                return Err(malformed(format!("tensor \"{}\" {what}", entry.name)));
            }
            // No overflow: the sum was read as an offset.
            end = entry.offset + entry.bytes;
        }
        match end {
            end if end > data => Err(Error::new(
                Kind::File,
                format!("the file is truncated: its tensors take {end} bytes, but it has {data}"),
            )),
            end if end < data => Err(malformed(format!("{} bytes at its end belong to no tensor", data - end))),
            _ => Ok(header),
        }
    }

    /// A header for tensors that follow each other in the order of `entries`. It is padded so that the data start at a
    /// multiple of 8.
    pub fn write(entries: &[Entry], metadata: &[(String, String)]) -> Vec<u8> {
        let integers = |numbers: &[u64]| Json::Array(numbers.iter().map(|&n| Json::Integer(n)).collect());
        let mut members = Vec::with_capacity(entries.len() + 1);
        if !metadata.is_empty() {
            let strings = metadata.iter().map(|(key, value)| (key.clone(), Json::String(value.clone()))).collect();
            members.push((METADATA.to_string(), Json::Object(strings)));
        }
        for entry in entries {
            let shape: Vec<u64> = entry.shape.iter().map(|&extent| extent as u64).collect();
            members.push((
                entry.name.clone(),
                Json::Object(vec![
                    ("dtype".into(), Json::String(entry.dtype.clone())),
                    ("shape".into(), integers(&shape)),
                    ("data_offsets".into(), integers(&[entry.offset, entry.offset + entry.bytes])),
                ]),
            ));
        }
        let mut text = String::new();
        Json::Object(members).write(&mut text);
        while !text.len().is_multiple_of(8) {
            text.push(' ');
        }
        let mut out = (text.len() as u64).to_le_bytes().to_vec();
        out.extend(text.into_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, dtype: &str, shape: &[usize], offset: u64, bytes: u64) -> Entry {
        Entry { name: name.into(), dtype: dtype.into(), shape: shape.into(), offset, bytes }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = Header {
            entries: vec![
                entry("b \"é\"", "F64", &[2, 3], 0, 48),
                entry("a", "BOOL", &[], 48, 1),
                entry("none", "I32", &[0, 7], 49, 0),
            ],
            metadata: vec![("format".into(), "pt".into())],
        };
        let written = Header::write(&header.entries, &header.metadata);
        assert_eq!(written.len() % 8, 0);
        assert_eq!(u64::from_le_bytes(written[..8].try_into().unwrap()), written.len() as u64 - 8);
        assert_eq!(Header::parse(&written[8..], 49).unwrap(), header);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let tensor = |dtype: &str, shape: &str, begin: u64, end: u64| {
            format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
        };
        let file = |tensors: &[String]| {
            let members: Vec<String> = tensors.iter().enumerate().map(|(k, t)| format!(r#""t{k}":{t}"#)).collect();
            format!("{{{}}}", members.join(","))
        };
        let good = [tensor("F32", "[2]", 0, 8), tensor("U8", "[3]", 8, 11)];
        assert!(Header::parse(file(&good).as_bytes(), 11).is_ok());
        assert!(Header::parse(b"{}", 0).is_ok());
        let bad = [
            file(&[tensor("F32", "[2]", 0, 8), tensor("U8", "[3]", 7, 10)]), // overlap
            file(&[tensor("F32", "[2]", 0, 8), tensor("U8", "[3]", 9, 12)]), // gap
            file(&[tensor("F32", "[2]", 0, 8)]),                             // bytes that belong to no tensor
            file(&[tensor("F32", "[3]", 0, 11)]),
            file(&[tensor("F32", "[2]", 8, 0)]),
            file(&[tensor("Q32", "[2]", 0, 11)]),
            file(&[tensor("U8", "[18446744073709551615,2]", 0, 11)]),
            file(&[tensor("U8", "[18446744073709551615,0]", 0, 0), tensor("U8", "[12]", 0, 12)]), // past the end
            file(&[tensor("U8", "[-1]", 0, 11)]),
            file(&[tensor("U8", "[1.5]", 0, 11)]),
            file(&[tensor("U8", "11", 0, 11)]),
            file(&["{}".into()]),
            file(&["1".into()]),
            r#"{"a":{"dtype":"U8","shape":[11],"data_offsets":[0]}}"#.into(),
            r#"{"__metadata__":{"a":1}}"#.into(),
            r#"{"__metadata__":[]}"#.into(),
            r#"[]"#.into(),
            r#" {}"#.into(),
            "".into(),
        ];
        for text in bad {
            assert_eq!(Header::parse(text.as_bytes(), 11).unwrap_err().kind, Kind::File, "{text}");
        }
        assert!(Header::parse(b"{\xff}", 0).is_err());
    }
}
