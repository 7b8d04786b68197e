//! Prevents NVRTC from installing signal handlers.
//!
//! While NVRTC compiles, its C++ front end installs handlers for SIGINT and SIGTERM that exit the process, so Ctrl-C
//! would end R. Signal handlers are per process, so compiling on another thread does not help. Therefore the library's
//! import of `signal()` is rebound to a function that changes nothing and reports that the signal is ignored; the front
//! end then leaves the signal alone.

use std::ffi::{c_char, c_int, c_long, c_void, CStr};

use super::elf::{DYNAMIC, LOAD, STRTAB};

/// Replaces `signal()`: returns SIG_IGN, as for a signal that is ignored.
unsafe extern "C" fn leave(_signal: c_int, _handler: *const c_void) -> *const c_void {
    const SIG_IGN: usize = 1;
    SIG_IGN as *const c_void
}

/// Rebinds `signal()` in the library that contains the function at this address. Returns whether an import was found
/// and rebound.
pub fn leave_signals(function: *const c_void) -> bool {
    let mut search = Search { inside: function as usize, bound: false };
    // SAFETY: the callback keeps to the loaded objects that it is given.
    unsafe { dl_iterate_phdr(visit, &mut search) };
    search.bound
}

#[repr(C)]
struct Search {
    inside: usize,
    bound: bool,
}

// ---- the loader's and ELF's structures (man 3 dl_iterate_phdr, man 5 elf) ----------------------------------------

#[repr(C)]
struct Object {
    base: usize,
    name: *const c_char,
    segments: *const Segment,
    count: u16,
}
#[repr(C)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_bytes: u64,
    bytes: u64,
    align: u64,
}
#[repr(C)]
struct Entry {
    tag: u64,
    value: u64,
}
#[repr(C)]
struct Symbol {
    name: u32,
    rest: [u8; 20],
}
#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// Tags of the dynamic section.
const PLT_BYTES: u64 = 2;
const SYMBOLS: u64 = 6;
const RELOCATIONS: u64 = 7;
const RELOCATION_BYTES: u64 = 8;
const PLT: u64 = 23;
/// Relocation types that store the address of a function.
const BINDING: [u64; 2] = if cfg!(target_arch = "aarch64") { [1025, 1026] } else { [6, 7] };

unsafe extern "C" {
    fn dl_iterate_phdr(
        visit: unsafe extern "C" fn(*const Object, usize, *mut Search) -> c_int,
        data: *mut Search,
    ) -> c_int;
    fn mprotect(address: *mut c_void, bytes: usize, protection: c_int) -> c_int;
    fn sysconf(name: c_int) -> c_long;
}

unsafe extern "C" fn visit(object: *const Object, _: usize, search: *mut Search) -> c_int {
    // SAFETY: the loader's description of a loaded object, and what we passed.
    unsafe {
        let (object, search) = (&*object, &mut *search);
        let segments = std::slice::from_raw_parts(object.segments, object.count.into());
        let holds = |s: &Segment| {
            let begin = object.base.wrapping_add(s.address as usize);
            s.kind == LOAD && (begin..begin + s.bytes as usize).contains(&search.inside)
        };
        if !segments.iter().any(holds) {
            return 0;
        }
        if let Some(dynamic) = segments.iter().find(|s| s.kind == DYNAMIC) {
            search.bound = bind(object.base, (object.base + dynamic.address as usize) as *const Entry);
        }
    }
    1
}

/// Rebinds an object's imports of `signal()`. Returns whether there was one.
///
/// # Safety
/// `base` and `entry` must be the base address and the dynamic section of a loaded object.
unsafe fn bind(base: usize, mut entry: *const Entry) -> bool {
    let mut found = [0usize; 24];
    // SAFETY: a list that ends with tag 0.
    unsafe {
        while (*entry).tag != 0 {
            if let Some(to) = usize::try_from((*entry).tag).ok().and_then(|tag| found.get_mut(tag)) {
                *to = (*entry).value as usize;
            }
            entry = entry.add(1);
        }
    }
    // glibc has added the base to these addresses; other loaders have not
    let value = |tag: u64| found[tag as usize];
    let address = |tag: u64| if value(tag) != 0 && value(tag) < base { value(tag) + base } else { value(tag) };
    let (strings, symbols) = (address(STRTAB), address(SYMBOLS) as *const Symbol);
    if strings == 0 || symbols.is_null() {
        return false;
    }
    let mut bound = false;
    for (table, bytes) in [(PLT, PLT_BYTES), (RELOCATIONS, RELOCATION_BYTES)] {
        let count = if address(table) == 0 { 0 } else { value(bytes) / size_of::<Relocation>() };
        for k in 0..count {
            // SAFETY: within the tables that the dynamic section tells of.
            unsafe {
                let relocation = &*(address(table) as *const Relocation).add(k);
                if !BINDING.contains(&(relocation.info & 0xffff_ffff)) {
                    continue;
                }
                let name = (*symbols.add((relocation.info >> 32) as usize)).name as usize;
                if CStr::from_ptr((strings + name) as *const c_char) == c"signal" {
                    bound |= write((base + relocation.offset as usize) as *mut usize);
                }
            }
        }
    }
    bound
}

/// Overwrites a stored address with that of `leave`. The page may be read-only once the loader has filled it.
///
/// # Safety
/// `place` must be in the data of a loaded object.
unsafe fn write(place: *mut usize) -> bool {
    const PAGE_SIZE: c_int = 30;
    const READ_WRITE: c_int = 3;
    // SAFETY: a page of a loaded object's data; a function's address is written whole.
    unsafe {
        let page = usize::try_from(sysconf(PAGE_SIZE)).unwrap_or(4096);
        let begin = place as usize / page * page;
        if mprotect(begin as *mut c_void, page, READ_WRITE) != 0 {
            return false;
        }
        place.write_volatile(leave as *const () as usize);
    }
    true
}
