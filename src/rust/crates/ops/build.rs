//! Compiles the operation table's expressions into the loops of the cpu device.
//!
//! NVRTC gets the same expressions and headers at run time (`verdigris-engine`, backend/cuda/codegen), so the two
//! devices cannot drift apart.

#[allow(dead_code)]
#[path = "src/dense.rs"]
mod dense;
#[allow(dead_code)]
#[path = "src/dtype.rs"]
mod dtype;
#[allow(dead_code)]
#[path = "src/reduction.rs"]
mod reduction;
#[allow(dead_code)]
#[path = "src/scan.rs"]
mod scan;
#[allow(dead_code)]
#[path = "src/table/mod.rs"]
mod table;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, thread};

use dense::Factoring;
use dtype::{Class, DType};
use reduction::Reduction;
use scan::Scan;
use table::{Op, Rule, BESSEL_HEADERS, COMMON_HEADERS, DISTRIBUTION_HEADERS, RANDOM_HEADERS};

/// This crate's folder, read at run time: a copied checkout may run a build script that was compiled in the original.
fn manifest() -> PathBuf {
    PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"))
}

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let kernels = manifest().join("kernels");
    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rerun-if-changed=src/loops/fold.h");
    println!("cargo:rerun-if-changed=src/loops/tree.h");
    println!("cargo:rerun-if-changed=src/loops/short_groups.h");
    println!("cargo:rerun-if-changed=src/loops/quick.h");
    println!("cargo:rerun-if-changed=src/loops/counts.h");
    println!("cargo:rerun-if-changed=src/loops/gammas.h");
    println!("cargo:rerun-if-changed=src/loops/lanes.h");
    println!("cargo:rerun-if-changed=src/table");
    println!("cargo:rerun-if-changed=src/dense.rs");
    println!("cargo:rerun-if-changed=src/dtype.rs");
    println!("cargo:rerun-if-changed=src/reduction.rs");
    println!("cargo:rerun-if-changed=src/loops/scan_tile.h");
    println!("cargo:rerun-if-changed=src/scan.rs");
    println!("cargo:rerun-if-env-changed=CXX");

    let ops: Vec<&Op> = table::TABLES.iter().flat_map(|(_, rows)| rows.iter()).collect();
    write_ids(&out, &ops);
    write_headers(&out, &kernels);

    let mut declared = String::new();
    let mut units = Vec::new();
    for (subject, rows) in table::TABLES {
        units.push((format!("loops_{subject:?}").to_lowercase(), loops(rows, subject.gains_by_width(), &mut declared)));
    }
    units.push(("memory".into(), memory(&mut declared)));
    units.push(("reductions".into(), reductions("", &mut declared) + &scans("", &mut declared)));
    if has_wide() {
        units.push((WIDE.into(), reductions("_wide", &mut declared) + &scans("_wide", &mut declared)));
    }
    units.push(("lanes".into(), lanes(&ops, &mut declared)));
    units.push(("dense".into(), dense_matrices(&mut declared)));
    write_tables(&out, &ops, &declared);

    // One compiler process per unit, in parallel: the special functions alone take as long as the rest.
    let jobs: Vec<_> = units
        .into_iter()
        .map(|(name, text)| {
            let (out, kernels) = (out.clone(), kernels.clone());
            thread::spawn(move || compile(&out, &kernels, &name, &text))
        })
        .collect();
    for job in jobs {
        job.join().expect("the C++ compiler runs");
    }
}

/// The reductions and scans are compiled a second time for AVX2 and FMA on x86-64; the processor decides at run time.
/// Both versions round alike: the compiler fuses no multiply-add that the source does not ask for.
const WIDE: &str = "reductions_wide";

fn has_wide() -> bool {
    env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64")
}

