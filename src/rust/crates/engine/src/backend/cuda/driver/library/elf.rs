//! Checks whether a file can safely be given to the loader, and lists the libraries that the loader would open for it.
//!
//! glibc maps the segments in a library's headers, and a read past the end of a truncated file (an incomplete download)
//! is a SIGBUS that would end R. So the headers are first compared with the file's size.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use crate::disk::open_regular;

const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
/// Types of program headers.
pub(super) const LOAD: u32 = 1;
pub(super) const DYNAMIC: u32 = 2;
/// Tags of the dynamic section.
const NEEDED: u64 = 1;
pub(super) const STRTAB: u64 = 5;
const STRSZ: u64 = 10;
const RPATH: u64 = 15;
const RUNPATH: u64 = 29;
/// The most bytes of a dynamic section or of its strings: far more than any library has.
const MOST: u64 = 16 << 20;

/// The dependencies of a shared library.
#[derive(Default, Debug)]
pub struct Library {
    /// Names of the libraries that it is linked against.
    pub needed: Vec<String>,
    /// Folders that are searched first for these; `$ORIGIN` is the library's own folder.
    pub runpath: Vec<String>,
}

/// Why a file is not a shared library for this machine.
#[derive(Debug)]
pub struct Unfit {
    /// The reason in a few words, for messages.
    pub reason: String,
    /// Whether the loader would skip this file and try the next one with its name.
    pub skipped: bool,
}

fn unfit(reason: impl Into<String>) -> Unfit {
    Unfit { reason: reason.into(), skipped: false }
}

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    bytes: u64,
}

/// Reads the headers, and checks that the segments are within the file.
pub fn read(path: &Path) -> Result<Library, Unfit> {
    if !cfg!(all(target_os = "linux", target_pointer_width = "64")) {
        return Ok(Library::default());
    }
    let (mut file, size) = open_regular(path).map_err(|e| {
        let skipped = matches!(e.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied);
        Unfit { reason: e.to_string(), skipped }
    })?;
    let mut head = [0u8; 64];
    file.read_exact(&mut head).map_err(|_| unfit("not a shared library: too short"))?;
    if &head[..4] != b"\x7fELF" {
        return Err(unfit("not a shared library"));
    }
    // 64 bits, little-endian, a shared object (type 3), for this processor
    if head[4] != 2 || head[5] != 1 || u16_at(&head, 16) != 3 || u16_at(&head, 18) != MACHINE {
        return Err(Unfit { reason: "built for another kind of machine".into(), skipped: true });
    }
    let damaged = || unfit("truncated or damaged");
    let (table, entry, count) = (u64_at(&head, 32), u16_at(&head, 54), u16_at(&head, 56));
    let bytes = u64::from(entry) * u64::from(count);
    if entry < 56 {
        return Err(damaged());
    }
    let headers = part(&mut file, table, bytes, size).ok_or_else(damaged)?;
    let segments: Vec<Segment> = headers
        .chunks_exact(entry.into())
        .map(|h| Segment { kind: u32_at(h, 0), offset: u64_at(h, 8), address: u64_at(h, 16), bytes: u64_at(h, 32) })
        .collect();
    let loads = || segments.iter().filter(|s| s.kind == LOAD);
    if loads().any(|s| s.offset.checked_add(s.bytes).is_none_or(|end| end > size)) {
        return Err(damaged());
    }
    let Some(section) = segments.iter().find(|s| s.kind == DYNAMIC) else { return Ok(Library::default()) };
    let section = part(&mut file, section.offset, section.bytes, size).ok_or_else(damaged)?;
    let entries = || section.chunks_exact(16).map(|e| (u64_at(e, 0), u64_at(e, 8))).take_while(|e| e.0 != 0);
    let value = |tag| entries().find(|e| e.0 == tag).map(|e| e.1);
    let (Some(strings), Some(length)) = (value(STRTAB), value(STRSZ)) else { return Ok(Library::default()) };
    // the section has virtual addresses, which must be converted to file offsets
    let at = loads().find(|s| s.address <= strings && strings - s.address < s.bytes);
    let at = at.map(|s| s.offset + (strings - s.address)).ok_or_else(damaged)?;
    let strings = part(&mut file, at, length, size).ok_or_else(damaged)?;
    let string = |offset: u64| -> Option<String> {
        let text = strings.get(usize::try_from(offset).ok()?..)?;
        let text = std::ffi::CStr::from_bytes_until_nul(text).ok()?;
        Some(text.to_string_lossy().into_owned())
    };
    let strings_of = |tag| entries().filter(move |e| e.0 == tag).map(|e| string(e.1)).collect::<Option<Vec<_>>>();
    let needed = strings_of(NEEDED).ok_or_else(damaged)?;
    // DT_RPATH counts where there is no DT_RUNPATH
    let mut runpath = strings_of(RUNPATH).ok_or_else(damaged)?;
    if runpath.is_empty() {
        runpath = strings_of(RPATH).ok_or_else(damaged)?;
    }
    let runpath = runpath.iter().flat_map(|list| list.split(':')).map(str::to_string).collect();
    Ok(Library { needed, runpath })
}

/// A range of a file; None where the file is too short.
fn part(file: &mut File, offset: u64, bytes: u64, size: u64) -> Option<Vec<u8>> {
    if bytes > MOST || offset.checked_add(bytes).is_none_or(|end| end > size) {
        return None;
    }
    let mut out = crate::memory::fallible::filled(0, bytes as usize).ok()?;
    file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(&mut out)).ok()?;
    Some(out)
}

fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from(u32_at(b, at)) | u64::from(u32_at(b, at + 4)) << 32
}
