//! Checks whether a range of host memory can be read, without reading it.
//!
//! The answer may be outdated at once, since the owner may unmap the memory. The check detects wrong addresses and
//! wrong sizes.

#[cfg(unix)]
mod system {
    use std::ffi::{c_int, c_long, c_void};

    extern "C" {
        fn msync(address: *mut c_void, bytes: usize, flags: c_int) -> c_int;
        fn madvise(address: *mut c_void, bytes: usize, advice: c_int) -> c_int;
        fn sysconf(name: c_int) -> c_long;
    }

    /// Does not start any writing: Linux and macOS only check that the pages are mapped.
    const MS_ASYNC: c_int = 1;
    #[cfg(target_os = "linux")]
    const SC_PAGESIZE: c_int = 30;
    #[cfg(not(target_os = "linux"))]
    const SC_PAGESIZE: c_int = 29;
    /// Linux 5.14: populates a page for reading, or fails if it cannot be read.
    const MADV_POPULATE_READ: c_int = 22;

    fn page() -> u64 {
        static PAGE: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
        // SAFETY: returns a number.
        *PAGE.get_or_init(|| u64::try_from(unsafe { sysconf(SC_PAGESIZE) }).unwrap_or(4096).max(1))
    }

    /// Whether the page at an address can be read; true if the system cannot tell.
    fn is_readable(at: u64) -> bool {
        static TELLS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        // SAFETY: at most faults a page in; the page need not be mapped.
        let ask = |at: u64| unsafe { madvise(at as *mut c_void, page() as usize, MADV_POPULATE_READ) } == 0;
        if !cfg!(target_os = "linux") {
            return true;
        }
        // Tests the system call on a page that is certainly mapped: systems without it refuse that page as well.
        let here = &raw const TELLS as u64 / page() * page();
        !*TELLS.get_or_init(|| ask(here)) || ask(at)
    }

    /// Whether a range is in the heap below the program break, where the C library allocates small blocks. All of it
    /// can be read, as long as it is below the break. Needs a system call only for the first, lowest address.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    pub fn is_heap(address: u64, bytes: usize) -> bool {
        use std::sync::atomic::{AtomicU64, Ordering};
        extern "C" {
            fn sbrk(increment: isize) -> *mut c_void;
        }
        /// The heap is known to be mapped without gaps from this address to the break.
        static START: AtomicU64 = AtomicU64::new(u64::MAX);
        // SAFETY: an increment of 0 moves nothing; the C library returns a stored number.
        let end = unsafe { sbrk(0) } as u64;
        if address.checked_add(bytes as u64).is_none_or(|last| last > end) {
            return false;
        }
        if address >= START.load(Ordering::Relaxed) {
            return true;
        }
        let start = address / page() * page();
        // SAFETY: only checks that the pages are mapped.
        let whole = unsafe { msync(start as *mut c_void, (end - start) as usize, MS_ASYNC) } == 0;
        if whole {
            START.fetch_min(start, Ordering::Relaxed);
        }
        whole
    }

    /// On other systems the range is not known without a system call.
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    pub fn is_heap(_: u64, _: usize) -> bool {
        false
    }

    pub fn is_mapped(address: u64, bytes: usize) -> bool {
        if is_heap(address, bytes) {
            return true;
        }
        let page = page();
        let start = address / page * page;
        let Some(end) = address.checked_add(bytes as u64) else { return false };
        let length = (end - start) as usize;
        // SAFETY: only checks that the pages are mapped; the range need not be.
        if unsafe { msync(start as *mut c_void, length, MS_ASYNC) } != 0 {
            return false;
        }
        // A range can be mapped but not readable. Only its last page is checked, where a wrong size would show.
        end - start <= page || is_readable((end - 1) / page * page)
    }
}

#[cfg(windows)]
mod system {
    use std::ffi::c_void;

    /// `MEMORY_BASIC_INFORMATION`: a range of pages with equal attributes.
    #[repr(C)]
    #[derive(Default)]
    struct Region {
        base: usize,
        allocation_base: usize,
        allocation_protect: u32,
        partition: u16,
        size: usize,
        state: u32,
        protect: u32,
        kind: u32,
    }

    extern "system" {
        fn VirtualQuery(address: *const c_void, region: *mut Region, length: usize) -> usize;
    }

