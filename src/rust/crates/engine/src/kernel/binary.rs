//! Compiled device code: the format of a file, whether it is complete, and the kernels that it declares.
//!
//! The driver gets an address without a length, and reads as far as the headers say. So the headers are checked against
//! the file's length first. Formats: PTX (text), cubin (ELF for machine 190), fatbin (a container of both), and host
//! ELF files made by nvcc, whose section `.nv_fatbin` is a sequence of fatbins.

use verdigris_ops::error::{Error, Kind, Result};

use super::ptx;
use super::signature::Signature;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Ptx,
    Cubin,
    Fatbin,
    /// A shared object or an object file for the host.
    Host,
}

/// A file of device code.
#[derive(Clone, Debug)]
pub struct Binary {
    pub format: Format,
    /// The images that the driver loads; PTX ends in a zero byte.
    pub images: Vec<Vec<u8>>,
    /// The mangled names of the kernels, if the format lists them.
    pub kernels: Vec<String>,
    /// Signatures, if it is PTX.
    pub signatures: Vec<Signature>,
}

const FATBIN: u32 = 0xBA55_ED50;
const CUDA: u16 = 190;

/// Reads a file of device code. `label` is its name in messages.
///
/// # Errors
/// `Compile`, if it has none of the formats, or is truncated.
pub fn read(bytes: &[u8], label: &str) -> Result<Binary> {
    let refuse = |what: String| Error::new(Kind::Compile, format!("{label} {what}"));
    if bytes.is_empty() {
        return Err(refuse("is empty".into()));
    }
    if bytes.starts_with(b"\x7fELF") {
        let elf = Elf::read(bytes).map_err(|why| refuse(why.into()))?;
        if elf.machine == CUDA {
            let kernels = elf.kernels();
            return Ok(Binary { format: Format::Cubin, images: vec![bytes.to_vec()], kernels, signatures: Vec::new() });
        }
        let mut images = Vec::new();
        for section in elf.sections.iter().filter(|s| s.name == ".nv_fatbin") {
            let data = bytes.get(section.from..section.from + section.bytes).unwrap_or_default();
            images.extend(fatbins(data).map_err(|why| refuse(why.into()))?);
        }
        if images.is_empty() {
            return Err(refuse("has no device code: it is a library, but without a section `.nv_fatbin`".into()).advise(
                "Link it by nvcc, with `-gencode` for your device; code made with `-rdc=true` must also be linked by nvcc.",
            ));
        }
        return Ok(Binary { format: Format::Host, images, kernels: Vec::new(), signatures: Vec::new() });
    }
    if u32_at(bytes, 0) == Some(FATBIN) {
        let images = fatbins(bytes).map_err(|why| refuse(why.into()))?;
        return Ok(Binary { format: Format::Fatbin, images, kernels: Vec::new(), signatures: Vec::new() });
    }
    if bytes.starts_with(b"!<arch>") {
        return Err(refuse("is a static library".into()).advise("Pass it as `link`, with a source that uses it."));
    }
    let text = std::str::from_utf8(bytes).ok().map(|t| t.trim_end_matches('\0')).filter(|t| !t.contains('\0'));
    let Some(text) = text.filter(|t| ptx::is_ptx(t)) else {
        return Err(refuse("is neither PTX, nor a cubin, a fatbin, or a shared object made by nvcc".into()));
    };
    let entries = ptx::entries(text);
    let mut image = text.as_bytes().to_vec();
    image.push(0);
    let kernels = entries.iter().map(|(name, _)| name.clone()).collect();
    let signatures = entries
        .into_iter()
        .filter_map(|(name, parameters)| Some(Signature { name, parameters: parameters?, status: false }))
        .collect();
    Ok(Binary { format: Format::Ptx, images: vec![image], kernels, signatures })
}