fn compile(out: &Path, kernels: &Path, name: &str, body: &str) {
    let mut text = String::new();
    for header in [COMMON_HEADERS, DISTRIBUTION_HEADERS, BESSEL_HEADERS, RANDOM_HEADERS].concat() {
        let _ = writeln!(text, "#include \"{header}\"");
    }
    text.push_str("#include \"fold.h\"\n#include \"quick.h\"\n#include \"gammas.h\"\n");
    text.push_str(CLONES);
    text.push_str(body);
    let source = out.join(format!("{name}.cpp"));
    if fs::read_to_string(&source).ok().as_deref() != Some(&text) {
        fs::write(&source, text).expect("OUT_DIR is writable");
    }
    let mut build = cc::Build::new();
    if name == WIDE {
        build.flag("-mavx2").flag("-mfma");
    }
    build
        .cpp(true)
        .cpp_link_stdlib(None)
        .std("c++14")
        .include(kernels)
        .include(manifest().join("src/loops"))
        .opt_level(3)
        .debug(false)
        .warnings(false)
        .flag_if_supported("-ffp-contract=off")
        .flag_if_supported("-fno-math-errno")
        .flag_if_supported("-fno-trapping-math")
        .flag_if_supported("-Wno-psabi")
        .flag_if_supported("-fno-exceptions")
        .flag_if_supported("-fno-rtti")
        .file(source)
        .compile(&format!("verdigris_{name}"));
}

/// Loops are also compiled for AVX2, by `target_clones` if the compiler and the C library support it; the choice is
/// made when the library is loaded. Both versions round alike: AVX2 alone has no fused multiply-add.
const CLONES: &str = r#"
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC__)
#define VG_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define VG_CLONES
#endif
"#;

/// Operations that have a faster loop over a block (`quick.h`, `counts.h`, `gammas.h`), with the same bits as the
/// table's function applied to each element.
fn quick(op: &Op, class: Class) -> Option<&'static str> {
    match (op.name, class) {
        ("mod", Class::F64) => Some("mod_block(o, a, b, n, w)"),
        ("intdiv", Class::F64) => Some("intdiv_block(o, a, b, n)"),
        ("div", Class::C128) => Some("div_block(o, a, b, n)"),
        ("rgamma", Class::F64) => Some("gamma_block(o, a, b, c, i, n, w)"),
        ("rchisq", Class::F64) => Some("chisq_block(o, a, b, i, n, w)"),
        ("rbeta", Class::F64) => Some("beta_block(o, a, b, c, i, n, w)"),
        ("rt", Class::F64) => Some("t_block(o, a, b, i, n, w)"),
        ("weibull_draw", Class::F64) => Some("weibull_block(o, a, b, c, n, w)"),
        ("rpois", Class::F64) => Some("poisson_block(o, a, b, i, n, w)"),
        ("rbinom", Class::F64) => Some("binomial_block(o, a, b, c, i, n, w)"),
        _ => None,
    }
}

/// A loop over a block for each operation and class. If `wide`, the loops are also compiled for AVX2.
fn loops(rows: &[Op], wide: bool, declared: &mut String) -> String {
    let mut text = String::new();
    for op in rows {
        for class in Class::ALL {
            let Some(definition) = op.define(class) else { continue };
            let name = op.function(class);
            let result = op.result_class(class).c_type();
            let _ = writeln!(text, "{definition}");
            let mut operands = String::new();
            let mut arguments = String::new();
            for k in 0..op.arity as usize {
                let (c, letter) = (op.operand_class(k, class).c_type(), table::LETTERS[k]);
                let _ = write!(operands, "const {c}* __restrict {letter} = (const {c}*){letter}_; ");
                let _ = write!(arguments, "{letter}[k], ");
            }
            let clones = if wide || quick(op, class).is_some() { "VG_CLONES " } else { "" };
            let block = match quick(op, class) {
                Some(block) => block.to_owned(),
                None => format!("for (i32 k = 0; k < n; k++) o[k] = {name}({arguments}i + k, w)"),
            };
            let _ = writeln!(
                text,
                "extern \"C\" {clones}void vg_{name}(void* o_, const void* a_, const void* b_, const void* c_, const void* d_, i64 i, i32 n, u32* w_) {{\n  \
                 {operands}{result}* __restrict o = ({result}*)o_; u32 w = 0;\n  \
                 {block};\n  *w_ |= w;\n}}"
            );
            let _ = writeln!(
                declared,
                "fn vg_{name}(o: *mut c_void, a: *const c_void, b: *const c_void, c: *const c_void, d: *const c_void, i: i64, n: i32, w: *mut u32);"
            );
        }
    }
    text
}