    const MEM_COMMIT: u32 = 0x1000;
    const PAGE_NOACCESS: u32 = 0x01;
    const PAGE_GUARD: u32 = 0x100;
    /// `PAGE_READWRITE`, `PAGE_WRITECOPY`, and their executable variants.
    const WRITABLE: u32 = 0x04 | 0x08 | 0x40 | 0x80;

    /// Whether all of `address .. end` can be read, and whether it can be written.
    pub fn access(address: u64, end: u64) -> (bool, bool) {
        let (mut at, mut writable) = (address, true);
        while at < end {
            let mut region = Region::default();
            // SAFETY: only reads the page table, and writes a region of the given size.
            let told = unsafe { VirtualQuery(at as *const c_void, &mut region, size_of::<Region>()) };
            let closed = region.protect == 0 || region.protect & (PAGE_NOACCESS | PAGE_GUARD) != 0;
            if told == 0 || region.state != MEM_COMMIT || closed {
                return (false, false);
            }
            writable &= region.protect & WRITABLE != 0;
            at = (region.base + region.size) as u64;
        }
        (true, writable)
    }

    pub fn is_mapped(address: u64, bytes: usize) -> bool {
        address.checked_add(bytes as u64).is_some_and(|end| access(address, end).0)
    }

    pub fn is_heap(_: u64, _: usize) -> bool {
        false
    }
}

/// Whether all of a range is mapped. Fast, and checks every page; but on Unix readability is only checked for the last
/// page.
pub fn is_mapped(address: u64, bytes: usize) -> bool {
    bytes == 0 || system::is_mapped(address, bytes)
}

/// Whether a range is known to be readable without a system call, which takes a microsecond on some virtual machines.
/// False means that it is not known.
pub fn is_heap(address: u64, bytes: usize) -> bool {
    system::is_heap(address, bytes)
}

/// Whether all of a range can be read, and whether it can be written; None if the system cannot tell. Reads a list of
/// all mappings, which takes a tenth of a millisecond.
pub fn access(address: u64, bytes: usize) -> Option<(bool, bool)> {
    let end = match address.checked_add(bytes as u64) {
        Some(end) => end,
        None => return Some((false, false)),
    };
    #[cfg(windows)]
    return Some(system::access(address, end));
    #[cfg(not(windows))]
    listed_access(address, end)
}

/// `access`, from Linux' list of mappings.
#[cfg(not(windows))]
fn listed_access(address: u64, end: u64) -> Option<(bool, bool)> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let (mut at, mut writable) = (address, true);
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let (from, to) = (u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?);
        if to <= at {
            continue;
        }
        if from > at || !rest.starts_with('r') {
            break;
        }
        writable &= rest.as_bytes().get(1) == Some(&b'w');
        at = to;
        if at >= end {
            return Some((true, writable));
        }
    }
    Some((address == end, false))
}

#[cfg(all(test, any(target_os = "linux", windows)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_told_from_what_is_not() {
        let kept = vec![1u8; 1 << 20];
        let at = kept.as_ptr() as u64;
        assert!(is_mapped(at, kept.len()) && is_mapped(at + 5, 1) && is_mapped(0, 0));
        assert_eq!(access(at, kept.len()), Some((true, true)));
        let constant = "a constant".as_ptr() as u64;
        assert_eq!(access(constant, 10), Some((true, false)));
        let small = Box::new([1u8; 100]);
        let (at_small, large) = (&raw const *small as u64, vec![1u8; 1 << 26]);
        // a thread's own allocations may be in the heap or not
        assert!(is_mapped(at_small, 100) && !is_heap(large.as_ptr() as u64, large.len()));
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        {
            extern "C" {
                fn sbrk(increment: isize) -> *mut std::ffi::c_void;
            }
            // SAFETY: an increment of 0 moves nothing.
            let end = unsafe { sbrk(0) } as u64;
            assert!(is_heap(end - 64, 64) && is_heap(end - 4096, 1000));
        }
        assert!(!is_heap(0, 8) && !is_heap(at_small, 1 << 46) && !is_heap(u64::MAX - 4, 8));
        for (address, bytes) in
            [(0u64, 8usize), (8, 1), (0x10, 1 << 30), (at, 1 << 46), (u64::MAX - 4, 8), (1 << 62, 8)]
        {
            assert!(!is_mapped(address, bytes), "{address:#x}");
            assert_eq!(access(address, bytes), Some((false, false)), "{address:#x}");
        }
    }
}