/// Splits a sequence of fatbins, with zeros between them.
fn fatbins(bytes: &[u8]) -> std::result::Result<Vec<Vec<u8>>, &'static str> {
    const BROKEN: &str = "is truncated or damaged: its fatbin headers describe more than the file has";
    let mut found = Vec::new();
    let mut at = 0;
    while at + 16 <= bytes.len() {
        if u32_at(bytes, at) != Some(FATBIN) {
            // padding
            if bytes[at..at + 8] != [0; 8] {
                return Err(BROKEN);
            }
            at += 8;
            continue;
        }
        // magic, version, bytes of this header, bytes after it
        let header = usize::from(u16_at(bytes, at + 6).ok_or(BROKEN)?);
        let size = u64_at(bytes, at + 8).and_then(|n| usize::try_from(n).ok()).ok_or(BROKEN)?;
        let end =
            at.checked_add(header).and_then(|n| n.checked_add(size)).filter(|&n| n <= bytes.len()).ok_or(BROKEN)?;
        // for each part: kind, version, bytes of its header, bytes after that
        let mut part = at + header;
        while part < end {
            let header = u32_at(bytes, part + 4).ok_or(BROKEN)? as usize;
            let size = u64_at(bytes, part + 8).and_then(|n| usize::try_from(n).ok()).ok_or(BROKEN)?;
            let next = part.checked_add(header).and_then(|n| n.checked_add(size)).filter(|&n| n <= end);
            part = next.filter(|_| header >= 16).ok_or(BROKEN)?;
        }
        found.push(bytes[at..end].to_vec());
        at = end.next_multiple_of(8);
    }
    if found.is_empty() {
        return Err(BROKEN);
    }
    Ok(found)
}

struct Section {
    name: String,
    from: usize,
    bytes: usize,
}

/// The headers of a 64-bit little-endian ELF file.
struct Elf {
    machine: u16,
    sections: Vec<Section>,
}

impl Elf {
    fn read(bytes: &[u8]) -> std::result::Result<Elf, &'static str> {
        const BROKEN: &str = "is truncated or damaged: its ELF headers describe more than the file has";
        if bytes.get(4..6) != Some(&[2, 1]) {
            return Err("is not a 64-bit little-endian ELF file");
        }
        let machine = u16_at(bytes, 18).ok_or(BROKEN)?;
        let table = |at: usize, size: usize, count: usize| -> std::result::Result<Vec<&[u8]>, &'static str> {
            let from = u64_at(bytes, at).and_then(|n| usize::try_from(n).ok()).ok_or(BROKEN)?;
            let (size, count) = (u16_at(bytes, size).ok_or(BROKEN)?, u16_at(bytes, count).ok_or(BROKEN)?);
            let all = usize::from(size) * usize::from(count);
            let end = from.checked_add(all).ok_or(BROKEN)?;
            let part = bytes.get(from..end).ok_or(BROKEN)?;
            if count > 0 && size < 56 {
                return Err(BROKEN);
            }
            Ok(part.chunks_exact(usize::from(size).max(1)).collect())
        };
        for segment in table(32, 54, 56)? {
            let (from, size) = (u64_at(segment, 8).ok_or(BROKEN)?, u64_at(segment, 32).ok_or(BROKEN)?);
            if from.checked_add(size).is_none_or(|end| end > bytes.len() as u64) {
                return Err(BROKEN);
            }
        }
        let headers = table(40, 58, 60)?;
        if headers.is_empty() {
            return Err("has no sections");
        }
        let mut ranges = Vec::new();
        for header in &headers {
            let (kind, from) = (u32_at(header, 4).ok_or(BROKEN)?, u64_at(header, 24).ok_or(BROKEN)?);
            let size = u64_at(header, 32).ok_or(BROKEN)?;
            // 8 (SHT_NOBITS): occupies no space in the file
            let inside = kind == 8 || from.checked_add(size).is_some_and(|end| end <= bytes.len() as u64);
            if !inside {
                return Err(BROKEN);
            }
            ranges.push((
                u32_at(header, 0).ok_or(BROKEN)? as usize,
                from as usize,
                if kind == 8 { 0 } else { size as usize },
            ));
        }
        let index = usize::from(u16_at(bytes, 62).ok_or(BROKEN)?);
        let &(_, from, size) = ranges.get(index).ok_or(BROKEN)?;
        let names = bytes.get(from..from + size).ok_or(BROKEN)?;
        let name = |at: usize| {
            let rest = names.get(at..).unwrap_or_default();
            let end = rest.iter().position(|&c| c == 0).unwrap_or(rest.len());
            String::from_utf8_lossy(&rest[..end]).into_owned()
        };
        let sections = ranges.into_iter().map(|(at, from, bytes)| Section { name: name(at), from, bytes }).collect();
        Ok(Elf { machine, sections })
    }

    /// Names of the kernels: each has a section of its own.
    fn kernels(&self) -> Vec<String> {
        self.sections.iter().filter_map(|s| s.name.strip_prefix(".text.")).map(String::from).collect()
    }
}

fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    b.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]))
}

fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    b.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