/// Loads and stores between storage and registers: contiguous, strided, and at given positions.
fn memory(declared: &mut String) -> String {
    let mut text = String::new();
    for dtype in DType::ALL {
        let (d, s, c) = (dtype.name(), dtype.c_type(), dtype.class().c_type());
        let _ = writeln!(
            text,
            "extern \"C\" VG_CLONES void vg_load_{d}(void* o_, const void* p_, i64 i, i32 n) {{ {c}* __restrict o = ({c}*)o_; const {s}* __restrict p = (const {s}*)p_ + i; for (i32 k = 0; k < n; k++) o[k] = load_{d}(p, k); }}\n\
             extern \"C\" VG_CLONES void vg_stride_{d}(void* o_, const void* p_, i64 i, i64 step, i32 n) {{ {c}* __restrict o = ({c}*)o_; const {s}* __restrict p = (const {s}*)p_ + i; if (step == 0) {{ const {c} same = load_{d}(p, 0); for (i32 k = 0; k < n; k++) o[k] = same; return; }} for (i32 k = 0; k < n; k++) o[k] = load_{d}(p, k * step); }}\n\
             extern \"C\" VG_CLONES void vg_pick_{d}(void* o_, const void* p_, const i64* __restrict at, i32 n) {{ {c}* __restrict o = ({c}*)o_; const {s}* __restrict p = (const {s}*)p_; for (i32 k = 0; k < n; k++) o[k] = load_{d}(p, at[k]); }}\n\
             extern \"C\" VG_CLONES void vg_gather_{d}(void* o_, const void* p_, i64 m, const i64* __restrict at, i32 n) {{ {c}* __restrict o = ({c}*)o_; const {s}* __restrict p = (const {s}*)p_; for (i32 k = 0; k < n; k++) o[k] = pick_{d}(p, m, at[k]); }}\n\
             extern \"C\" VG_CLONES void vg_store_{d}(void* p_, const void* o_, i64 i, i32 n) {{ const {c}* __restrict o = (const {c}*)o_; {s}* __restrict p = ({s}*)p_ + i; for (i32 k = 0; k < n; k++) store_{d}(p, k, o[k]); }}"
        );
        let _ = writeln!(
            declared,
            "fn vg_load_{d}(o: *mut c_void, p: *const c_void, i: i64, n: i32);\n\
             fn vg_stride_{d}(o: *mut c_void, p: *const c_void, i: i64, step: i64, n: i32);\n\
             fn vg_pick_{d}(o: *mut c_void, p: *const c_void, at: *const i64, n: i32);\n\
             fn vg_gather_{d}(o: *mut c_void, p: *const c_void, m: i64, at: *const i64, n: i32);\n\
             fn vg_store_{d}(p: *mut c_void, o: *const c_void, i: i64, n: i32);"
        );
    }
    text
}

