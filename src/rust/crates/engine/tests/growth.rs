//! Allocations whose size depends on users' data are made by `memory::fallible` or as a block of host memory, which
//! return an error when memory is exhausted; `vec!`, `collect()` and the like abort the process. The exceptions are
//! listed here, with their bounds.

mod reading;

use std::collections::BTreeMap;
use std::path::Path;

use reading::{code, sources};

/// Calls that end the process where there is no memory.
const CALLS: [&str; 9] = [
    "with_capacity(",
    ".to_vec()",
    ".repeat(",
    ".resize(",
    ".collect()",
    ".collect::<",
    ".concat()",
    ".into_boxed_",
    ".reserve(",
];

/// Folders all of whose vectors have a length that a program's text decides, not its data.
const BY_TEXT: [(&str, &str); 8] = [
    ("engine/backend/cuda/codegen/", "the text of a kernel"),
    ("engine/backend/cuda/interpret/", "the instructions of a plan"),
    ("engine/backend/cpu/routine/", "the statements of a function"),
    ("compile/", "the statements of a function"),
    ("engine/backend/cuda/driver/library/", "files in folders"),
    ("engine/backend/cuda/user/", "the text and parameters of a kernel"),
    ("engine/kernel/", "the text of a kernel"),
    ("ops/table/", "the table of operations"),
];

/// How many such calls a file may have, and what bounds them.
#[rustfmt::skip]
const LISTED: [(&str, usize, &str); 75] = [
    ("bridge/array/device.rs", 1, "folders"),
    ("bridge/array/handle/reading.rs", 1, "a constant"),
    ("bridge/entries/compile.rs", 6, "arguments of a function"),
    ("bridge/entries/compute.rs", 1, "arrays of a call"),
    ("bridge/entries/cuda_graph.rs", 3, "arrays of a graph"),
    ("bridge/entries/dlpack.rs", 1, "axes"),
    ("bridge/entries/files.rs", 7, "tensors of a header"),
    ("bridge/entries/index.rs", 1, "axes"),
    ("bridge/entries/linear.rs", 3, "columns of a gram matrix, before there are too many"),
    ("bridge/entries/kernel.rs", 5, "arguments of a kernel"),
    ("bridge/entries/module.rs", 1, "folders"),
    ("bridge/entries/operators.rs", 2, "operands"),
    ("bridge/entries/reduce.rs", 1, "arrays of a call"),
    ("bridge/entries/session.rs", 1, "folders"),
    ("bridge/entries/shape.rs", 5, "arrays of a call, and axes"),
    ("bridge/array/handle/ordinary.rs", 1, "vectors that there are"),
    ("bridge/r/values.rs", 5, "dtypes, letters of a name, and strings of a call"),
    ("engine/array/explain.rs", 7, "the instructions of a plan"),
    ("engine/array/fourier.rs", 2, "extents"),
    ("engine/array/function_call.rs", 3, "the results of a function"),
    ("engine/array/gram.rs", 2, "columns"),
    ("engine/array/fact_cache.rs", 1, "arrays of a call"),
    ("engine/array/join.rs", 1, "arrays of a call"),
    ("engine/array/kernel_call.rs", 2, "arguments of a kernel"),
    ("engine/array/many.rs", 2, "results of a factorisation"),
    ("engine/array/mod.rs", 1, "operands"),
    ("engine/array/segments.rs", 2, "operands"),
    ("engine/array/strided.rs", 4, "axes"),
    ("engine/array/subscript.rs", 2, "axes, and up to MOST_EXCLUDED numbers"),
    ("engine/array/view.rs", 1, "axes"),
    ("engine/array/weighted_gram.rs", 7, "columns, and the inputs and outputs of a plan"),
    ("engine/backend/cpu/basis.rs", 4, "the rows of a part, and the columns of a basis"),
    ("engine/backend/cpu/blocks.rs", 9, "the instructions of a plan"),
    ("engine/backend/cpu/multiply.rs", 1, "reserved before"),
    ("engine/backend/cpu/ranks.rs", 1, "a constant"),
    ("engine/backend/cpu/gather.rs", 3, "the parts of a join"),
    ("engine/backend/cpu/sort.rs", 1, "bits of a key"),
    ("engine/backend/cpu/walk.rs", 1, "axes"),
    ("engine/backend/cuda/compile/cache.rs", 2, "a kernel"),
    ("engine/backend/cuda/compile/mod.rs", 4, "a kernel, and constants"),
    ("engine/backend/cuda/compile/nvrtc.rs", 8, "a kernel"),
    ("engine/backend/cuda/compile/prebuilt.rs", 2, "what is prebuilt"),
    ("engine/backend/cuda/context/core.rs", 1, "kernels that a message names"),
    ("engine/backend/cuda/context/flags.rs", 1, "launches under way"),
    ("engine/backend/cuda/context/hazards.rs", 2, "streams, and the buffers of a launch"),
    ("engine/backend/cuda/context/current_stream.rs", 1, "streams"),
    ("engine/backend/cuda/context/profile.rs", 1, "launches that are recorded"),
    ("engine/backend/cuda/context/transfer.rs", 2, "threads"),
    ("engine/backend/cuda/context/waits.rs", 1, "the outputs of a plan"),
    ("engine/backend/cuda/driver/devices.rs", 1, "a name"),
    ("engine/backend/cuda/context/peer.rs", 2, "copies between devices"),
    ("engine/backend/cuda/driver/functions.rs", 1, "functions of a table, in tests"),
    ("engine/backend/cuda/launch/submit.rs", 1, "a constant"),
    ("engine/backend/cuda/ops/rank.rs", 1, "a constant"),
    ("engine/backend/cuda/ops/reduce.rs", 3, "the outputs of a plan"),
    ("engine/backend/cuda/tiers/prebuilt_reductions.rs", 1, "what is in the package"),
    ("engine/backend/cuda/tiers/run.rs", 1, "the outputs of a plan"),
    ("engine/backend/dense.rs", 2, "operands of a task"),
    ("engine/device/async_copy.rs", 1, "copies under way"),
    ("engine/device/cuda_graph.rs", 6, "arrays of a graph"),
    ("engine/disk/direct.rs", 2, "a mebibyte, and a test"),
    ("engine/graph/builder.rs", 3, "the instructions of a plan"),
    ("engine/graph/evaluate.rs", 4, "arrays of a call"),
    ("engine/graph/held.rs", 2, "recorded operations that are dead"),
    ("engine/graph/kept.rs", 1, "recorded operations below those of a kernel"),
    ("engine/graph/node.rs", 4, "operands, and arrays that there are"),
    ("engine/interop/dlpack/import.rs", 1, "axes"),
    ("engine/interop/dlpack/mod.rs", 1, "axes"),
    ("engine/interop/files.rs", 5, "tensors of a call, and axes"),
    ("engine/interop/safetensors.rs", 8, "tensors of a header that was read by `try_reserve`, and axes"),
    ("engine/memory/mod.rs", 3, "the largest arrays, for a message"),
    ("engine/plan/mod.rs", 1, "the instructions of a plan"),
    ("engine/team/link.rs", 2, "members' connections"),
    ("ops/layout.rs", 6, "axes, and pieces of 1 MiB or more"),
    ("ops/operation.rs", 5, "the table of operations"),
];

