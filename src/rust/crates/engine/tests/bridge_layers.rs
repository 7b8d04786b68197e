//! The bridge's layers: imports run downwards, and its files, in Rust and in C, import each other in no circle. The
//! test stands here because the bridge is a static library for R: its own tests could not be linked without R.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The lowest first.
const LAYERS: [&str; 3] = ["r", "array", "entries"];

/// Which modules each module imports: `r`, `r::values`, `array::handle` with all files of its folder, and so on.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Reads the path or the group of paths that a text begins with. Returns the text behind it.
fn tree<'a>(text: &'a str, prefix: &[&'a str], out: &mut Vec<Vec<&'a str>>) -> &'a str {
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',' || c == '*');
            match rest.strip_prefix('}') {
                Some(behind) => return behind,
                None if rest.starts_with(is_name) => rest = tree(rest, prefix, out),
                None => panic!("no path: {rest:.40}"),
            }
        }
    }
    let (name, rest) = text.split_at(text.find(|c| !is_name(c)).unwrap_or(text.len()));
    let path = [prefix, &[name]].concat();
    match rest.strip_prefix("::") {
        Some(below) => tree(below, &path, out),
        None => {
            out.push(path);
            rest
        }
    }
}

/// The paths below `crate` that a text names, groups written out; `super` is the module above a file's.
fn paths<'a>(code: &'a str, above: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut found = Vec::new();
    for (word, prefix) in [("crate::", &[][..]), ("super::", above)] {
        for (at, _) in code.match_indices(word) {
            // `verdigris_crate::` and `$crate::` are no path of this crate
            if !code[..at].ends_with(|c| is_name(c) || c == '$') {
                tree(&code[at + word.len()..], prefix, &mut found);
            }
        }
    }
    found
}

/// The imports of all files, by their paths below the crate's folder.
fn imports(files: &[(String, String)]) -> Imports {
    let names = |file: &'_ str| -> Vec<String> {
        file.trim_end_matches(".rs").split('/').filter(|name| *name != "mod").map(String::from).collect()
    };
    let module = |file: &str| names(file).into_iter().take(2).collect::<Vec<_>>().join("::");
    let known: BTreeSet<String> = files.iter().map(|(file, _)| module(file)).collect();
    let mut all = Imports::new();
    for (file, text) in files {
        let own = module(file);
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code = lines.collect::<Vec<_>>().join("\n");
        let above = names(file);
        let above: Vec<&str> = above[..above.len() - 1].iter().map(String::as_str).collect();
        let found = paths(&code, &above).into_iter().filter_map(|path| {
            (1..=path.len().min(2)).rev().map(|n| path[..n].join("::")).find(|name| known.contains(name))
        });
        all.entry(own.clone()).or_default().extend(found.filter(|name| *name != own));
    }
    all
}

fn rank(module: &str) -> usize {
    let layer = module.split("::").next().unwrap();
    LAYERS
        .iter()
        .position(|known| *known == layer)
        .unwrap_or_else(|| panic!("{module} belongs to no layer of {LAYERS:?}"))
}

fn upward(all: &Imports) -> Vec<String> {
    let pairs = all.iter().flat_map(|(own, used)| used.iter().map(move |other| (own, other)));
    pairs.filter(|(own, other)| rank(other) > rank(own)).map(|(own, other)| format!("{own} uses {other}")).collect()
}

/// The modules that are in circles, or between two circles.
fn circles(all: &Imports) -> Vec<String> {
    let mut left = all.clone();
    loop {
        let used: BTreeSet<String> = left.values().flatten().cloned().collect();
        let before = left.len();
        let known = left.clone();
        left.retain(|own, uses| used.contains(own) && uses.iter().any(|other| known.contains_key(other)));
        if left.len() == before {
            let among =
                |uses: &BTreeSet<String>| uses.iter().filter(|m| left.contains_key(*m)).cloned().collect::<Vec<_>>();
            return left.iter().map(|(own, uses)| format!("{own} uses {}", among(uses).join(", "))).collect();
        }
    }
}

#[test]
fn the_bridge_imports_downwards_and_in_no_circle() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src");
    let mut found = Vec::new();
    sources(&src, &mut found);
    let name = |path: &PathBuf| path.strip_prefix(&src).unwrap().to_string_lossy().replace('\\', "/");
    let files: Vec<(String, String)> = found
        .iter()
        .map(|path| (name(path), std::fs::read_to_string(path).unwrap()))
        .filter(|(f, _)| f != "lib.rs")
        .collect();
    let all = imports(&files);
    let seen = all.values().map(BTreeSet::len).sum::<usize>();
    assert!(seen > 150, "only {seen} imports were found");
    assert!(upward(&all).is_empty(), "imports that run upwards:\n{}", upward(&all).join("\n"));
    assert!(circles(&all).is_empty(), "imports in circles:\n{}", circles(&all).join("\n"));
}