/// Plain C functions around the accumulators of `reduce.h`; they take elements in the order of `fold.h` and `tree.h`.
/// All are compiled twice (`WIDE`), with different suffixes.
fn reductions(suffix: &str, declared: &mut String) -> String {
    let mut text = String::from("#include \"short_groups.h\"\n");
    for r in Reduction::ALL {
        for class in Class::ALL.into_iter().filter(|&c| r.serves(c)) {
            let t = class.c_type();
            let a = format!("{}<{t}>", r.accumulator());
            let mut function = |name: &str, result: &str, parameters: &[(&str, &str)], body: &str| {
                let name = format!("vg_{name}_{}_{t}{suffix}", r.accumulator().to_lowercase());
                let list: Vec<String> = parameters.iter().map(|(c_type, p)| format!("{c_type} {p}")).collect();
                let _ = writeln!(text, "extern \"C\" {result} {name}({}) {{ {body} }}", list.join(", "));
                let list: Vec<String> = parameters.iter().map(|(c, p)| format!("{p}: {}", rust_type(c))).collect();
                let result = if result == "void" { String::new() } else { format!(" -> {}", rust_type(result)) };
                let _ = writeln!(declared, "fn {name}({}){result};", list.join(", "));
            };
            let (x, n, narm) = (("const void*", "x"), ("i32", "n"), ("i32", "narm"));
            let acc = ("void*", "a");
            function("size", "i32", &[], &format!("return sizeof({a});"));
            function("start", "void", &[acc, n], &format!("for (i32 k = 0; k < n; k++) (({a}*)a)[k] = {a}::start();"));
            function(
                "coded",
                "void",
                &[acc, ("i64*", "stamps"), x, ("const i32*", "codes"), n, ("i32", "groups"), narm],
                &format!("fold_coded(({a}*)a, stamps, (const {t}*)x, codes, n, groups, narm != 0);"),
            );
            function(
                "merge",
                "void",
                &[acc, ("const void*", "b"), n],
                &format!("for (i32 k = 0; k < n; k++) {a}::merge((({a}*)a)[k], ((const {a}*)b)[k]);"),
            );
            function(
                "finish",
                "u32",
                &[("void*", "o"), ("const void*", "a"), n],
                &format!("u32 w = 0; for (i32 k = 0; k < n; k++) (({a}::value*)o)[k] = {a}::finish(((const {a}*)a)[k], w); return w;"),
            );
            function(
                "segments",
                "void",
                &[
                    ("void*", "o"),
                    acc,
                    x,
                    ("const void*", "offsets"),
                    ("i32", "wide"),
                    ("i32", "m"),
                    ("i64", "from"),
                    ("i64", "to"),
                    narm,
                ],
                &format!(
                    "const auto fold = [&](auto p) {{ \
                     fold_segments(({a}::value*)o, ({a}*)a, (const {t}*)x, p, m, from, to, narm != 0); }}; \
                     if (wide) fold((const i64*)offsets); else fold((const i32*)offsets);"
                ),
            );
            if r.is_exact(class) {
                function(
                    "fold",
                    "void",
                    &[acc, x, ("i64", "i"), n, narm],
                    &format!("fold(*({a}*)a, (const {t}*)x, i, n, narm != 0);"),
                );
                function(
                    "rows",
                    "void",
                    &[acc, x, ("i64", "i"), ("i32", "rows"), ("i32", "inner"), narm],
                    &format!("fold_rows(({a}*)a, (const {t}*)x, i, rows, inner, narm != 0);"),
                );
                function(
                    "short",
                    "u32",
                    &[("void*", "o"), x, ("i32", "length"), n, narm],
                    &format!(
                        "u32 w = 0; fold_short<{a}>(({a}::value*)o, (const {t}*)x, length, n, narm != 0, w); return w;"
                    ),
                );
                continue;
            }
            let row = format!("Row<{a}, {t}>");
            let state = ("void*", "row");
            function("bytes", "i32", &[], &format!("return 2 * sizeof({row});"));
            let special = ("i32", "special");
            function("begin", "void", &[state, n, special], &format!("(({row}*)row)->start(n, special != 0);"));
            function(
                "walk",
                "void",
                &[state, ("i64", "place"), x, n, ("i32", "lanes"), ("i32", "fours"), narm],
                &format!("walk<{a}>(*({row}*)row, place, (const {t}*)x, n, lanes, fours != 0, narm != 0);"),
            );
            function(
                "collapse",
                "i32",
                &[state, acc, ("i32", "lanes"), ("i32", "width"), special],
                &format!("return collapse(({row}*)row, ({a}*)a, lanes, width, special != 0);"),
            );
            function(
                "groups",
                "u32",
                &[("void*", "o"), x, ("i32", "first"), ("i32", "length"), n, ("i32", "lanes"), narm],
                &format!("u32 w = 0; short_groups<{a}>(({a}::value*)o, (const {t}*)x, first, length, n, lanes, narm != 0, w); return w;"),
            );
        }
    }
    text
}

