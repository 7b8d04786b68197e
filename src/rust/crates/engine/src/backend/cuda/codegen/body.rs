//! The parts that every kernel of a plan contains: `Params`, `fetch`, which loads a pack of each input, and `compute`,
//! which evaluates one element.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{parameters, routine, Variant};
use crate::backend::cuda::codegen::notes::{FlagBits, Noted};
use crate::plan::{Access, Call, Instruction, Plan, Register};
use verdigris_compile::{Failed, Interned};
use verdigris_ops::dtype::Class;
use verdigris_ops::{Op, OpId, BESSEL_HEADERS, COMMON_HEADERS, DISTRIBUTION_HEADERS, RANDOM_HEADERS};

/// Elements of a pack, which a thread loads and stores at once: enough for accesses of 16 bytes, more where dtypes of
/// different sizes meet, and 1 where an element is a long computation.
pub fn pack_size(plan: &Plan) -> usize {
    if is_heavy(plan) {
        return 1;
    }
    let moved = || {
        let inputs = plan.inputs.iter().filter(|i| i.access.follows()).map(|i| i.dtype.size());
        inputs.chain(plan.outputs.iter().map(|(_, d)| d.size()))
    };
    let widest = moved().max().unwrap_or(16);
    let narrowest = moved().min().unwrap_or(16);
    (16 / widest).max((16 / narrowest).min(4))
}

/// Packs that a thread loads before it computes, at most `most`: enough bytes in flight to hide the latency of memory.
pub fn packs_in_flight(plan: &Plan, most: usize) -> usize {
    if most_in_flight(plan) < pack_size(plan) {
        return 1;
    }
    match plan.inputs.iter().filter(|i| i.access.follows()).count() {
        0 | 1 => most,
        2 => most.min(2),
        _ => 1,
    }
}

/// Elements whose code may be unrolled in a thread. Much unrolled code makes compilation slow, and long code hides the
/// latency without unrolling.
pub fn most_in_flight(plan: &Plan) -> usize {
    const MOST_CODE: usize = 48;
    MOST_CODE / cost(plan).max(1)
}

/// Rough code size of an element, in units of an addition.
fn cost(plan: &Plan) -> usize {
    let of = |instruction: &Instruction| match instruction {
        Instruction::Apply { op, class, .. } => op.code(*class),
        Instruction::Gather { .. } => 2,
        Instruction::Call(call) => call.routine.cost(),
        Instruction::Load(_) | Instruction::Scalar(..) | Instruction::Result { .. } => 0,
    };
    plan.code.iter().map(of).sum()
}

/// Whether an element takes so many instructions that the kernel is bound by compute. Unrolling over a pack would then
/// only slow down compilation.
pub fn is_heavy(plan: &Plan) -> bool {
    cost(plan) >= 100
}

/// The position of each warning instruction's bits in the flag words, and the number of words. Records of failures
/// follow all bits and are aligned to 64 bits.
pub fn flag_bits(plan: &Plan) -> (Vec<(Register, FlagBits)>, usize) {
    let (mut bits, mut word, mut shift) = (Vec::new(), 0, 0);
    for (k, instruction) in plan.code.iter().enumerate() {
        let mut add = |op: OpId| {
            let width = op.row().flag.width();
            if shift + width > 32 {
                (word, shift) = (word + 1, 0);
            }
            bits.push((k as Register, FlagBits { word, shift, noted: Noted::Row(op) }));
            shift += width;
        };
        match instruction {
            Instruction::Apply { op, class, .. } if op.may_warn(*class) => add(*op),
            Instruction::Call(call) => call.routine.notes.iter().for_each(|&op| add(op)),
            _ => {}
        }
    }
    let mut words = if bits.is_empty() { 0 } else { word + 1 };
    for (k, instruction) in plan.code.iter().enumerate() {
        if let Instruction::Call(call) = instruction {
            if !call.routine.failures.is_empty() {
                let word = words.next_multiple_of(2);
                bits.push((k as Register, FlagBits { word, shift: 0, noted: Noted::Failures(call.routine) }));
                words = word + 2 * Failed::WORDS as u32;
            }
        }
    }
    (bits, words as usize)
}

/// Flag words of bits (without failure records), which each thread keeps in registers; at least one.
fn words_of_bits(bits: &[(Register, FlagBits)]) -> u32 {
    let words = bits.iter().filter(|(_, bits)| matches!(bits.noted, Noted::Row(_))).map(|(_, bits)| bits.word + 1);
    words.max().unwrap_or(1)
}

