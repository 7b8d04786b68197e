//! Kernels that come with the package as PTX, for machines without NVRTC and for results that wait for none: the
//! interpreters, and every kernel whose source depends on types alone.
//!
//! `ptx/` holds them: `index.txt`, a line a kernel (fingerprint of its source, pack, place in the pack, name), and the
//! packs, compressed. `tools/ptx.sh` writes both (`make ptx`). A kernel is found by the fingerprint of its
//! source, so what has changed since is simply not found; a test says so.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::sync::OnceLock;

use super::codegen::reduce::Form;
use super::codegen::{self, Tiled, Variant};
use super::compile::HEADERS;
use super::interpret::source as interpret;
use super::interpret::Family;
use super::{select, sort};
use crate::array::natural_dtype;
use crate::dtype::{Class, DType};
use crate::plan::{Access, Input, Instruction, Plan};
use crate::reduction::Reduction;
use crate::scan::Scan;

/// What PTX is written for: the oldest architecture that is served.
pub const ARCH: u32 = 75;

/// A kernel to ship.
pub struct Shipped {
    pub pack: Pack,
    pub name: String,
    pub source: String,
}

/// Kernels that are compressed together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pack {
    Narrow,
    Wide,
    Complex,
    Special,
    Reduce,
    Scan,
    Select,
    Sort,
}

impl Pack {
    pub const ALL: [Pack; 8] =
        [Pack::Narrow, Pack::Wide, Pack::Complex, Pack::Special, Pack::Reduce, Pack::Scan, Pack::Select, Pack::Sort];

    pub const fn name(self) -> &'static str {
        match self {
            Pack::Narrow => "narrow",
            Pack::Wide => "wide",
            Pack::Complex => "complex",
            Pack::Special => "special",
            Pack::Reduce => "reduce",
            Pack::Scan => "scan",
            Pack::Select => "select",
            Pack::Sort => "sort",
        }
    }

    const fn bytes(self) -> &'static [u8] {
        match self {
            Pack::Narrow => include_bytes!("../../../ptx/narrow.zst"),
            Pack::Wide => include_bytes!("../../../ptx/wide.zst"),
            Pack::Complex => include_bytes!("../../../ptx/complex.zst"),
            Pack::Special => include_bytes!("../../../ptx/special.zst"),
            Pack::Reduce => include_bytes!("../../../ptx/reduce.zst"),
            Pack::Scan => include_bytes!("../../../ptx/scan.zst"),
            Pack::Select => include_bytes!("../../../ptx/select.zst"),
            Pack::Sort => include_bytes!("../../../ptx/sort.zst"),
        }
    }

    /// The pack's text; decompressed at first use.
    fn text(self) -> &'static [u8] {
        static TEXTS: [OnceLock<Vec<u8>>; Pack::ALL.len()] = [const { OnceLock::new() }; Pack::ALL.len()];
        TEXTS[self as usize].get_or_init(|| {
            let mut text = Vec::new();
            let decoder = ruzstd::decoding::StreamingDecoder::new(self.bytes());
            let mut decoder = decoder.expect("the pack is as tools/ptx.sh made it");
            decoder.read_to_end(&mut text).expect("the pack is as tools/ptx.sh made it");
            text
        })
    }
}

const INDEX: &str = include_str!("../../../ptx/index.txt");

struct Entry {
    pack: Pack,
    from: usize,
    to: usize,
    name: &'static str,
}

fn index() -> &'static HashMap<u128, Entry> {
    static KNOWN: OnceLock<HashMap<u128, Entry>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let entry = |line: &'static str| {
            let mut fields = line.splitn(5, ' ');
            let fingerprint = u128::from_str_radix(fields.next()?, 16).ok()?;
            let pack = fields.next()?;
            let pack = Pack::ALL.into_iter().find(|p| p.name() == pack)?;
            let from = fields.next()?.parse().ok()?;
            let to = fields.next()?.parse().ok()?;
            Some((fingerprint, Entry { pack, from, to, name: fields.next()? }))
        };
        INDEX.lines().filter(|line| !line.starts_with('#')).filter_map(entry).collect()
    })
}

/// A shipped kernel's PTX.
pub struct Ptx {
    pub fingerprint: u128,
    entry: &'static Entry,
}

impl Ptx {
    /// The text, which ends in zero.
    pub fn text(&self) -> &'static [u8] {
        &self.entry.pack.text()[self.entry.from..self.entry.to]
    }
}

/// The PTX of a source.
pub fn find(source: &str) -> Option<Ptx> {
    let fingerprint = fingerprint(source);
    index().get(&fingerprint).map(|entry| Ptx { fingerprint, entry })
}