fn rust_type(c: &str) -> &'static str {
    match c {
        "void*" => "*mut c_void",
        "const void*" => "*const c_void",
        "const i32*" => "*const i32",
        "i64*" => "*mut i64",
        "i32" => "i32",
        "i64" => "i64",
        "u32" => "u32",
        other => unreachable!("{other}"),
    }
}

/// Plain C functions around the states of `scan.h` and `scan_tile.h`: each scans a block or a tile and updates the
/// state.
fn scans(suffix: &str, declared: &mut String) -> String {
    let mut text = String::from("#include \"scan_tile.h\"\n");
    for scan in Scan::ALL {
        for class in Class::ALL.into_iter().filter(|&c| scan.serves(c)) {
            let t = class.c_type();
            let a = format!("{}<{t}>", scan.state());
            let name = format!("{}_{t}{suffix}", scan.name());
            let (state, start, next) = match scan.is_exact(class) {
                true => (a.clone(), format!("*({a}*)a = {a}::start()"), "scan_block"),
                false => (format!("Scan<{a}>"), format!("((Scan<{a}>*)a)->start()"), "scan_tile"),
            };
            let _ = writeln!(
                text,
                "extern \"C\" i32 vg_bytes_{name}() {{ return sizeof({state}); }}\n\
                 extern \"C\" void vg_start_{name}(void* a) {{ {start}; }}\n\
                 extern \"C\" u32 vg_scan_{name}(void* a, void* o, const void* x, i32 n) {{ return {next}(*({state}*)a, ({t}*)o, (const {t}*)x, n); }}"
            );
            let _ = writeln!(
                declared,
                "fn vg_bytes_{name}() -> i32;\n\
                 fn vg_start_{name}(a: *mut c_void);\n\
                 fn vg_scan_{name}(a: *mut c_void, o: *mut c_void, x: *const c_void, n: i32) -> u32;"
            );
        }
    }
    text
}

/// Functions that only routines call: those of `lanes.h`, and draws with a key of its own for each lane.
fn lanes(ops: &[&Op], declared: &mut String) -> String {
    let mut text = String::from("#include \"lanes.h\"\n");
    for op in ops.iter().filter(|op| op.rule == Rule::Drawn) {
        let name = op.function(Class::F64);
        let definition = op.define(Class::F64).expect("draws with parameters are in double");
        let parameters: String = (1..op.arity as usize).map(|k| format!("{}[k], ", table::LETTERS[k])).collect();
        let _ = writeln!(
            text,
            "{definition}\n\
             extern \"C\" void vg_lanes_{name}(f64* __restrict o, i64 key, i64 i, const i32* __restrict home, i32* __restrict count, const f64* __restrict b, const f64* __restrict c, const f64* __restrict d, i32 n, u32* w_) {{\n  \
             u32 w = 0;\n  \
             for (i32 k = 0; k < n; k++) {{ o[k] = {name}(key_of_number(key, count[k]), {parameters}i + home[k], w); count[k] = (i32)((u32)count[k] + 1u); }}\n  \
             *w_ |= w;\n}}"
        );
        let _ = writeln!(
            declared,
            "fn vg_lanes_{name}(o: *mut c_void, key: i64, i: i64, home: *const i32, count: *mut i32, b: *const c_void, c: *const c_void, d: *const c_void, n: i32, w: *mut u32);"
        );
    }
    text
}