/// The source up to and including `compute`, with headers, for packs of `v` elements.
pub fn text(plan: &Plan, variant: Variant, v: usize) -> String {
    let mut text = String::with_capacity(4096);
    for (headers, are_needed) in [
        (COMMON_HEADERS, true),
        (DISTRIBUTION_HEADERS, has_row(plan, Op::is_distribution)),
        (BESSEL_HEADERS, has_row(plan, Op::is_bessel)),
        (RANDOM_HEADERS, has_row(plan, Op::is_random)),
    ] {
        for header in headers.iter().filter(|_| are_needed) {
            let _ = writeln!(text, "#include \"{header}\"");
        }
    }
    if plan.calls() {
        text.push_str("#include \"routine.cuh\"\n");
    }
    text.push_str("#include \"launch.cuh\"\n");
    text + &source_without_headers(plan, variant, v, None)
}

/// Whether the plan or its epilogue uses an operation for which `is` holds.
fn has_row(plan: &Plan, is: fn(&Op) -> bool) -> bool {
    let has = |i: &Instruction| match i {
        Instruction::Apply { op, .. } => is(op.row()),
        Instruction::Call(call) => routine::has_row(call.routine.0, is),
        _ => false,
    };
    plan.code.iter().any(has) || plan.epilogue.as_ref().is_some_and(|after| has_row(&after.plan, is))
}

/// `text` without headers, so that it can be placed in a namespace. If a register is `given`, its values are already in
/// `In` when `compute` is called, and instructions that only it needs are left out.
pub fn source_without_headers(plan: &Plan, variant: Variant, v: usize, given: Option<Register>) -> String {
    let mut text = String::with_capacity(4096);
    let mut defined = BTreeSet::new();
    let mut define = |op: OpId, class: Class| {
        if defined.insert((op.0, class)) {
            let definition = op.row().define(class).expect("the type rules allow only classes that have an expression");
            let _ = writeln!(text, "{definition}");
        }
    };
    for instruction in &plan.code {
        match instruction {
            Instruction::Apply { op, class, .. } => define(*op, *class),
            Instruction::Call(call) => routine::rows(call.routine.0, &mut define),
            _ => {}
        }
    }
    for (k, (routine, _)) in routines(plan).into_iter().enumerate() {
        text += &routine::define(routine.0, &routine::name(routine.0, k));
    }
    let _ = writeln!(text, "typedef {} idx;", if variant.wide { "i64" } else { "u32" });
    let _ = writeln!(text, "constexpr int V = {v}, W = {};", words_of_bits(&flag_bits(plan).0));
    text += &parameters::declare(plan, variant);
    text += &fetch(plan, variant, v, given);
    text += &compute(plan, variant, given);
    text
}

