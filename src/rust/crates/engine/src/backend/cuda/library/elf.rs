//! Whether a file can be given to the loader at all.
//!
//! glibc maps what a library's headers say, and a read past the end of a truncated file (a download
//! that broke off) is a SIGBUS that would end R. So the headers are held against the file first.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
const LOAD: u32 = 1;

/// `Err` says in a few words why the file is not a shared library for this machine.
pub fn check(path: &Path) -> Result<(), String> {
    if !cfg!(all(target_os = "linux", target_pointer_width = "64")) {
        return Ok(());
    }
    let mut file = File::open(path).map_err(|e| e.to_string())?;
    let size = file.metadata().map_err(|e| e.to_string())?.len();
    let mut head = [0u8; 64];
    file.read_exact(&mut head).map_err(|_| "not a shared library: too short".to_string())?;
    if &head[..4] != b"\x7fELF" {
        return Err("not a shared library".into());
    }
    // 64 bits, little-endian, a shared object (type 3), for this processor
    if head[4] != 2 || head[5] != 1 || u16_at(&head, 16) != 3 || u16_at(&head, 18) != MACHINE {
        return Err("built for another kind of machine".into());
    }
    let (table, entry, count) = (u64_at(&head, 32), u16_at(&head, 54), u16_at(&head, 56));
    let bytes = u64::from(entry) * u64::from(count);
    if entry < 56 || table.checked_add(bytes).is_none_or(|end| end > size) {
        return Err("truncated or damaged".into());
    }
    let mut headers = vec![0u8; bytes as usize];
    file.seek(SeekFrom::Start(table)).and_then(|_| file.read_exact(&mut headers)).map_err(|e| e.to_string())?;
    for header in headers.chunks_exact(entry as usize) {
        let end = u64_at(header, 8).checked_add(u64_at(header, 32));
        if u32_at(header, 0) == LOAD && end.is_none_or(|end| end > size) {
            return Err("truncated or damaged".into());
        }
    }
    Ok(())
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