/// `vec![x; n]`, of as many as n says.
fn repeated(code: &str) -> usize {
    code.match_indices("vec![")
        .filter(|(at, _)| code[*at..].lines().next().unwrap_or("").split(']').next().unwrap_or("").contains(';'))
        .count()
}

#[test]
fn what_users_data_make_long_may_be_refused() {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for crate_ in ["../../src", "../ops/src", "../compile/src", "src"] {
        sources(&engine.join(crate_), &mut files);
    }
    let mut found = BTreeMap::new();
    for path in files {
        let name = path.to_string_lossy().replace('\\', "/");
        let below = |folder: &str| name.split_once(folder).map(|(_, below)| below.to_string());
        let name = [("../../", "bridge"), ("../ops/", "ops"), ("../compile/", "compile"), ("", "engine")]
            .iter()
            .find_map(|(way, crate_)| Some(format!("{crate_}/{}", below(&format!("/crates/engine/{way}src/"))?)))
            .unwrap();
        let file = name.rsplit('/').next().unwrap();
        if file == "tests.rs" || file == "testing.rs" || file == "fallible.rs" || file.starts_with("differential") {
            continue;
        }
        if BY_TEXT.iter().any(|(folder, _)| name.starts_with(folder)) {
            continue;
        }
        let code = code(&std::fs::read_to_string(&path).unwrap());
        let calls = CALLS.iter().map(|call| code.matches(call).count()).sum::<usize>() + repeated(&code);
        if calls > 0 {
            found.insert(name, calls);
        }
    }
    let listed: BTreeMap<String, usize> = LISTED.iter().map(|(name, n, _)| (name.to_string(), *n)).collect();
    assert!(LISTED.iter().all(|(_, _, reason)| !reason.is_empty()));
    let mut wrong = Vec::new();
    for name in found.keys().chain(listed.keys().filter(|name| !found.contains_key(*name))) {
        let [calls, known] = [&found, &listed].map(|all| all.get(name).copied().unwrap_or(0));
        if calls != known {
            wrong.push(format!("{name} has {calls} calls, and {known} are listed"));
        }
    }
    assert!(
        wrong.is_empty(),
        "calls that end the process where there is no memory: use `memory::fallible` where users' data decide how long a vector is, or list \
         them with what bounds them.\n{}",
        wrong.join("\n")
    );
}
