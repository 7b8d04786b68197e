//! Imports run downwards: a layer uses those before it in this list and none behind it. Between crates the compiler sees to that.

use std::path::{Path, PathBuf};

/// The engine's layers, the lowest first. `memory` to `kernel` are data, of which `backend` computes.
const LAYERS: [&str; 9] = ["memory", "disk", "plan", "kernel", "backend", "graph", "array", "device", "interop"];

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// The code without comments, and without what is compiled for tests alone.
fn code(text: &str) -> String {
    let end = text.find("\n#[cfg(test)]\nmod tests").unwrap_or(text.len());
    let lines = text[..end].lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The layers that a text names as `crate::LAYER` or within `crate::{LAYER, ...}`.
fn named(code: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        // `verdigris_crate::` and `$crate::` are no path of this crate
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        let list = rest.strip_prefix('{').map_or_else(
            || vec![rest],
            |inside| {
                let mut depth = 0;
                let end = inside.find(|c| {
                    depth += i32::from(c == '{') - i32::from(c == '}');
                    depth < 0
                });
                inside[..end.unwrap_or(inside.len())].split(',').map(str::trim).collect()
            },
        );
        for path in list {
            let name = path.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or("");
            found.extend(LAYERS.iter().find(|layer| **layer == name));
        }
    }
    found
}

#[test]
fn no_layer_imports_one_above_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let rank = |layer: &str| LAYERS.iter().position(|known| *known == layer);
    let (mut upward, mut seen) = (Vec::new(), 0);
    for path in files {
        let below = path.strip_prefix(&src).unwrap().to_string_lossy().replace('\\', "/");
        let file = below.rsplit('/').next().unwrap();
        let own = below.split('/').next().unwrap().trim_end_matches(".rs");
        // tests may use all layers
        let is_test = file == "tests.rs" || file == "bits.rs" || file.starts_with("differential") || own == "testing";
        if own == "lib" || is_test {
            continue;
        }
        let own_rank = rank(own).unwrap_or_else(|| panic!("{below} belongs to no layer of tests/layers.rs"));
        for layer in named(&code(&std::fs::read_to_string(&path).unwrap())) {
            seen += 1;
            if rank(layer) > Some(own_rank) {
                upward.push(format!("{below} uses {layer}"));
            }
        }
    }
    assert!(seen > 300, "only {seen} imports were found");
    assert!(upward.is_empty(), "imports that run upwards:\n{}", upward.join("\n"));
}

#[test]
fn imports_are_found_in_all_forms() {
    assert_eq!(named("use crate::graph::node::Node;"), ["graph"]);
    assert_eq!(named("use crate::{array, memory::buffer::{Buffer, View}, interop};"), ["array", "memory", "interop"]);
    assert_eq!(named("let x = crate::device::parse(y);"), ["device"]);
    assert!(named("other_crate::graph::x").is_empty());
}