/// The functions of `dense.h`, applied to a range of a job's matrices.
fn dense_matrices(declared: &mut String) -> String {
    let mut text = String::from("#include \"dense.h\"\n");
    for (factoring, class) in each_factoring() {
        let (name, t) = (factoring_name(factoring, class), class.c_type());
        let _ = writeln!(
            text,
            "extern \"C\" VG_CLONES void {name}(const DenseJob* job, void* w) {{\n  Alone t;\n  \
             for (i64 k = job->from; k < job->to; k++) ((i32*)job->status)[k] = Dense<{}>::run(t, *job, k, ({t}*)w);\n}}",
            factoring.name()
        );
        let _ = writeln!(declared, "fn {name}(job: *const crate::dense::Job, w: *mut c_void);");
    }
    text
}

fn each_factoring() -> impl Iterator<Item = (Factoring, Class)> {
    Factoring::ALL.into_iter().flat_map(|f| Class::ALL.into_iter().filter(move |&c| f.serves(c)).map(move |c| (f, c)))
}

fn factoring_name(factoring: Factoring, class: Class) -> String {
    format!("vg_dense_{}_{}", factoring.name().to_lowercase(), class.c_type())
}

/// Writes `headers.rs`: the texts of `kernels/`, for NVRTC to include.
fn write_headers(out: &Path, kernels: &Path) {
    let mut files: Vec<PathBuf> =
        fs::read_dir(kernels).expect("kernels/ is there").map(|f| f.expect("a file").path()).collect();
    files.sort();
    let mut text = String::from("pub static HEADERS: &[(&str, &str)] = &[\n");
    for file in files {
        let name = file.file_name().expect("a file has a name");
        let _ = writeln!(text, "({name:?}, include_str!({file:?})),");
    }
    text.push_str("];\n");
    fs::write(out.join("headers.rs"), text).expect("OUT_DIR is writable");
}

/// Writes `id.rs`: a constant for every row, in the table's order.
fn write_ids(out: &Path, ops: &[&Op]) {
    let mut text = String::new();
    for (k, op) in ops.iter().enumerate() {
        let _ = writeln!(text, "pub const {}: OpId = OpId({k});", op.name.to_uppercase());
    }
    fs::write(out.join("id.rs"), text).expect("OUT_DIR is writable");
}

/// Writes `loops.rs`: tables of the compiled functions by operation, class and dtype.
fn write_tables(out: &Path, ops: &[&Op], declared: &str) {
    let mut text = format!("unsafe extern \"C\" {{\n{declared}}}\n");
    let _ = writeln!(text, "pub static LOOPS: [[Option<Loop>; {}]; {}] = [", Class::ALL.len(), ops.len());
    for op in ops {
        let row: Vec<String> = Class::ALL
            .into_iter()
            .map(|c| match op.define(c) {
                Some(_) => format!("Some(vg_{} as Loop)", op.function(c)),
                None => "None".into(),
            })
            .collect();
        let _ = writeln!(text, "[{}],", row.join(", "));
    }
    text.push_str("];\n");
    let _ = writeln!(text, "pub static NUMBERED: [Option<Numbered>; {}] = [", ops.len());
    for op in ops {
        let name = op.function(Class::F64);
        let row = if op.rule == Rule::Drawn { format!("Some(vg_lanes_{name} as Numbered)") } else { "None".into() };
        let _ = writeln!(text, "{row},");
    }
    text.push_str("];\n");
    for (table, kind) in
        [("LOADS", "Load"), ("STRIDES", "Stride"), ("PICKS", "Pick"), ("GATHERS", "Gather"), ("STORES", "Store")]
    {
        let row: Vec<String> =
            DType::ALL.iter().map(|d| format!("vg_{}_{} as {kind}", kind.to_lowercase(), d.name())).collect();
        let _ = writeln!(text, "pub static {table}: [{kind}; {}] = [{}];", row.len(), row.join(", "));
    }
    let kinds: &[(&str, &str)] = if has_wide() { &[("", ""), ("_WIDE", "_wide")] } else { &[("", "")] };
    for (table, suffix) in kinds {
        write_folds(&mut text, table, suffix);
        write_scans(&mut text, table, suffix);
    }
    let _ = writeln!(text, "const HAS_WIDE: bool = {};", has_wide());
    if !has_wide() {
        text.push_str("use {FOLDS as FOLDS_WIDE, SCANS as SCANS_WIDE};\n");
    }
    let (classes, factorings) = (Class::ALL.len(), Factoring::ALL.len());
    let _ = writeln!(text, "pub static FACTORINGS: [[Option<Factor>; {classes}]; {factorings}] = [");
    for factoring in Factoring::ALL {
        let row = Class::ALL.into_iter().map(|class| match factoring.serves(class) {
            true => format!("Some({} as Factor)", factoring_name(factoring, class)),
            false => "None".into(),
        });
        let _ = writeln!(text, "[{}],", row.collect::<Vec<String>>().join(", "));
    }
    text.push_str("];\n");
    fs::write(out.join("loops.rs"), text).expect("OUT_DIR is writable");
}