/// `struct In` and `fetch`, which loads elements `i .. i + V` of every input as stored, where i = `from + ahead` (two
/// arguments, so that several packs are addressed by one base and constant offsets). Elements past the end are replaced
/// by the last one, so that they raise no warning of their own; `fetch<true>` requires that the pack does not reach
/// past the end.
fn fetch(plan: &Plan, variant: Variant, v: usize, given: Option<Register>) -> String {
    let mut fields = String::new();
    let mut code = String::new();
    for (k, input) in plan.inputs.iter().enumerate() {
        let (c, packed) = (input.dtype.c_type(), parameters::packed(k));
        if variant.tiled.has(k) {
            let _ = write!(fields, " {c} x{k}[1];"); // filled from the tile
            continue;
        }
        let _ = match input.access {
            Access::Broadcast => write!(fields, " {c} x{k}[1];"),
            // `compute` reads these: only it knows the position
            Access::Gathered => continue,
            _ => write!(fields, " {c} x{k}[V];"),
        };
        let _ = match input.access {
            Access::Broadcast => writeln!(code, "  x.x{k}[0] = p.x{k}[0];"),
            Access::Linear if v == 1 => {
                writeln!(code, "  x.x{k}[0] = WHOLE ? (p.x{k} + from)[ahead] : p.x{k}[within(i, last)];")
            }
            Access::Linear => {
                let also = if variant.unaligned { format!(" && {packed}") } else { String::new() };
                writeln!(
                    code,
                    "  if (full{also}) read_pack<V>(p.x{k} + from + ahead, x.x{k});\n  \
                     else {{\n    #pragma unroll\n    for (int k = 0; k < V; k++) x.x{k}[k] = p.x{k}[within(i + k, last)];\n  }}"
                )
            }
            // indices past the end need no check: modulo the length they are valid
            Access::Recycled => writeln!(
                code,
                "  {{\n    idx j = i - quotient(i, p.length{k}) * (idx)p.length{k}.d;\n    \
                 if ({packed}) read_pack<V>(p.x{k} + j, x.x{k});\n    \
                 else {{\n      #pragma unroll\n      for (int k = 0; k < V; k++) {{ x.x{k}[k] = p.x{k}[j]; j = j + 1 == (idx)p.length{k}.d ? 0 : j + 1; }}\n    }}\n  }}"
            ),
            Access::Strided(rank) => {
                let offset = offset(k, rank);
                writeln!(
                    code,
                    "  if (full && {packed}) {{ const idx e = i; {offset} read_pack<V>(p.x{k} + at, x.x{k}); }}\n  \
                     else {{\n    #pragma unroll\n    for (int k = 0; k < V; k++) {{ const idx e = within(i + k, last); {offset} x.x{k}[k] = p.x{k}[at]; }}\n  }}"
                )
            }
            Access::Gathered => unreachable!("it has no field"),
        };
    }
    for (r, instruction) in plan.code.iter().enumerate() {
        if let Some((pack, key)) = draws(plan, instruction) {
            let _ = write!(fields, " {} d{r}[V];", plan.class(r as Register).c_type());
            let _ = writeln!(code, "  {pack}<V>(p.s{key}, (i64)i, x.d{r});");
        }
    }
    if let Some(register) = given {
        let _ = write!(fields, " {} given[V];", plan.class(register).c_type());
    }
    format!(
        "typedef {} step;\nVG_FN idx within(idx i, idx last) {{ return i < last ? i : last; }}\nstruct In {{{fields} }};\n\
         template <bool WHOLE = false> VG_FN void fetch(const Params& p, idx from, In& x, i64 ahead = 0) {{\n  \
         const idx i = from + (idx)ahead, last = (idx)(p.n - 1); const bool full = WHOLE || i + V <= (idx)p.n; (void)last; (void)full;\n{code}}}\n",
        if variant.wide { "i64" } else { "i32" }
    )
}

/// C code that computes `at`, the offset of element `e` in strided input `k`. `rank` is at least 1.
pub fn offset(k: usize, rank: u8) -> String {
    let mut offset = String::from("idx q = e; step at = 0;");
    for axis in 0..rank as usize - 1 {
        let _ = write!(
            offset,
            " {{ idx t = quotient(q, p.extent{k}[{axis}]); at += (step)(q - t * (idx)p.extent{k}[{axis}].d) * p.stride{k}[{axis}]; q = t; }}"
        );
    }
    let _ = write!(offset, " at += (step)q * p.stride{k}[{}];", rank - 1);
    offset
}

/// The distinct routines that a plan calls, each with the register of its first call.
fn routines(plan: &Plan) -> Vec<(Interned, Register)> {
    let mut routines: Vec<(Interned, Register)> = Vec::new();
    for (r, instruction) in plan.code.iter().enumerate() {
        if let Instruction::Call(call) = instruction {
            if !routines.iter().any(|(known, _)| *known == call.routine) {
                routines.push((call.routine, r as Register));
            }
        }
    }
    routines
}

/// The C call of a routine: stores its results in `c<register>` and merges the bits that it notes into `w`.
fn called(plan: &Plan, r: usize, call: &Call, bits: &[(Register, FlagBits)]) -> String {
    let k = routines(plan).iter().position(|(known, _)| *known == call.routine).expect("it is among them");
    let name = routine::name(call.routine.0, k);
    let mut given = String::new();
    call.args.iter().for_each(|arg| given += &format!(", r{arg}"));
    call.tables.iter().for_each(|table| given += &format!(", p.x{table}, p.length{table}"));
    let (mut declared, mut passed, mut notes) = (String::new(), String::new(), String::new());
    if !call.routine.notes.is_empty() {
        declared += &format!("u32 n{r}[{}] = {{}}; ", call.routine.notes.len());
        passed += &format!(", n{r}");
    }
    if !call.routine.failures.is_empty() {
        declared += &format!("Failed f{r}; f{r}.code = 0u; ");
        passed += &format!(", f{r}");
    }
    for (_, bits) in bits.iter().filter(|(register, _)| *register as usize == r) {
        notes += &match bits.noted {
            Noted::Row(op) => {
                let own = call.routine.notes.iter().position(|&known| known == op).expect("it is among them");
                format!(" w[{}] |= n{r}[{own}] << {};", bits.word, bits.shift)
            }
            Noted::Failures(_) => format!(" note_failed(f{r}, i, p.flags, {}, p.any);", bits.word),
        };
    }
    format!("  {declared}const {name}results c{r} = {name}(i{given}{passed});{notes}\n")
}