/// The PTX that is shipped under a name.
pub fn named(name: &str) -> Option<Ptx> {
    let (&fingerprint, entry) = index().iter().find(|(_, entry)| entry.name == name)?;
    Some(Ptx { fingerprint, entry })
}

/// The plan of a reduction whose values are stored as they are computed.
pub fn plain(dtype: DType) -> Plan {
    Plan {
        inputs: vec![Input { dtype, access: Access::Linear }],
        code: vec![Instruction::Load(0)],
        outputs: vec![(0, dtype)],
        ..Plan::default()
    }
}

/// The forms in which reductions are shipped.
pub const FORMS: [Form; 3] = [Form::Block, Form::Team(8), Form::SingleLanes];

/// The shipped form that does the work of any.
pub fn form_for(form: Form) -> Form {
    match form {
        Form::Block => Form::Block,
        Form::Team(_) => Form::Team(8),
        Form::Lanes | Form::SingleLanes => Form::SingleLanes,
    }
}

/// The variant of the reductions that are shipped: any length, and memory of our own, which is aligned.
pub const PLAIN: Variant = Variant { wide: true, unaligned: false, tiled: Tiled { inputs: 0, axis: 0 } };

/// Everything to ship.
pub fn sources() -> Vec<Shipped> {
    let mut out = Vec::new();
    let mut add = |pack: Pack, name: String, source: String| out.push(Shipped { pack, name, source });
    for family in Family::ALL {
        let pack = [Pack::Narrow, Pack::Wide, Pack::Complex, Pack::Special][family as usize];
        add(pack, family.name().into(), interpret::source(family));
    }
    for reduction in Reduction::ALL {
        for class in Class::ALL.into_iter().filter(|&c| reduction.serves(c)) {
            for form in FORMS {
                for na_rm in [false, true] {
                    let source = codegen::source_reduce(&plain(natural_dtype(class)), PLAIN, reduction, na_rm, form);
                    add(Pack::Reduce, format!("{} {class:?} {form:?} {na_rm}", reduction.name()), source);
                }
            }
        }
    }
    for scan in Scan::ALL {
        for class in Class::ALL.into_iter().filter(|&c| scan.serves(c)) {
            let source = codegen::scan::source(&plain(natural_dtype(class)), PLAIN, scan);
            add(Pack::Scan, format!("{} {class:?}", scan.name()), source);
        }
    }
    for keep_na in [false, true] {
        // what a mask chooses is gathered by its positions
        let source = codegen::compress::source(&plain(DType::Bool8), PLAIN, keep_na);
        add(Pack::Select, format!("positions {keep_na}"), source);
    }
    for size in [1, 2, 4, 8, 16] {
        add(Pack::Select, format!("gather {size}"), select::gather_source(size));
        for wide in [false, true] {
            add(Pack::Select, format!("scatter {size} {wide}"), select::scatter_source(size, wide));
        }
    }
    for dtype in DType::ALL.into_iter().filter(|d| !matches!(d, DType::Complex64 | DType::Complex128)) {
        // from 2^30 elements on other kernels serve, which need NVRTC
        for positions in [false, true] {
            let form = sort::Form { dtype, positions, wide_positions: false, wide_counts: false };
            add(Pack::Sort, format!("sort {dtype} {positions}"), form.source());
        }
    }
    out
}

/// A source with its headers in the places where they are included, without comments and blank lines.
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

/// What a source is known by: a hash (FNV-1a of 128 bits) of all that the compiler sees of it.
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
    fn what_is_shipped_is_what_would_be_compiled() {
        let sources = sources();
        let stale: Vec<&str> =
            sources.iter().filter(|s| !index().contains_key(&fingerprint(&s.source))).map(|s| &*s.name).collect();
        assert!(stale.is_empty(), "run `make ptx`: {} of {} kernels changed: {stale:?}", stale.len(), sources.len());
        assert_eq!(index().len(), sources.len(), "run `make ptx`: some kernels are not needed any more");
    }

    #[test]
    fn every_form_of_a_reduction_has_a_shipped_one() {
        for form in [1, 2, 8, 32].map(Form::Team).into_iter().chain([Form::Block, Form::Lanes, Form::SingleLanes]) {
            assert!(FORMS.contains(&form_for(form)), "{form:?}");
        }
    }

    #[test]
    fn every_kernel_is_in_its_pack() {
        for (&fingerprint, entry) in index() {
            let text = Ptx { fingerprint, entry }.text();
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