/// Writes a table of the scans' functions, by scan and class.
fn write_scans(text: &mut String, table: &str, suffix: &str) {
    let _ = writeln!(text, "static SCANS{table}: [[Option<Scanning>; {}]; {}] = [", Class::ALL.len(), Scan::ALL.len());
    for scan in Scan::ALL {
        let row = Class::ALL.into_iter().map(|class| {
            if !scan.serves(class) {
                return "None".into();
            }
            let n = format!("{}_{}{suffix}", scan.name(), class.c_type());
            // 256 threads with 128 bytes each, as in codegen/scan.rs.
            let tile = if scan.is_exact(class) { "None".into() } else { format!("Some({})", 256 * 128 / class.size()) };
            format!("Some(Scanning {{ bytes: vg_bytes_{n}, start: vg_start_{n}, scan: vg_scan_{n}, tile: {tile} }})")
        });
        let _ = writeln!(text, "[{}],", row.collect::<Vec<String>>().join(", "));
    }
    text.push_str("];\n");
}

/// Writes a table of the reductions' functions, by reduction and class.
fn write_folds(text: &mut String, table: &str, suffix: &str) {
    let (classes, reductions) = (Class::ALL.len(), Reduction::ALL.len());
    let _ = writeln!(text, "static FOLDS{table}: [[Option<Folding>; {classes}]; {reductions}] = [");
    for r in Reduction::ALL {
        let row = Class::ALL.into_iter().map(|class| {
            if !r.serves(class) {
                return "None".into();
            }
            let fields = |names: &[&str]| {
                let field =
                    |name| format!("{name}: vg_{name}_{}_{}{suffix}", r.accumulator().to_lowercase(), class.c_type());
                names.iter().map(field).collect::<Vec<String>>().join(", ")
            };
            let adding = match r.is_exact(class) {
                true => format!("Adding::Any(InAnyOrder {{ {} }})", fields(&["fold", "rows", "short"])),
                false => {
                    let fours = r == Reduction::Var && class == Class::F64;
                    format!(
                        "Adding::Tree(InTree {{ {}, fours: {fours} }})",
                        fields(&["bytes", "begin", "walk", "collapse", "groups"])
                    )
                }
            };
            format!(
                "Some(Folding {{ {}, adding: {adding} }})",
                fields(&["size", "start", "coded", "merge", "finish", "segments"])
            )
        });
        let _ = writeln!(text, "[{}],", row.collect::<Vec<String>>().join(", "));
    }
    text.push_str("];\n");
}