/// The device function that draws a pack of random numbers, and the index of the scalar that holds its key. None for
/// instructions that are not drawn by packs.
fn draws(plan: &Plan, instruction: &Instruction) -> Option<(String, u16)> {
    let Instruction::Apply { op, args, .. } = instruction else { return None };
    let Instruction::Scalar(key, _) = plan.code[args[0] as usize] else { return None };
    Some((op.row().pack()?, key))
}

/// Which registers the outputs depend on; the operands of the `given` register are not followed.
fn needed(plan: &Plan, given: Option<Register>) -> Vec<bool> {
    let mut needed = vec![false; plan.code.len()];
    plan.outputs.iter().for_each(|(register, _)| needed[*register as usize] = true);
    for r in (0..plan.code.len()).rev().filter(|&r| given != Some(r as Register)) {
        match &plan.code[r] {
            Instruction::Apply { op, args, .. } if needed[r] => {
                args[..op.row().arity as usize].iter().for_each(|&arg| needed[arg as usize] = true);
            }
            Instruction::Gather { at, .. } if needed[r] => needed[*at as usize] = true,
            Instruction::Call(call) if needed[r] => call.args.iter().for_each(|&arg| needed[arg as usize] = true),
            Instruction::Result { call, .. } if needed[r] => needed[*call as usize] = true,
            _ => {}
        }
    }
    needed
}

/// `struct Out` and `compute`, which evaluates element `k` of a pack; `i` is its index in the result.
fn compute(plan: &Plan, variant: Variant, given: Option<Register>) -> String {
    let (bits, _) = flag_bits(plan);
    let mut code = String::new();
    let needed = needed(plan, given);
    for (r, instruction) in plan.code.iter().enumerate().filter(|(r, _)| needed[*r]) {
        if let Instruction::Call(call) = instruction {
            code += &called(plan, r, call, &bits);
            continue;
        }
        let class = plan.class(r as Register).c_type();
        if given == Some(r as Register) {
            let _ = writeln!(code, "  const {class} r{r} = x.given[k];");
            continue;
        }
        let _ = match instruction {
            Instruction::Load(k) => {
                let input = &plan.inputs[*k as usize];
                let single = input.access == Access::Broadcast || variant.tiled.has(*k as usize);
                let at = if single { "0" } else { "k" };
                writeln!(code, "  const {class} r{r} = load_{}(x.x{k}, {at});", input.dtype)
            }
            Instruction::Scalar(k, _) => writeln!(code, "  const {class} r{r} = p.s{k};"),
            Instruction::Gather { input: k, at } => {
                let dtype = plan.inputs[*k as usize].dtype;
                writeln!(code, "  const {class} r{r} = pick_{dtype}(p.x{k}, p.length{k}, r{at});")
            }
            Instruction::Result { call, result } => writeln!(code, "  const {class} r{r} = c{call}.y{result};"),
            Instruction::Call(_) => unreachable!("it has no value"),
            Instruction::Apply { .. } if draws(plan, instruction).is_some() => {
                writeln!(code, "  const {class} r{r} = x.d{r}[k];")
            }
            Instruction::Apply { op, class: c, args } => {
                let mut operands = String::new();
                for arg in &args[..op.row().arity as usize] {
                    let _ = write!(operands, "r{arg}, ");
                }
                let call = format!("{}({operands}i, flags{r})", op.row().function(*c));
                let note = match bits.iter().find(|(k, _)| *k as usize == r) {
                    Some((_, bits)) if bits.shift == 0 => format!(" w[{}] |= flags{r};", bits.word),
                    Some((_, bits)) => format!(" w[{}] |= flags{r} << {};", bits.word, bits.shift),
                    None => String::new(),
                };
                writeln!(code, "  u32 flags{r} = 0; const {class} r{r} = {call};{note}")
            }
        };
    }
    let (mut fields, mut results) = (String::new(), String::new());
    for (k, (register, _)) in plan.outputs.iter().enumerate() {
        let _ = write!(fields, " {} y{k};", plan.class(*register).c_type());
        let _ = write!(results, " y.y{k} = r{register};");
    }
    format!(
        "struct Out {{{fields} }};\n\
         VG_FN void compute(const Params& p, const In& x, int k, i64 i, u32 (&w)[W], Out& y) {{\n{code} {results}\n}}\n"
    )
}
