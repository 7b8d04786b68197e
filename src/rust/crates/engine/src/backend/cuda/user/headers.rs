//! Include folders of a source: the user's, the source file's own, and CUDA's, which are near NVRTC.

use std::collections::hash_map::DefaultHasher;
use std::collections::HashSet;
use std::fs;
use std::hash::Hash;
use std::path::{Path, PathBuf};

use crate::backend::cuda::driver::library;
use crate::disk;
use crate::kernel::Module;

/// The include path for NVRTC, in order; empty for a source that includes nothing.
pub fn folders(module: &Module) -> Vec<PathBuf> {
    if !module.source().contains("include") {
        return Vec::new();
    }
    let mut folders = module.spec.include.clone();
    folders.extend(cuda());
    folders
}

/// Folders of CUDA's headers: `include` beside the library's folder (toolkits, wheels of CUDA 13), or beside the
/// library's wheel (CUDA 12, where each part has its own). NVRTC's installation comes first, then the folders that are
/// searched for libraries.
fn cuda() -> Vec<PathBuf> {
    let nvrtc = library::expected(library::Library::Nvrtc).and_then(|(file, ..)| file.parent().map(Path::to_path_buf));
    let mut roots: Vec<PathBuf> = Vec::new();
    for lib in nvrtc.into_iter().chain(library::folders()) {
        roots.push(lib.clone());
        roots.extend(lib.parent().map(Path::to_path_buf));
        let wheels = lib.parent().and_then(Path::parent).filter(|p| p.file_name().is_some_and(|n| n == "nvidia"));
        if let Some(parts) = wheels.and_then(|p| fs::read_dir(p).ok()) {
            let mut parts: Vec<PathBuf> = parts.flatten().map(|part| part.path()).collect();
            parts.sort();
            roots.extend(parts);
        }
        // a toolkit's root, if the library is in targets/x86_64-linux/lib
        roots.extend(lib.ancestors().nth(3).map(Path::to_path_buf));
    }
    let mut found: Vec<PathBuf> = Vec::new();
    for root in roots {
        let folder = root.join("include");
        let has = |name: &str| folder.join(name).exists();
        if has("cuda_fp16.h") || has("cuda_runtime.h") || has("cuda/std") || has("cccl") {
            for folder in [folder.clone(), folder.join("cccl")] {
                // only the first installation with CUDA's headers is used: two versions must not be mixed
                let again = found
                    .iter()
                    .any(|f| f == &folder || f.join("cuda_fp16.h").exists() && folder.join("cuda_fp16.h").exists());
                if folder.is_dir() && !again {
                    found.push(folder);
                }
            }
        }
    }
    found
}

/// Hashes the headers that the source includes from the user's folders, since a changed header makes another module.
pub fn hash(module: &Module, hasher: &mut DefaultHasher) {
    if module.spec.include.is_empty() {
        return;
    }
    module.spec.include.hash(hasher);
    let mut seen = HashSet::new();
    included(module.source(), &module.spec.include, &mut seen, hasher);
}

fn included(text: &str, folders: &[PathBuf], seen: &mut HashSet<PathBuf>, hasher: &mut DefaultHasher) {
    for line in text.lines() {
        let Some(rest) = line.trim_start().strip_prefix('#').and_then(|l| l.trim_start().strip_prefix("include"))
        else {
            continue;
        };
        let name = rest.trim().trim_start_matches(['"', '<']);
        let name = &name[..name.find(['"', '>']).unwrap_or(name.len())];
        for folder in folders {
            let path = folder.join(name);
            if name.is_empty() || !seen.insert(path.clone()) {
                continue;
            }
            if let Some(text) = disk::read(&path).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
                (&path, &text).hash(hasher);
                let mut inner = folders.to_vec();
                inner.extend(path.parent().map(Path::to_path_buf));
                included(&text, &inner, seen, hasher);
            }
        }
    }
}
