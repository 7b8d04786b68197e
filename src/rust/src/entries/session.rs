//! Entries: loading the package, the end of the session, counters, and conditions for tests.
#![cfg_attr(target_os = "macos", allow(unused_variables))] // without CUDA some entries ignore their arguments

use verdigris_engine::memory;
use verdigris_ops::error::{Error, Kind as ErrorKind, Result};
use verdigris_ops::parallel;

use crate::array::{device, handle, host_copy};
use crate::entries::entry::entries;
use crate::r::typed::FromR;
use crate::r::{self, conditions, gc, SEXP, SEXPTYPE};

/// The valid strings of a character vector. NA, invalid text and other types are left out, so that the package loads
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
    /// Limits the threads of the cpu device; 0 means no limit, a value that is not finite changes nothing. Returns the
    /// number of threads.
    fn cpu_threads(threads: f64) -> f64 {
        if threads.is_finite() {
            parallel::set_share(threads.max(0.0) as usize);
        }
        parallel::width() as f64
    }

    /// From .onLoad: the folders of R packages with CUDA's libraries, and those of torch.
    fn search_paths(packages: Readable, torch: Readable) {
        device::set_folders(packages.0, torch.0);
    }

    /// From .onLoad: the default folder for compiled kernels.
    fn cache_default(path: Readable) {
        #[cfg(not(target_os = "macos"))]
        crate::r::options::set_folder(path.0.into_iter().next().map(Into::into));
    }

    /// Called when R ends: waits for a running compilation.
    fn end() {
        #[cfg(not(target_os = "macos"))]
        verdigris_engine::backend::cuda::tiers::choose::end();
    }

    /// From .onLoad: the namespace, and a list of vectors in base R's wrappers, whose ALTREP classes are remembered.
    fn attach(namespace: SEXP, wrapped: Vec<SEXP>) {
        // SAFETY: R passes an environment and a list.
        unsafe {
            r::vg_set_namespace(namespace);
            for x in wrapped {
                r::vg_learn_wrapper(x);
            }
        }
    }

    /// For tests: the number of live handles, the bytes of live host copies and vectors, the total bytes and elements
    /// copied to the host, and the seconds spent in garbage collections under memory pressure.
    fn live() -> [f64; 5] {
        use std::sync::atomic::Ordering::Relaxed;
        let (handles, host) = (handle::LIVE.load(Relaxed) as f64, memory::host_account().live() as f64);
        let (fetched, read) = (host_copy::FETCHED.load(Relaxed) as f64, host_copy::READ.load(Relaxed) as f64);
        [handles, host, fetched, read, gc::spent()]
    }

    /// For tests of conditions: fails in the given way.
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
