//! Prebuilt kernels: PTX in the package, for machines without NVRTC and for results that must not wait for it. They are
//! the interpreters, and every kernel whose source depends on types alone. Some also come as machine code, since the
//! driver takes seconds to compile them.
//!
//! The folder `ptx/` holds `index.txt`, one line per kernel (fingerprint of its source, pack, start and end in the
//! pack, name), and the compressed packs. `tools/gpu/ptx.sh` writes both (`make ptx`). A kernel is found by the
//! fingerprint of its source, so a stale one is not found; a test reports it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::sync::OnceLock;

use verdigris_ops::headers::HEADERS;

/// The target of the PTX: the oldest supported architecture.
pub const ARCH: u32 = 75;

/// Architectures with prebuilt machine code, which also runs on later devices of the same major version. Other devices
/// (10.0, which only data centres have) use the PTX, which the driver compiles once per machine.
pub const ARCHS: [u32; 4] = [75, 80, 90, 120];

/// Versions of the NVRTCs that compiled the PTX and the machine code, as in `tools/gpu/ptx.sh`.
pub const PTX_IS_OF: (u32, u32) = (12, 0);
pub const CODE_IS_OF: (u32, u32) = (12, 9);

macro_rules! packs {
    ($($name:literal)*) => { [$(($name, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/ptx/", $name, ".zst")))),*] };
}

/// Groups of kernels that are compressed together: PTX by topic, machine code by architecture.
#[rustfmt::skip]
const PACKS: [(&str, &[u8]); 13] = packs![
    "narrow" "wide" "complex" "special" "reduce" "scan" "select" "sort" "dense" "sm_75" "sm_80" "sm_90" "sm_120"
];

/// A pack's contents; decompressed at first use.
fn contents(pack: usize) -> &'static [u8] {
    static CONTENTS: [OnceLock<Vec<u8>>; PACKS.len()] = [const { OnceLock::new() }; PACKS.len()];
    CONTENTS[pack].get_or_init(|| {
        let mut bytes = Vec::new();
        let decoder = ruzstd::decoding::StreamingDecoder::new(PACKS[pack].1);
        let mut decoder = decoder.expect("the pack is as tools/gpu/ptx.sh made it");
        decoder.read_to_end(&mut bytes).expect("the pack is as tools/gpu/ptx.sh made it");
        bytes
    })
}

const INDEX: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/ptx/index.txt"));

pub(crate) struct Entry {
    pub(crate) fingerprint: u128,
    pack: usize,
    from: usize,
    to: usize,
    pub(crate) name: &'static str,
}

impl Entry {
    fn read(line: &'static str) -> Option<Entry> {
        let mut fields = line.splitn(5, ' ');
        let fingerprint = u128::from_str_radix(fields.next()?, 16).ok()?;
        let pack = fields.next()?;
        let pack = PACKS.iter().position(|(name, _)| *name == pack)?;
        let (from, to) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Entry { fingerprint, pack, from, to, name: fields.next()? })
    }

    pub(crate) fn bytes(&self) -> &'static [u8] {
        &contents(self.pack)[self.from..self.to]
    }

    /// The architecture of machine code; `None` for PTX.
    fn arch(&self) -> Option<u32> {
        PACKS[self.pack].0.strip_prefix("sm_").and_then(|arch| arch.parse().ok())
    }
}

pub(crate) struct Index {
    pub(crate) ptx: HashMap<u128, Entry>,
    pub(crate) code: Vec<Entry>,
}

pub(crate) fn index() -> &'static Index {
    static KNOWN: OnceLock<Index> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let lines = INDEX.lines().filter(|line| !line.starts_with('#')).filter_map(Entry::read);
        let (code, ptx): (Vec<Entry>, Vec<Entry>) = lines.partition(|entry| entry.arch().is_some());
        Index { ptx: ptx.into_iter().map(|entry| (entry.fingerprint, entry)).collect(), code }
    })
}

/// A prebuilt kernel's PTX.
pub struct Ptx(&'static Entry);

impl Ptx {
    pub fn fingerprint(&self) -> u128 {
        self.0.fingerprint
    }

    /// The text, with its terminating zero.
    pub fn text(&self) -> &'static [u8] {
        self.0.bytes()
    }
}

/// The PTX prebuilt from a source.
pub fn find(source: &str) -> Option<Ptx> {
    index().ptx.get(&fingerprint(source)).map(Ptx)
}

/// The prebuilt PTX with a name.
pub fn named(name: &str) -> Option<Ptx> {
    index().ptx.values().find(|entry| entry.name == name).map(Ptx)
}

/// The package's machine code with a name, for a device of this compute capability.
pub fn machine_code(name: &str, capability: (u32, u32)) -> Option<&'static [u8]> {
    newest(capability, |entry| entry.name == name)
}

/// The package's machine code compiled from a source, for a device of this compute capability.
pub fn machine_code_of(source: &str, capability: (u32, u32)) -> Option<&'static [u8]> {
    let fingerprint = fingerprint(source);
    newest(capability, |entry| entry.fingerprint == fingerprint)
}

/// The matching machine code for the newest architecture that runs on a device.
fn newest((major, minor): (u32, u32), is_it: impl Fn(&Entry) -> bool) -> Option<&'static [u8]> {
    let serves = |arch: u32| arch / 10 == major && arch % 10 <= minor;
    let all = index().code.iter().filter(|entry| is_it(entry));
    let best = all.filter(|entry| entry.arch().is_some_and(serves)).max_by_key(|entry| entry.arch());
    best.map(Entry::bytes)
}

/// Appends a source to `out` with its headers in place of their includes (each once), without comments and blank lines.
fn expanded(source: &str, seen: &mut Vec<String>, out: &mut String) {
    for line in source.lines() {
        let line = line.split("//").next().unwrap_or("").trim();
        if let Some(name) = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
            if seen.iter().any(|s| s == name) {
                continue;
            }
            seen.push(name.into());
            if let Some((_, text)) = HEADERS.iter().find(|(known, _)| *known == name) {
                expanded(text, seen, out);
            }
        } else if !line.is_empty() && line != "#pragma once" {
            let _ = writeln!(out, "{line}");
        }
    }
}

/// Identifies a source: a hash (FNV-1a of 128 bits) of everything that the compiler sees.
pub fn fingerprint(source: &str) -> u128 {
    let mut text = String::with_capacity(1 << 16);
    expanded(source, &mut Vec::new(), &mut text);
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for &byte in text.as_bytes() {
        hash ^= u128::from(byte);
        hash = hash.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_in_its_pack() {
        for entry in index().ptx.values() {
            let text = entry.bytes();
            assert_eq!(text.last(), Some(&0), "{}", entry.name);
            let text = std::str::from_utf8(&text[..text.len() - 1]).unwrap();
            assert!(text.starts_with(".version 8.0\n.target sm_75\n"), "{}: {:?}", entry.name, &text[..40]);
            assert!(text.contains(".visible .entry "), "{}", entry.name);
        }
    }

    #[test]
    fn comments_do_not_change_a_fingerprint() {
        let of = fingerprint;
        assert_eq!(of("#include \"reduce.h\"\nint a;\n"), of("#include \"reduce.h\" // sums\n\n  int a; // one\n"));
        assert_ne!(of("int a;\n"), of("int b;\n"));
        assert_ne!(of("#include \"reduce.h\"\n"), of("#include \"prelude.h\"\n"));
    }
}