/// The function of ours that a line of C begins with, as `vg_new` of `SEXP vg_new(int type);`, unless it is static.
fn function(line: &str) -> Option<&str> {
    if !line.starts_with(|c: char| c.is_alphabetic()) || line.starts_with("static ") {
        return None;
    }
    let name = line.split_once('(')?.0.rsplit(|c| !is_name(c)).next()?;
    (name.starts_with("vg_") || name.starts_with("C_")).then_some(name)
}

/// What C files include, by their names without `.c` and `.h`; and declarations that stand in another file than the
/// function.
fn includes(files: &[(String, String)]) -> (Imports, Vec<String>) {
    let unit = |file: &str| file.split('.').next().unwrap().to_string(); // also of `NAME.h"`
    let mut all = Imports::new();
    let (mut defined, mut declared) = (BTreeMap::new(), Vec::new());
    for (file, text) in files {
        let own = unit(file);
        let named = text.lines().filter_map(|line| line.strip_prefix("#include \"")).map(unit);
        all.entry(own.clone()).or_default().extend(named.filter(|other| *other != own));
        for line in text.lines() {
            let Some(name) = function(line) else { continue };
            let code = line.split("//").next().unwrap().trim_end();
            if code.ends_with(';') {
                declared.push((name, own.clone()));
            } else if code.ends_with('{') || code.ends_with('}') {
                defined.insert(name, own.clone());
            }
        }
    }
    let strange = declared.into_iter().filter_map(|(name, own)| {
        let place: &String = defined.get(name)?;
        (*place != own).then(|| format!("{own} declares {name} of {place}"))
    });
    (all, strange.collect())
}

#[test]
fn the_c_files_include_each_other_in_no_circle() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&src).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "c" || e == "h" || e == "cpp") {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            files.push((name, std::fs::read_to_string(path).unwrap()));
        }
    }
    let (all, strange) = includes(&files);
    let seen = all.values().map(BTreeSet::len).sum::<usize>();
    assert!(seen > 50, "only {seen} includes were found");
    assert!(circles(&all).is_empty(), "includes in circles:\n{}", circles(&all).join("\n"));
    assert!(strange.is_empty(), "functions of C are declared in the header of their file:\n{}", strange.join("\n"));
}

#[test]
fn circles_and_stray_declarations_of_c_are_found() {
    let file = |name: &str, text: &str| (name.to_string(), text.to_string());
    let a =
        file("a.c", "#include <math.h>\n#include \"a.h\"\n#include \"b.h\"\nSEXP vg_f(SEXP x) {\n  return vg_g(x); }");
    let b =
        [file("b.h", "SEXP vg_g(SEXP x); // of b"), file("b.c", "#include \"b.h\"\nSEXP vg_g(SEXP x) { return x; }")];
    let (all, strange) = includes(&[&[a.clone()], &b[..]].concat());
    assert!(all["a"].contains("b") && circles(&all).is_empty() && strange.is_empty());
    let (all, strange) = includes(&[&[a], &b[..], &[file("b.h", "#include \"a.h\"\nSEXP vg_f(SEXP x);")]].concat());
    assert_eq!(circles(&all).len(), 2);
    assert_eq!(strange, ["b declares vg_f of a"]);
}

#[test]
fn imports_are_found_in_all_forms() {
    let file = |name: &str, text: &str| (name.to_string(), text.to_string());
    let below = [file("r/mod.rs", ""), file("r/gc.rs", "use crate::r::{self, SEXP};"), file("array/handle/mod.rs", "")];
    let own = [
        "use crate::{r::{self, gc, *}, array::handle as h};",
        "let x = crate::r::gc::f(crate::array::handle::g::<u8>());",
        "use super::handle::{self, Handle};\nuse crate::r::gc;",
        "use other_crate::entries::x;\n// crate::entries::y\nuse crate::r::gc;\nuse crate::array::handle::{\n self\n};",
    ];
    for text in own {
        let all = imports(&[&below[..], &[file("array/lazy.rs", text)]].concat());
        assert!(["array::handle", "r::gc"].iter().all(|name| all["array::lazy"].contains(*name)), "{text}");
        assert!(upward(&all).is_empty() && circles(&all).is_empty());
    }
    let all = imports(&[&below[..], &[file("r/mod.rs", "use crate::array::handle;")]].concat());
    assert_eq!(upward(&all), ["r uses array::handle"]);
    let all = imports(&[&below[..], &[file("r/mod.rs", "fn f() { crate::r::gc::f() }")]].concat());
    assert_eq!(circles(&all).len(), 2);
}
