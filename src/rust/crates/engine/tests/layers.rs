//! Imports run downwards: a layer uses the ones before it in its list and none behind it, and no file imports itself by
//! way of others. Between crates the compiler sees to that.

mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use reading::{circle, code, sources};

/// A file's place in its crate: the names of its module's path.
type Module = Vec<String>;

/// The crates, and folders of layers in them, the lowest first. A layer that is one file is named as a folder is.
const LAYERS: [(&str, &[&str], &[&str]); 3] = [
    ("bridge", &[], &["r", "array", "entries"]),
    // `memory` to `kernel` are data, of which `backend` computes
    ("engine", &[], &["memory", "disk", "plan", "kernel", "backend", "graph", "array", "device", "interop", "team"]),
    (
        "engine",
        &["backend", "cuda"],
        &["driver", "codegen", "context", "compile", "launch", "interpret", "tiers", "ops", "prebuilt_list", "user"],
    ),
];

fn source_of(name: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if name == "bridge" {
        crates.join("../src")
    } else {
        crates.join(name).join("src")
    }
}

/// Tests may use all layers.
fn is_test(module: &Module) -> bool {
    let last = module.last().map_or("", String::as_str);
    matches!(last, "tests" | "bits" | "testing") || last.starts_with("differential")
}

/// The paths that a list in braces stands for: `a::{b, c::{d, e}}` is three.
fn expand(before: &[String], text: &str, out: &mut Vec<Vec<String>>) {
    let (path, inside) = match text.split_once('{') {
        Some((path, inside)) => (path, Some(inside.strip_suffix('}').unwrap_or(inside))),
        None => (text, None),
    };
    let names = path.split("::").map(str::trim).filter(|name| !name.is_empty() && *name != "self");
    let path: Vec<String> = before.iter().cloned().chain(names.map(str::to_string)).collect();
    let Some(inside) = inside else { return out.push(path) };
    let (mut depth, mut from) = (0, 0);
    for (at, c) in inside.char_indices().chain([(inside.len(), ',')]) {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            let item = inside[from..at].split(" as ").next().unwrap_or("").trim();
            if !item.is_empty() {
                expand(&path, item, out);
            }
            from = at + 1;
        }
    }
}

/// All paths of the crate that a file names, from the crate's root.
fn paths(module: &Module, code: &str) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    for (word, start) in
        ["crate::", "super::"].into_iter().flat_map(|w| code.match_indices(w).map(move |(at, _)| (w, at)))
    {
        // `verdigris_crate::` and `$crate::` are no paths of this crate, and a second `super::` belongs to the first
        if code[..start].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | ':')) {
            continue;
        }
        let mut rest = &code[start + word.len()..];
        let mut base = Vec::new();
        if word == "super::" {
            base = module[..module.len().saturating_sub(1)].to_vec();
            while let Some(behind) = rest.strip_prefix("super::") {
                base.pop();
                rest = behind;
            }
        }
        let mut depth = 0;
        let end = rest.char_indices().find(|&(at, c)| match c {
            '{' if depth > 0 || rest[..at].ends_with("::") || at == 0 => {
                depth += 1;
                false
            }
            '}' if depth > 0 => {
                depth -= 1;
                false
            }
            _ => {
                depth == 0 && !(c.is_alphanumeric() || matches!(c, '_' | ':'))
                    || depth == 0 && rest[..at].ends_with('}')
            }
        });
        expand(&base, rest[..end.map_or(rest.len(), |(at, _)| at)].trim_end_matches(':'), &mut out);
    }
    out
}

/// The paths that begin with a module which the file declares itself: `mod a; ... a::f()`.
fn paths_of_children(module: &Module, code: &str) -> Vec<Vec<String>> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let declared = code.lines().filter_map(|line| {
        line.trim_start_matches("pub(crate) ")
            .trim_start_matches("pub(super) ")
            .trim_start_matches("pub ")
            .strip_prefix("mod ")?
            .strip_suffix(';')
    });
    let is_used = |name: &str| {
        let path = format!("{name}::");
        // not the end of another path or word; `self::` and `use` may stand before it
        code.match_indices(&path).any(|(at, _)| {
            let before = code[..at].strip_suffix("self::").unwrap_or(&code[..at]);
            !before.ends_with(|c: char| word(c) || c == ':')
        })
    };
    let path = |name: &str| module.iter().cloned().chain([name.to_string()]).collect();
    declared.filter(|name| is_used(name)).map(path).collect()
}

