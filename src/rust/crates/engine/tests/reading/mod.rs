//! Helpers of the tests that read this package's sources.
#![allow(dead_code)] // each of them uses a part

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The Rust files in a folder and in those below.
pub fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// The code without its tests and comments.
pub fn code(text: &str) -> String {
    let end = text.find("\nmod tests {");
    let lines = text[..end.unwrap_or(text.len())].lines();
    lines.filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// A way from a file back to itself, in what each file uses.
pub fn circle<T: Ord + Clone>(uses: &BTreeMap<T, BTreeSet<T>>) -> Option<Vec<T>> {
    fn walk<T: Ord + Clone>(
        at: &T,
        uses: &BTreeMap<T, BTreeSet<T>>,
        way: &mut Vec<T>,
        done: &mut BTreeSet<T>,
    ) -> Option<Vec<T>> {
        if let Some(from) = way.iter().position(|file| file == at) {
            return Some(way[from..].to_vec());
        }
        if !done.contains(at) {
            way.push(at.clone());
            for next in uses.get(at).into_iter().flatten() {
                if let Some(found) = walk(next, uses, way, done) {
                    return Some(found);
                }
            }
            way.pop();
            done.insert(at.clone());
        }
        None
    }
    let mut done = BTreeSet::new();
    uses.keys().find_map(|file| walk(file, uses, &mut Vec::new(), &mut done))
}