fn u64_at(b: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(u32_at(b, at)?) | u64::from(u32_at(b, at.checked_add(4)?)?) << 32)
}

/// Whether a symbol is the Itanium ABI's mangling of a C++ function or variable of this name: `_Z5twicePdi` is `twice`,
/// `_ZN1a5twiceEPd` is `a::twice`. Parameter types are ignored.
pub fn is_mangled(symbol: &str, name: &str) -> bool {
    let parts: Vec<String> = name.split("::").map(|part| format!("{}{part}", part.len())).collect();
    match parts.as_slice() {
        [one] => symbol.strip_prefix("_Z").and_then(|s| s.strip_prefix(one.as_str())).is_some(),
        many => symbol
            .strip_prefix("_ZN")
            .and_then(|s| s.strip_prefix(many.concat().as_str()))
            .is_some_and(|rest| rest.starts_with('E')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The headers of a cubin: a string table, a kernel's section, and a section without space in the file.
    fn cubin() -> Vec<u8> {
        let names = b"\0.shstrtab\0.text._Z5twicePdi\0.nv.global\0";
        let mut bytes = vec![0u8; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18..20].copy_from_slice(&CUDA.to_le_bytes());
        bytes.extend_from_slice(names);
        let code = bytes.len();
        bytes.extend_from_slice(&[1; 24]);
        let table = bytes.len() as u64;
        for (name, kind, from, size) in [
            (0u32, 0u32, 0u64, 0u64),
            (1, 3, 64, names.len() as u64),
            (11, 1, code as u64, 24),
            (29, 8, 1 << 40, 1 << 20),
        ] {
            let mut header = vec![0u8; 64];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[4..8].copy_from_slice(&kind.to_le_bytes());
            header[24..32].copy_from_slice(&from.to_le_bytes());
            header[32..40].copy_from_slice(&size.to_le_bytes());
            bytes.extend_from_slice(&header);
        }
        bytes[40..48].copy_from_slice(&table.to_le_bytes());
        bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
        bytes[58..60].copy_from_slice(&64u16.to_le_bytes());
        bytes[60..62].copy_from_slice(&4u16.to_le_bytes());
        bytes[62..64].copy_from_slice(&1u16.to_le_bytes());
        bytes
    }

    fn fatbin(content: &[u8]) -> Vec<u8> {
        let mut bytes = FATBIN.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[1, 0, 16, 0]);
        bytes.extend_from_slice(&(content.len() as u64 + 24).to_le_bytes());
        bytes.extend_from_slice(&[2, 0, 1, 1, 24, 0, 0, 0]);
        bytes.extend_from_slice(&(content.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(content);
        bytes
    }

    #[test]
    fn formats_are_told_apart_and_must_be_whole() {
        let whole = cubin();
        let read_one = read(&whole, "x").unwrap();
        assert_eq!((read_one.format, read_one.kernels), (Format::Cubin, vec!["_Z5twicePdi".to_string()]));
        let fat = fatbin(&whole);
        assert_eq!(read(&fat, "x").unwrap().format, Format::Fatbin);
        let two = [fat.clone(), vec![0; 8], fat.clone()].concat();
        assert_eq!(read(&two, "x").unwrap().images.len(), 2);
        for n in 0..whole.len() {
            assert_eq!(read(&whole[..n], "x").unwrap_err().kind, Kind::Compile, "cubin of {n} bytes");
        }
        for n in 0..fat.len() {
            assert_eq!(read(&fat[..n], "x").unwrap_err().kind, Kind::Compile, "fatbin of {n} bytes");
        }
        // Each header byte is corrupted in turn: the file is refused or not, but nothing is read past its end.
        for n in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut broken = whole.clone();
                broken[n] = value;
                let _ = read(&broken, "x");
                let _ = read(&fatbin(&broken), "x");
            }
        }
        for other in [&b"!<arch>\n"[..], b"extern \"C\" __global__", b"\0\0\0\0", b".version 8.0\n\0.target"] {
            assert_eq!(read(other, "x").unwrap_err().kind, Kind::Compile);
        }
    }

    #[test]
    fn names_are_found_in_symbols() {
        assert!(is_mangled("_Z5twicePdi", "twice"));
        assert!(is_mangled("_ZN1a1b5twiceEPd", "a::b::twice"));
        assert!(!is_mangled("_Z6twicerPdi", "twice") && !is_mangled("twice", "twice"));
        assert!(!is_mangled("_ZN1a5twice1bEPd", "a::twice"));
    }
}