/// Which modules of a crate each of its modules imports.
fn imports(root: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut all = Vec::new();
    sources(root, &mut all);
    let module = |path: &PathBuf| -> Module {
        let below = path.strip_prefix(root).unwrap().with_extension("");
        let names = below.iter().map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| name != "mod" && name != "lib").collect()
    };
    let known: BTreeSet<Module> = all.iter().map(module).collect();
    let resolve = |path: &[String]| (1..=path.len()).rev().map(|n| path[..n].to_vec()).find(|p| known.contains(p));
    let mut out = BTreeMap::new();
    for path in &all {
        let own = module(path);
        if own.is_empty() || is_test(&own) {
            continue;
        }
        let code = code(&std::fs::read_to_string(path).unwrap());
        let found = [paths(&own, &code), paths_of_children(&own, &code)].concat();
        let found = found.iter().filter_map(|path| resolve(path)).filter(|other| *other != own && !is_test(other));
        out.insert(own.clone(), found.collect());
    }
    // A folder's own file may use the files in it, and they may use it: a file outside that imports it imports those.
    let all: BTreeMap<Module, BTreeSet<Module>> = out.clone();
    let inside = |own: &Module, other: &Module| own.len() < other.len() && other.starts_with(own);
    for (own, others) in &mut out {
        let outer = others.iter().filter(|other| !inside(other, own) && !inside(own, other));
        let theirs = outer.flat_map(|other| all.get(other).into_iter().flatten().filter(|below| inside(other, below)));
        let theirs: Vec<Module> = theirs.cloned().collect();
        others.retain(|other| !inside(own, other));
        others.extend(theirs);
    }
    out
}

#[test]
fn no_layer_imports_one_above_it() {
    for (name, within, layers) in LAYERS {
        let rank = |module: &Module| {
            let inside = module.len() > within.len() && within.iter().zip(module).all(|(a, b)| a == b);
            let layer = inside.then(|| &module[within.len()]);
            layer.map(|layer| layers.iter().position(|known| known == layer).ok_or_else(|| layer.clone()))
        };
        let (mut upward, mut seen) = (Vec::new(), 0);
        for (module, others) in imports(&source_of(name)) {
            let Some(own) = rank(&module) else { continue };
            let own = own.unwrap_or_else(|layer| panic!("{layer} of {name} is no layer of tests/layers.rs"));
            for other in others {
                let Some(Ok(other_rank)) = rank(&other) else { continue };
                seen += 1;
                if other_rank > own {
                    upward.push(format!("{} uses {}", module.join("/"), other.join("/")));
                }
            }
        }
        assert!(seen > 100, "only {seen} imports were found in {name}");
        assert!(upward.is_empty(), "imports that run upwards:\n{}", upward.join("\n"));
    }
}

#[test]
fn no_file_imports_itself_by_way_of_others() {
    for name in ["ops", "compile", "engine", "bridge"] {
        let imports = imports(&source_of(name));
        assert!(imports.len() > 20, "only {} files were found in {name}", imports.len());
        let found = circle(&imports).map(|way| way.iter().map(|m| m.join("/")).collect::<Vec<_>>().join(" -> "));
        assert_eq!(found, None, "a circle in {name}");
    }
}

#[test]
fn imports_are_found_in_all_forms() {
    let module: Module = vec!["graph".into(), "node".into()];
    let found = |text: &str| paths(&module, text).iter().map(|path| path.join("/")).collect::<Vec<_>>();
    assert_eq!(found("use crate::graph::node::Node;"), ["graph/node/Node"]);
    assert_eq!(
        found("use crate::{array, memory::buffer::{Buffer, View as V}, interop};"),
        ["array", "memory/buffer/Buffer", "memory/buffer/View", "interop"]
    );
    assert_eq!(found("let x = crate::device::parse(y) + super::spill::tick();"), ["device/parse", "graph/spill/tick"]);
    assert_eq!(found("use super::super::plan::{self, Plan};"), ["plan", "plan/Plan"]);
    assert!(found("other_crate::graph::x; $crate::x").is_empty());
    let children = "mod a;\npub mod b;\nmod c;\nmod d;\nuse self::a::f;\nlet x = b::g() + other::c::h() + ad::d();";
    assert_eq!(paths_of_children(&vec!["m".into()], children), [["m", "a"], ["m", "b"]]);
    let edge = |from: &str, to: &[&str]| (vec![from.to_string()], to.iter().map(|t| vec![t.to_string()]).collect());
    assert_eq!(circle(&BTreeMap::from([edge("a", &["b"]), edge("b", &["c"])])), None);
    assert_eq!(
        circle(&BTreeMap::from([edge("a", &["b"]), edge("b", &["c"]), edge("c", &["b"])])).map(|w| w.len()),
        Some(2)
    );
}
