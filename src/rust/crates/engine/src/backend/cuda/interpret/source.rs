//! The interpreters' sources, written from the operation table; `kernels/interpret.h` has their fixed part.

use std::fmt::Write as _;
use std::sync::OnceLock;

use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::table::Subject;
use verdigris_ops::{OpId, COMMON_HEADERS, RANDOM_HEADERS};

/// Rows of long code that `Family::Wide` includes nevertheless: simulations and likelihoods start with them, and would
/// otherwise wait for a compiler.
const USUAL: [&str; 10] = [
    "runif",
    "rnorm",
    "runif_single",
    "rnorm_single",
    "normal_draw",
    "uniform_draw",
    "rindex",
    "dnorm",
    "dnorm_log",
    "pnorm",
];

/// The interpreters. Each serves some classes and rows, so that the one for plain arithmetic stays small and fast.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(usize)]
pub enum Family {
    /// Arithmetic and Math of float32 and int32: 16 elements a thread.
    Narrow,
    /// As `Narrow`, and float64, int64 and the rows of `USUAL`: 8 elements.
    Wide,
    /// Everything about complex numbers, with the real arithmetic that leads to and from them: 2 elements.
    Complex,
    /// Special functions, with the real arithmetic around them: 2 elements.
    Special,
    /// Random numbers, with the real arithmetic around them: 2 elements.
    Random,
}

impl Family {
    /// In the order of preference.
    pub const ALL: [Family; 5] = [Family::Narrow, Family::Wide, Family::Complex, Family::Special, Family::Random];

    /// The kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Narrow => "interpret_narrow",
            Family::Wide => "interpret_wide",
            Family::Complex => "interpret_complex",
            Family::Special => "interpret_special",
            Family::Random => "interpret_random",
        }
    }

    /// Bytes of a cell, which holds one value of any class that the family serves.
    pub const fn cell(self) -> usize {
        match self {
            Family::Narrow => 4,
            Family::Wide | Family::Special | Family::Random => 8,
            Family::Complex => 16,
        }
    }

    /// Elements of a thread.
    pub const fn pack(self) -> usize {
        match self {
            Family::Narrow => 16,
            Family::Wide => 8,
            Family::Complex | Family::Special | Family::Random => 2,
        }
    }

    /// Neighbouring cells that make a unit of 16 bytes.
    pub const fn together(self) -> usize {
        16 / self.cell()
    }

    /// Whether its rows have long code, which is compiled once and called instead of inlined.
    pub const fn has_long_code(self) -> bool {
        self.pack() == 2
    }

    /// Bytes of a slot, for one thread.
    pub const fn slot(self) -> usize {
        self.cell() * self.pack()
    }

    pub fn serves_class(self, class: Class) -> bool {
        match self {
            Family::Narrow => matches!(class, Class::I32 | Class::F32),
            Family::Wide | Family::Special | Family::Random => !matches!(class, Class::C64 | Class::C128),
            Family::Complex => true,
        }
    }

    /// Whether it has an instruction for a row.
    pub fn serves(self, op: OpId, class: Class) -> bool {
        let row = op.row();
        let classes = (0..row.arity as usize).map(|k| row.operand_class(k, class));
        let fits = row.expression(class).is_some()
            && classes.chain([class, row.result_class(class)]).all(|c| self.serves_class(c));
        // rows of long code are in an interpreter of their own
        fits && match op.row() {
            row if self == Family::Wide && USUAL.contains(&row.name) => true,
            row if row.is_only_compiled() => false,
            row if row.is_random() => self == Family::Random,
            _ => op.subject() != Subject::Special || self == Family::Special,
        }
    }
}

/// Threads of a block: `VG_THREADS` in interpret.h.
pub const THREADS: usize = 64;

// ---- codes of instructions --------------------------------------------------------------------------
/// `LINEAR + dtype` loads linearly, `STORE + dtype` stores; rows are numbered from `FIRST_ROW` on.
const LINEAR: u16 = 0;
const STORE: u16 = 12;
const FIRST_ROW: u16 = 24;

