//! The C files of the package do not include each other in a circle, and declare each function in the header of its
//! file; headers that kernels and the cpu device share define nothing twice. The test is in the engine because the
//! bridge is a static library for R, whose own tests could not be linked without R.

mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use reading::circle;

/// What each file includes.
type Includes = BTreeMap<String, BTreeSet<String>>;

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
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
fn includes(files: &[(String, String)]) -> (Includes, Vec<String>) {
    let unit = |file: &str| file.split('.').next().unwrap().to_string(); // also of `NAME.h"`
    let mut all = Includes::new();
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
        let file: &String = defined.get(name)?;
        (*file != own).then(|| format!("{own} declares {name} of {file}"))
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
    assert_eq!(circle(&all).map(|way| way.join(" -> ")), None, "a circle of includes");
    assert!(strange.is_empty(), "functions of C are declared in the header of their file:\n{}", strange.join("\n"));
}

#[test]
fn circles_and_stray_declarations_of_c_are_found() {
    let file = |name: &str, text: &str| (name.to_string(), text.to_string());
    let a =
        file("a.c", "#include <math.h>\n#include \"a.h\"\n#include \"b.h\"\nSEXP vg_f(SEXP x) {\n  return vg_g(x); }");
    let b =
        [file("b.h", "SEXP vg_g(SEXP x); // of b"), file("b.c", "#include \"b.h\"\nSEXP vg_g(SEXP x) { return x; }")];
    let (all, strange) = includes(&[std::slice::from_ref(&a), &b[..]].concat());
    assert!(all["a"].contains("b") && circle(&all).is_none() && strange.is_empty());
    let (all, strange) = includes(&[&[a], &b[..], &[file("b.h", "#include \"a.h\"\nSEXP vg_f(SEXP x);")]].concat());
    assert_eq!(circle(&all).map(|way| way.len()), Some(2));
    assert_eq!(strange, ["b declares vg_f of a"]);
}

/// Explicit specialisations of constants in a header: g++ 16 defines them in every object that includes it.
fn specialised(header: &str) -> Vec<&str> {
    header.lines().filter(|line| line.starts_with("template <> constexpr ")).collect()
}

#[test]
fn headers_of_kernels_define_no_constant_in_every_object() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops");
    let mut seen = 0;
    for part in ["kernels", "src/loops"] {
        for entry in std::fs::read_dir(folder.join(part)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "h") {
                seen += 1;
                let text = std::fs::read_to_string(&path).unwrap();
                assert_eq!(specialised(&text), [""; 0], "{}: make them partial, as ORDERED is", path.display());
            }
        }
    }
    assert!(seen > 10, "only {seen} headers were found");
    assert_eq!(specialised("template <> constexpr bool QUICK<Sum<f64>> = true;\n").len(), 1);
    assert!(specialised("template <class D> constexpr bool QUICK<Sum<f64>, D> = true;\n").is_empty());
}
