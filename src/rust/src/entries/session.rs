//! Entries: loading the package, the end of R, counters, and conditions raised for tests.
#![cfg_attr(target_os = "macos", allow(unused_variables))] // there is no CUDA there

use verdigris_engine::memory;
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::parallel;

use crate::array::{device, handle, host_copy};
use crate::entries::entry::entries;
use crate::r::typed::FromR;
use crate::r::{self, conditions, gc, SEXP, SEXPTYPE};

/// Strings of a character vector, NA, what is no text and what is no character vector left out: the package loads
/// whatever the folders are called.
struct Readable(Vec<String>);

impl FromR for Readable {
    fn from_r(x: SEXP, _: &'static str) -> Result<Readable> {
        if r::kind_of(x) != SEXPTYPE::STRSXP {
            return Ok(Readable(Vec::new()));
        }
        // SAFETY: reads within the length; each translation is copied at once.
        let texts = (0..r::len(x) as isize).map(|k| unsafe { r::STRING_ELT(x, k) });
        // SAFETY: a constant of R's.
        let present = texts.filter(|&text| text != unsafe { r::R_NaString });
        Ok(Readable(present.filter_map(|text| r::translated(text).ok().map(str::to_string)).collect()))
    }
}

entries! {
    /// Limits the threads of the cpu device, unless `threads` is not finite; 0 is no limit. How many there are.
    fn cpu_threads(threads: f64) -> f64 {
        if threads.is_finite() {
            parallel::set_share(threads.max(0.0) as usize);
        }
        parallel::width() as f64
    }

    /// From .onLoad: where the packages with CUDA's libraries and torch keep theirs.
    fn search_paths(packages: Readable, torch: Readable) {
        device::set_folders(packages.0, torch.0);
    }

    /// From .onLoad: where compiled kernels are kept between sessions by default.
    fn cache_default(path: Readable) {
        #[cfg(not(target_os = "macos"))]
        crate::r::options::set_folder(path.0.into_iter().next().map(Into::into));
    }

    /// Called when R ends: waits for a compilation that is under way.
    fn end() {
        #[cfg(not(target_os = "macos"))]
        verdigris_engine::backend::cuda::tiers::choose::end();
    }

    /// From .onLoad: the namespace, and a list of vectors that base has wrapped.
    fn attach(namespace: SEXP, wrapped: Vec<SEXP>) {
        // SAFETY: R passes an environment and a list.
        unsafe {
            r::vg_set_namespace(namespace);
            for x in wrapped {
                r::vg_learn_wrapper(x);
            }
        }
    }

    /// c(handles, bytes on the host that R reads) that are alive, the bytes and elements that came to the host so far,
    /// and the seconds of collections that memory asked for: for tests.
    fn live() -> [f64; 5] {
        use std::sync::atomic::Ordering::Relaxed;
        let (handles, host) = (handle::LIVE.load(Relaxed) as f64, memory::host_account().live() as f64);
        let (fetched, read) = (host_copy::FETCHED.load(Relaxed) as f64, host_copy::READ.load(Relaxed) as f64);
        [handles, host, fetched, read, gc::spent()]
    }

    /// Fails as asked: for tests of conditions.
    fn test_condition(what: &str, text: &str) -> Result<bool> {
        match what {
            "panic" => panic!("{text}"),
            "warning" => {
                conditions::warn(text, None);
                Ok(true)
            }
            "nul" => Err(Error::new(ErrorKind::Shape, format!("{text}\0{text}"))),
            _ => Err(Error::new(ErrorKind::Shape, text).advise(text).detail(text)),
        }
    }
}
