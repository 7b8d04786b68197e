//! Entries: loading the package, the end of R, counters, and conditions raised for tests.
#![cfg_attr(target_os = "macos", allow(unused_variables))] // there is no CUDA there

use verdigris_engine::memory;
use verdigris_ops::error::{Error, Kind as ErrorKind};

use crate::array::{device, handle, host_copy};
use crate::entry;
use crate::r::{self, conditions, gc, values, SEXP, SEXPTYPE};

/// Strings of a character vector, NA, what is no text and what is no character vector left out.
fn strings(x: SEXP) -> Vec<String> {
    if r::kind_of(x) != SEXPTYPE::STRSXP {
        return Vec::new();
    }
    // SAFETY: reads within the length; each translation is copied at once.
    unsafe {
        (0..r::len(x) as isize)
            .map(|k| r::STRING_ELT(x, k))
            .filter(|&text| text != r::R_NaString)
            .filter_map(|text| r::translated(text).ok().map(str::to_string))
            .collect()
    }
}

entry! {
    /// From .onLoad: where the packages with CUDA's libraries and torch keep theirs.
    fn search_paths(packages, torch) {
        device::set_folders(strings(packages), strings(torch));
        Ok(r::null())
    }

    /// From .onLoad: where compiled kernels are kept between sessions by default.
    fn cache_default(path) {
        #[cfg(not(target_os = "macos"))]
        crate::r::options::set_folder(strings(path).into_iter().next().map(Into::into));
        Ok(r::null())
    }

    /// Called when R ends: waits for a compilation that is under way.
    fn end() {
        #[cfg(not(target_os = "macos"))]
        verdigris_engine::backend::cuda::tiers::choose::end();
        Ok(r::null())
    }

    /// From .onLoad: the namespace, and a list of vectors that base has wrapped.
    fn attach(namespace, wrapped) {
        // SAFETY: R passes an environment and a list.
        unsafe {
            r::vg_set_namespace(namespace);
            for k in 0..r::len(wrapped) {
                r::vg_learn_wrapper(r::VECTOR_ELT(wrapped, k as isize));
            }
        }
        Ok(r::null())
    }

    /// c(handles, bytes on the host that R reads) that are alive, the bytes and elements that came to the host so far,
    /// and the seconds of collections that memory asked for: for tests.
    fn live() {
        use std::sync::atomic::Ordering::Relaxed;
        let alive = [handle::LIVE.load(Relaxed) as f64, memory::host_account().live() as f64];
        let fetched = [host_copy::FETCHED.load(Relaxed) as f64, host_copy::READ.load(Relaxed) as f64];
        let counts: Vec<f64> = alive.into_iter().chain(fetched).chain([gc::spent()]).collect();
        Ok(r::reals(counts.into_iter()))
    }

    /// Fails as asked: for tests of conditions.
    fn test_condition(what, text) {
        let text = values::string(text, "text")?;
        match values::string(what, "what")? {
            "panic" => panic!("{text}"),
            "warning" => {
                conditions::warn(text, None);
                Ok(r::logical(true))
            }
            _ => Err(Error::new(ErrorKind::Shape, text).advise(text).detail(text)),
        }
    }
}