/// Whether a row's code is unrolled over the elements of a pack: if it is short and the row is common.
fn is_short(family: Family, op: OpId, class: Class) -> bool {
    if family.has_long_code() {
        return false;
    }
    match (op.row().name, class) {
        ("add" | "sub" | "mul" | "neg" | "select" | "pmin" | "pmax" | "is_na", _) => class != Class::I64,
        ("eq" | "ne" | "lt" | "le" | "gt" | "ge" | "and" | "or" | "not", _) => class != Class::I64,
        ("div" | "abs" | "sqrt" | "exp" | "log" | "floor" | "round", _) => matches!(class, Class::F32 | Class::F64),
        ("to_bool8" | "to_int32" | "to_float32" | "to_float64", _) => class != Class::I64,
        _ => false,
    }
}

/// The codes of a family's instructions.
pub struct Codes {
    /// By row and class.
    rows: Vec<[Option<u16>; 6]>,
    /// The first code whose operands are accessed by index in shared memory: `FIRST_INDEXED` of interpret.h.
    first_indexed: u16,
}

impl Codes {
    pub fn of(family: Family) -> &'static Codes {
        static CODES: [OnceLock<Codes>; Family::ALL.len()] = [const { OnceLock::new() }; Family::ALL.len()];
        CODES[family as usize].get_or_init(|| {
            let mut rows = vec![[None; 6]; OpId::all().count()];
            let mut next = FIRST_ROW;
            let mut number = |short: bool, next: &mut u16| {
                for op in OpId::all() {
                    for class in
                        Class::ALL.into_iter().filter(|&c| family.serves(op, c) && is_short(family, op, c) == short)
                    {
                        rows[op.0 as usize][class as usize] = Some(*next);
                        *next += 1;
                    }
                }
            };
            number(true, &mut next);
            let first_indexed = next;
            next += 2;
            number(false, &mut next);
            Codes { rows, first_indexed }
        })
    }

    pub fn row(&self, op: OpId, class: Class) -> Option<u16> {
        self.rows[op.0 as usize][class as usize]
    }

    /// The load of element `i` for index `i`.
    pub fn linear(dtype: DType) -> u16 {
        LINEAR + dtype as u16
    }

    /// The load with any other access; the dtype is the instruction's third operand.
    pub fn indexed(&self) -> u16 {
        self.first_indexed
    }

    /// The load from computed positions, the first operand; the dtype is the third.
    pub fn picked(&self) -> u16 {
        self.first_indexed + 1
    }

    pub fn store(dtype: DType) -> u16 {
        STORE + dtype as u16
    }
}

