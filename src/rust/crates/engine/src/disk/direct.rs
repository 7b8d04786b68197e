//! Direct I/O (Linux's `O_DIRECT`): the disk writes to the process's memory without a copy in the page cache. That saves
//! processor time, and a large file does not push other files out of the cache; but each pass reads the disk again.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Address, position and length of a direct read must be multiples of the device's logical block. No disk has larger
/// ones.
const BLOCK: usize = 4096;
/// Bytes of the aligned buffer through which other reads go.
const BOUNCE: usize = 1 << 20;

const O_DIRECT: i32 = if cfg!(target_arch = "aarch64") { 0o200_000 } else { 0o40_000 };

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK]);

/// A file that is open for direct I/O.
pub struct Direct(File);

impl Direct {
    /// Opens a regular file, and reads its first block to see whether the file system can do it.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path) -> io::Result<Direct> {
        let direct = Direct(OpenOptions::new().read(true).custom_flags(O_DIRECT).open(path)?);
        let length = direct.0.metadata()?.len();
        direct.read_exact_at(&mut vec![0; length.min(BLOCK as u64) as usize], 0)?;
        Ok(direct)
    }

    /// Fills `out` with the bytes from position `at` on.
    ///
    /// # Errors
    /// `UnexpectedEof` where the file ends before; the system's.
    pub fn read_exact_at(&self, mut out: &mut [u8], mut at: u64) -> io::Result<()> {
        while !out.is_empty() {
            let aligned =
                at.is_multiple_of(BLOCK as u64) && out.as_ptr().addr().is_multiple_of(BLOCK) && out.len() >= BLOCK;
            let count = if aligned {
                let whole = out.len() / BLOCK * BLOCK;
                self.0.read_at(&mut out[..whole], at)
            } else {
                self.read_through_bounce(out, at)
            };
            match count {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    out = &mut out[count..];
                    at += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads the blocks that hold the first bytes of `out`, and copies these. Returns how many.
    fn read_through_bounce(&self, out: &mut [u8], at: u64) -> io::Result<usize> {
        thread_local! {
            static BLOCKS: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
        }
        BLOCKS.with_borrow_mut(|blocks| {
            if blocks.is_empty() {
                blocks.try_reserve_exact(BOUNCE / BLOCK).map_err(|_| io::ErrorKind::OutOfMemory)?;
                blocks.resize(BOUNCE / BLOCK, Block([0; BLOCK]));
            }
            let skip = (at % BLOCK as u64) as usize;
            let wanted = (skip + out.len()).next_multiple_of(BLOCK).min(BOUNCE);
            // SAFETY: blocks are plain bytes without padding, and `wanted` is at most their length.
            let bounce = unsafe { std::slice::from_raw_parts_mut(blocks.as_mut_ptr().cast::<u8>(), wanted) };
            let count = self.0.read_at(bounce, at - skip as u64)?.saturating_sub(skip).min(out.len());
            out[..count].copy_from_slice(&bounce[skip..skip + count]);
            Ok(count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_at_any_position_are_the_files_bytes() {
        let path = std::env::temp_dir().join(format!("verdigris-direct-{}", std::process::id()));
        let bytes: Vec<u8> = (0..3 * BOUNCE + 4097).map(|k| (k * 7 % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let direct = match Direct::open(&path) {
            Ok(direct) => direct,
            Err(error) => return eprintln!("SKIPPED: {} has no direct I/O: {error}", path.display()),
        };
        let mut blocks = vec![Block([0; BLOCK]); 2 * BOUNCE / BLOCK];
        // SAFETY: plain bytes, as many as the blocks have.
        let room = unsafe { std::slice::from_raw_parts_mut(blocks.as_mut_ptr().cast::<u8>(), 2 * BOUNCE) };
        for at in [0, 1, 4095, 4096, 8192, BOUNCE - 5, bytes.len() - 4097, bytes.len() - 1] {
            for start in [0, 1, 8, 4096] {
                for count in [0, 1, 100, 4096, 4097, 70_000, BOUNCE + 1, 2 * BOUNCE - 4096] {
                    let part = &mut room[start..start + count];
                    part.fill(255);
                    let read = direct.read_exact_at(part, at as u64);
                    if at + count <= bytes.len() {
                        read.unwrap();
                        assert!(*part == bytes[at..at + count], "{count} bytes from {at}, to {start}");
                    } else {
                        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
                    }
                }
            }
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_cannot_be_read_directly_is_an_error() {
        assert!(Direct::open(Path::new("/proc/self/status")).is_err());
        assert!(Direct::open(Path::new("/nowhere/at/all")).is_err());
    }
}