/// The source of an interpreter.
pub fn source(family: Family) -> String {
    let codes = Codes::of(family);
    let calls = if family.has_long_code() { "#define VG_CALLS\n" } else { "" };
    let mut text = format!("{calls}#define VG_CELL {}\n#define VG_PACK {}\n", family.cell(), family.pack());
    if family.has_long_code() {
        text.push_str("#include \"once.h\"\n");
    }
    for header in COMMON_HEADERS.iter().chain(RANDOM_HEADERS) {
        let wanted = match *header {
            "special.h" | "normal.h" => matches!(family, Family::Special | Family::Wide),
            "gamma.h" => family == Family::Special,
            "draws_finite.h" => false,
            header if RANDOM_HEADERS.contains(&header) => matches!(family, Family::Random | Family::Wide),
            _ => true,
        };
        if wanted {
            let _ = writeln!(text, "#include \"{header}\"");
        }
    }
    text.push_str("#include \"interpret.h\"\n");
    let dtypes: Vec<DType> = DType::ALL.into_iter().filter(|d| family.serves_class(d.class())).collect();
    for dtype in &dtypes {
        let (s, c) = (dtype.c_type(), dtype.class().c_type());
        let _ = writeln!(
            text,
            "struct As_{dtype} {{ typedef {s} Stored; typedef {c} Value;\n  \
             VG_STEP {c} load(const {s}* p, i64 i) {{ return load_{dtype}(p, i); }}\n  \
             VG_STEP {c} pick(const {s}* p, i64 m, i64 at) {{ return pick_{dtype}(p, m, at); }}\n  \
             VG_STEP void store({s}* p, i64 i, {c} x) {{ store_{dtype}(p, i, x); }} }};"
        );
    }
    let (mut short, mut long) = (String::new(), String::new());
    for op in OpId::all() {
        for class in Class::ALL {
            let Some(code) = codes.row(op, class) else { continue };
            let _ = writeln!(text, "{}", op.row().define(class).expect("a row that has a number has an expression"));
            if is_short(family, op, class) {
                short += &short_case(op, class, code);
            } else {
                long += &long_case(op, class, code);
            }
        }
    }
    let (mut linear, mut indexed, mut stores) = (String::new(), String::new(), String::new());
    let mut picked = String::new();
    // a linear load that is unaligned, or crosses the end, falls through to the indexed load
    let mut ends = String::new();
    for dtype in &dtypes {
        let k = *dtype as usize;
        let _ = write!(ends, "case {}: ", Codes::linear(*dtype));
        let _ = writeln!(
            linear,
            "    case {}: return load_linear<As_{dtype}>(t, p.words + more, x);",
            Codes::linear(*dtype)
        );
        let _ = writeln!(indexed, "        case {k}: load_indexed<As_{dtype}>(t, p.words + more, u, at); break;");
        if family.serves_class(Class::I64) {
            let _ = writeln!(picked, "        case {k}: load_picked<As_{dtype}>(t, p.words + more, a); break;");
        }
        let _ =
            writeln!(stores, "    case {}: store<As_{dtype}>(t, p.n, p.words + more, x); break;", Codes::store(*dtype));
    }
    let _ = write!(
        text,
        "struct Instructions {{\n  \
         static constexpr u32 FIRST_INDEXED = {first};\n  \
         VG_STEP bool run(const Program& p, const Thread& t, u32 code, u32 third, u32 more, Cell (&x)[V], const Cell (&b)[V], u32& w) {{\n    \
         switch (code) {{\n{linear}{stores}{short}    default: break;\n    }}\n    return true;\n  }}\n  \
         VG_STEP void run_indexed(const Program& p, const Thread& t, u32 code, Operand a, Operand b, Operand c, u32 dtype, u32 more, u32& w) {{\n    \
         switch (code) {{\n    {ends}case {first}:\n      #pragma unroll 1\n      for (int u = 0; u < U; u++) {{\n        \
         i64 at[G];\n        #pragma unroll\n        for (int g = 0; g < G; g++) at[g] = element(p.words + more, within(t, u * G + g));\n        \
         switch (dtype) {{\n{indexed}        default: break;\n        }}\n      }}\n      break;\n    \
         case {picks}:\n      switch (dtype) {{\n{picked}        default: break;\n      }}\n      break;\n{long}    default: break;\n    }}\n  }}\n}};\n",
        first = codes.first_indexed,
        picks = codes.picked(),
    );
    text += &kernel(family);
    text
}

/// The call of a row's function. `$` in an operand stands for the operand's C type.
fn call(op: OpId, class: Class, operands: [&str; 3]) -> String {
    let row = op.row();
    let mut arguments = String::new();
    for (k, operand) in operands.iter().enumerate().take(row.arity as usize) {
        let _ = write!(arguments, "{}, ", operand.replace('$', row.operand_class(k, class).c_type()));
    }
    let index = if row.rule.uses_index() { "within(t, k)" } else { "0" };
    format!("cell({}({arguments}{index}, w))", row.function(class))
}

fn short_case(op: OpId, class: Class, code: u16) -> String {
    let third = if op.row().arity == 3 { " Cell c[V]; fetch(t, third, c);" } else { "" };
    format!(
        "    case {code}: {{{third}\n      #pragma unroll\n      for (int k = 0; k < V; k++) x[k] = {};\n    }} break;\n",
        call(op, class, ["As<$>::of(x[k])", "As<$>::of(b[k])", "As<$>::of(c[k])"])
    )
}

fn long_case(op: OpId, class: Class, code: u16) -> String {
    format!(
        "    case {code}:\n      #pragma unroll 1\n      for (int k = 0; k < V; k++) write(t, k, {});\n      break;\n",
        call(op, class, ["read<$>(a, k)", "read<$>(b, k)", "read<$>(c, k)"])
    )
}

fn kernel(family: Family) -> String {
    let name = family.name();
    format!(
        "#ifdef VG_DEVICE\n\
         extern \"C\" __global__ void __launch_bounds__(VG_THREADS) {name}(const __grid_constant__ Program p) {{\n  \
         extern __shared__ Unit shared[];\n  interpret<Instructions>(p, shared, blockIdx.x, threadIdx.x);\n}}\n\
         #else\n\
         extern \"C\" void {name}(const Program* p, Unit* shared, i64 blocks) {{\n  \
         for (i64 block = 0; block < blocks; block++) interpret<Instructions>(*p, shared, block, 0);\n}}\n\
         #endif\n"
    )
}
