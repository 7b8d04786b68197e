use std::ffi::c_void;

use super::lanes;
use super::lower::lower;
use super::reference;
use verdigris_compile::{
    Block, Draw, Failed, Failure, LocalArray, Operand, Parameter, Register, Routine, Source, Statement, Table,
};
use verdigris_ops::dtype::{Class, DType};
use verdigris_ops::scalar::{Scalar, NA_F64, NA_I32};
use verdigris_ops::{id, OpId};

const F64S: [f64; 7] = [1.5, -2.0, NA_F64, 0.25, 8.0, f64::NAN, 3.0];
const BYTES: [u8; 5] = [0, 1, 2, 1, 0];

pub(super) fn r(register: Register) -> Operand {
    Operand::Register(register)
}

pub(super) fn int(x: i32) -> Operand {
    Operand::Constant(Scalar::I32(x))
}

pub(super) fn num(x: f64) -> Operand {
    Operand::Constant(Scalar::F64(x))
}

pub(super) fn at(x: i64) -> Operand {
    Operand::Constant(Scalar::I64(x))
}

pub(super) fn apply(to: Register, op: OpId, class: Class, args: &[Operand]) -> Statement {
    Statement::Apply { to, op, class, args: args.to_vec() }
}

pub(super) fn f64(to: Register, op: OpId, args: &[Operand]) -> Statement {
    apply(to, op, Class::F64, args)
}

pub(super) fn i32(to: Register, op: OpId, args: &[Operand]) -> Statement {
    apply(to, op, Class::I32, args)
}

pub(super) fn set(to: Register, from: Operand) -> Statement {
    Statement::Move { to, from }
}

pub(super) fn when(value: Operand, then: Block, otherwise: Block) -> Statement {
    Statement::If { value, missing: Some(0), then, otherwise }
}

pub(super) fn given(registers: &[Register], classes: &[Class]) -> Vec<Parameter> {
    let dtype = |class: Class| DType::ALL.into_iter().rfind(|d| d.class() == class).unwrap();
    (0..)
        .zip(registers)
        .map(|(k, &register)| Parameter {
            register,
            source: Source::Given(k),
            dtype: dtype(classes[register as usize]),
        })
        .collect()
}

pub(super) fn failures(n: usize) -> Vec<Failure> {
    vec![Failure { message: "missing value".into(), ..Failure::default() }; n]
}

/// Values of a parameter, element by element.
pub(super) type Column = Vec<Scalar>;

pub(super) fn tables() -> [(*const c_void, i64); 3] {
    [(F64S.as_ptr().cast(), 7), (BYTES.as_ptr().cast(), 5), (F64S.as_ptr().cast(), 0)]
}

pub(super) fn described() -> Vec<Table> {
    [DType::Float64, DType::Bool8, DType::Float64]
        .into_iter()
        .map(|dtype| Table { given: 0, dtype, name: "t".into() })
        .collect()
}

/// The results of all elements, the flag words, and the first failure.
type Ran = (Vec<Vec<[u8; 16]>>, Vec<u32>, Option<Failed>);

/// Runs all elements, from index `first` on, at most `width` lanes at a time.
fn run(routine: &Routine, columns: &[Column], first: usize, width: usize) -> Ran {
    let n = columns[0].len();
    let args: Vec<Vec<u8>> = columns
        .iter()
        .map(|column| column.iter().flat_map(|x| x.bytes()[..x.class().size()].to_vec()).collect())
        .collect();
    let args: Vec<*const u8> = args.iter().map(|a| a.as_ptr()).collect();
    let sizes: Vec<usize> = routine.results.iter().map(|(r, _)| routine.registers[*r as usize].size()).collect();
    let mut results: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0xAA; n * size]).collect();
    let out: Vec<*mut u8> = results.iter_mut().map(|r| r.as_mut_ptr()).collect();
    let mut words = vec![0; routine.notes.len()];
    // SAFETY: all arguments and results have n elements.
    let failed = unsafe { lanes::run(&lower(routine, width), &args, &tables(), first, n, &out, &mut words) };
    let element = |k: usize, i: usize| {
        let mut bytes = [0u8; 16];
        bytes[..sizes[k]].copy_from_slice(&results[k][i * sizes[k]..(i + 1) * sizes[k]]);
        bytes
    };
    ((0..n).map(|i| (0..sizes.len()).map(|k| element(k, i)).collect()).collect(), words, failed)
}

/// Compares the lanes, for each of the widths, with the reference.
pub(super) fn check(routine: &Routine, columns: &[Column], widths: &[usize]) {
    const FIRST: usize = 5;
    let n = columns[0].len();
    let mut words = vec![0; routine.notes.len()];
    let mut first: Option<Failed> = None;
    let mut wanted = Vec::new();
    for i in 0..n {
        let args: Vec<Scalar> = columns.iter().map(|c| c[i]).collect();
        let (results, noted, failed) = reference::run(routine, &args, &tables(), (FIRST + i) as i64);
        wanted.push(results);
        words.iter_mut().zip(noted).for_each(|(all, own)| *all |= own);
        first = first.or(failed);
    }
    for &width in widths {
        let (results, noted, failed) = run(routine, columns, FIRST, width);
        for i in 0..n {
            for (k, want) in wanted[i].iter().enumerate() {
                let got = reference::scalar(want.class(), &results[i][k]);
                assert!(
                    got.bytes() == want.bytes(),
                    "element {i}, result {k}, {width} lanes: {got:?}, not {want:?}, of {:?}\n{routine}",
                    columns.iter().map(|c| c[i]).collect::<Vec<_>>()
                );
            }
        }
        assert_eq!(failed, first, "{width} lanes\n{routine}");
        assert_eq!(noted, words, "notes with {width} lanes\n{routine}");
    }
}

const WIDTHS: [usize; 4] = [1, 3, 64, 1024];

pub(super) fn doubles(n: usize, f: impl Fn(usize) -> f64) -> Column {
    (0..n).map(|i| Scalar::F64(f(i))).collect()
}

fn integers(n: usize, f: impl Fn(usize) -> i32) -> Column {
    (0..n).map(|i| Scalar::I32(f(i))).collect()
}

/// A routine of doubles 0 to 3 and integers 4 to 7; 0 and 4 are parameters, 1 and 5 results.
fn small(body: Block) -> Routine {
    let registers = [[Class::F64; 4], [Class::I32; 4]].concat();
    Routine {
        name: "small".into(),
        parameters: given(&[0, 4], &registers),
        results: vec![(1, DType::Float64), (5, DType::Int32)],
        registers,
        body: [vec![set(1, num(0.0)), set(5, int(0))], body].concat(),
        tables: described(),
        notes: vec![id::ADD, id::SQRT],
        failures: failures(3),
        ..Routine::default()
    }
}

pub(super) fn some(n: usize) -> [Column; 2] {
    let odd = [NA_F64, f64::NAN, f64::INFINITY, -3.0, 0.5];
    let ints = [NA_I32, i32::MAX, -7, 0];
    [
        doubles(n, |i| if i % 11 == 10 { odd[i / 11 % 5] } else { (i * 7919 % 101) as f64 / 10.0 }),
        integers(n, |i| if i % 13 == 12 { ints[i / 13 % 4] } else { (i * 31 % 17) as i32 }),
    ]
}

#[test]
fn straight_code_notes_and_writes_what_it_reads() {
    let body = vec![
        f64(2, id::SQRT, &[r(0)]),
        f64(1, id::ADD, &[r(1), r(2)]),
        f64(1, id::MOD, &[r(1), num(0.75)]),
        f64(1, id::POW, &[r(1), num(2.0)]),
        i32(5, id::ADD, &[r(4), int(1)]),
        f64(6, id::LT, &[r(1), r(0)]),
        apply(1, id::SELECT, Class::F64, &[r(6), r(1), num(-1.0)]),
    ];
    check(&small(body), &some(200), &WIDTHS);
}

#[test]
fn rows_that_may_warn_run_for_their_lanes_alone() {
    // sqrt of positive values only: no lane may note a NaN
    let body = vec![
        f64(6, id::GT, &[r(0), num(0.0)]),
        Statement::If {
            value: r(6),
            missing: None,
            then: vec![f64(1, id::SQRT, &[r(0)])],
            otherwise: vec![f64(1, id::NEG, &[r(0)])],
        },
    ];
    let routine = small(body);
    check(&routine, &some(200), &WIDTHS);
    assert_eq!(run(&routine, &some(200), 0, 64).1[1], 0);
}

#[test]
fn missing_conditions_fail_or_are_false() {
    let condition = |missing| {
        vec![
            f64(6, id::GT, &[r(0), num(3.0)]),
            Statement::If { value: r(6), missing, then: vec![set(1, num(1.0))], otherwise: vec![set(1, num(2.0))] },
            set(5, int(9)),
        ]
    };
    check(&small(condition(Some(2))), &some(200), &WIDTHS);
    check(&small(condition(None)), &some(200), &WIDTHS);
    let (results, _, failed) = run(&small(condition(Some(2))), &some(200), 0, 64);
    assert_eq!(failed.map(|f| f.failure), Some(2));
    assert_eq!(reference::scalar(Class::I32, &results[10][1]), Scalar::I32(NA_I32));
}

#[test]
fn loops_are_left_by_each_lane_in_its_turn() {
    let body = vec![
        set(7, int(0)),
        Statement::Loop {
            body: vec![
                i32(7, id::ADD, &[r(7), int(1)]),
                i32(6, id::GT, &[r(7), r(4)]),
                when(r(6), vec![Statement::Break], vec![]),
                i32(6, id::MOD, &[r(7), int(3)]),
                i32(6, id::EQ, &[r(6), int(0)]),
                when(r(6), vec![Statement::Next], vec![]),
                f64(1, id::ADD, &[r(1), r(0)]),
                f64(6, id::GT, &[r(1), num(60.0)]),
                when(r(6), vec![set(5, int(-1)), Statement::Return], vec![]),
                f64(6, id::EQ, &[r(1), num(8.0)]),
                when(r(6), vec![Statement::Fail(1)], vec![]),
            ],
        },
        i32(5, id::ADD, &[r(7), int(100)]),
    ];
    let [x, n] = some(300);
    let n = n.into_iter().map(|n| if n == Scalar::I32(i32::MAX) { Scalar::I32(40) } else { n }).collect();
    check(&small(body), &[x, n], &WIDTHS);
}

#[test]
fn lanes_leave_either_way_and_the_others_meet_again() {
    let leave =
        |test: Statement, how: Statement| vec![test, when(r(6), vec![how], vec![]), f64(1, id::ADD, &[r(1), num(1.0)])];
    let body = vec![
        set(7, int(0)),
        Statement::Loop {
            body: vec![
                i32(7, id::ADD, &[r(7), int(1)]),
                i32(6, id::GT, &[r(7), int(9)]),
                when(r(6), vec![Statement::Break], vec![]),
                i32(6, id::ADD, &[r(4), r(7)]),
                i32(6, id::MOD, &[r(6), int(4)]),
                i32(6, id::LT, &[r(6), int(2)]),
                when(
                    r(6),
                    leave(f64(6, id::GT, &[r(0), num(7.0)]), Statement::Next),
                    leave(f64(6, id::LT, &[r(0), num(2.0)]), Statement::Break),
                ),
                f64(1, id::SUB, &[r(1), r(0)]),
                f64(6, id::LT, &[r(1), num(-40.0)]),
                when(r(6), leave(f64(6, id::GT, &[r(0), num(6.0)]), Statement::Return), vec![]),
                i32(5, id::ADD, &[r(5), r(7)]),
            ],
        },
        i32(5, id::ADD, &[r(5), r(4)]),
    ];
    check(&small(body), &some(300), &WIDTHS);
}

#[test]
fn counted_loops_end_for_each_lane_by_its_own_count() {
    let inner = Statement::For {
        counter: 7,
        times: int(3),
        body: vec![
            Statement::Step { to: 2, from: r(0), counter: 7, step: num(0.5) },
            f64(1, id::ADD, &[r(1), r(2)]),
            f64(6, id::GT, &[r(2), num(9.0)]),
            when(r(6), vec![Statement::Break], vec![]),
        ],
    };
    let body = vec![
        i32(4, id::MOD, &[r(4), int(6)]),
        apply(6, id::IS_NA, Class::I32, &[r(4)]),
        when(r(6), vec![set(4, int(0))], vec![]),
        set(3, num(0.0)),
        Statement::For {
            counter: 8,
            times: r(4),
            // the trip count is read once
            body: vec![set(4, int(1)), inner, i32(5, id::ADD, &[r(5), r(8)]), f64(3, id::ADD, &[r(3), r(1)])],
        },
        set(1, r(3)),
    ];
    let mut routine = small(body);
    routine.registers.push(Class::I32);
    check(&routine, &some(200), &WIDTHS);
}

#[test]
fn positions_places_and_tables() {
    let mut routine = small(vec![
        Statement::Position { to: 8, from: r(0), extent: at(7), low: 1, high: None, inside: false },
        Statement::Read { to: 1, table: 0, at: r(8) },
        Statement::Position { to: 9, from: r(4), extent: at(5), low: 1, high: Some(2), inside: false },
        Statement::Read { to: 5, table: 1, at: r(9) },
        Statement::Offset { to: 8, at: vec![(r(8), at(2)), (r(9), at(1))] },
        Statement::Read { to: 2, table: 0, at: r(8) },
        Statement::Read { to: 3, table: 2, at: r(8) },
        apply(6, id::IS_NA, Class::F64, &[r(3)]),
        when(r(6), vec![set(1, r(2))], vec![]),
        // the position overwrites its own operand
        Statement::Position { to: 8, from: r(8), extent: at(3), low: 0, high: None, inside: false },
        Statement::Read { to: 2, table: 0, at: r(8) },
        f64(1, id::ADD, &[r(1), r(2)]),
    ]);
    routine.registers.extend([Class::I64; 2]);
    let [x, n] = some(300);
    let n = n.into_iter().map(|n| if let Scalar::I32(k @ 1..) = n { Scalar::I32(k % 7) } else { n }).collect();
    check(&routine, &[x, n], &WIDTHS);
}

#[test]
fn local_arrays_belong_to_elements() {
    let mut routine = small(vec![
        Statement::Position { to: 8, from: r(4), extent: at(4), low: 1, high: None, inside: false },
        Statement::Set { array: 0, at: r(8), value: r(0) },
        Statement::Set { array: 1, at: at(1), value: r(4) },
        f64(6, id::GT, &[r(0), num(5.0)]),
        when(r(6), vec![f64(2, id::SQRT, &[r(0)]), Statement::Set { array: 0, at: at(0), value: r(2) }], vec![]),
        Statement::Get { to: 1, array: 0, at: at(0) },
        Statement::Get { to: 2, array: 0, at: r(8) },
        f64(1, id::ADD, &[r(1), r(2)]),
        Statement::Get { to: 5, array: 1, at: at(1) },
        i32(6, id::GT, &[r(5), int(3)]),
        when(r(6), vec![Statement::Get { to: 5, array: 1, at: at(2) }], vec![]),
    ]);
    routine.registers.push(Class::I64);
    routine.arrays = vec![LocalArray { class: Class::F64, length: 4 }, LocalArray { class: Class::I32, length: 2 }];
    check(&routine, &some(300), &WIDTHS);
}

#[test]
fn draws_are_numbered_by_element() {
    let mut routine = small(vec![
        set(6, int(0)),
        set(7, int(0)),
        Statement::Loop {
            body: vec![
                Statement::Draw { to: 2, draw: Draw::Uniform, count: 6, args: vec![] },
                f64(5, id::LT, &[r(2), num(0.25)]),
                when(r(5), vec![Statement::Break], vec![]),
                Statement::Draw { to: 2, draw: Draw::Normal, count: 7, args: vec![] },
                f64(1, id::ADD, &[r(1), r(2)]),
            ],
        },
        Statement::Draw { to: 3, draw: Draw::Exponential, count: 6, args: vec![] },
        Statement::Draw { to: 2, draw: Draw::Row(id::RBINOM), count: 7, args: vec![num(30.0), num(0.4)] },
        f64(1, id::ADD, &[r(1), r(3)]),
        f64(1, id::MUL, &[r(1), r(2)]),
        set(5, r(7)),
    ]);
    routine.registers.push(Class::I64);
    routine.parameters.push(Parameter { register: 8, source: Source::Key, dtype: DType::Int64 });
    let [x, n] = some(400);
    let key = vec![Scalar::I64(0x1234_5678_9ABC_DEF0); 400];
    check(&routine, &[x, n, key], &WIDTHS);
}

#[test]
fn wide_registers_move_with_their_lanes() {
    let registers = vec![Class::C128, Class::I32, Class::F32, Class::C64, Class::C128, Class::I32];
    let c128 = |to, op, args: &[Operand]| apply(to, op, Class::C128, args);
    let routine = Routine {
        parameters: given(&[0, 1, 2, 3], &registers),
        results: vec![(4, DType::Complex128), (2, DType::Float32), (3, DType::Complex64)],
        registers,
        body: vec![
            set(4, r(0)),
            i32(5, id::GT, &[r(1), int(2)]),
            when(
                r(5),
                vec![
                    c128(4, id::MUL, &[r(4), r(0)]),
                    apply(2, id::EXP, Class::F32, &[r(2)]),
                    i32(5, id::GT, &[r(1), int(5)]),
                    when(r(5), vec![apply(3, id::ADD, Class::C64, &[r(3), r(3)])], vec![c128(4, id::NEG, &[r(4)])]),
                ],
                vec![c128(4, id::ADD, &[r(4), r(0)])],
            ),
        ],
        failures: failures(1),
        ..Routine::default()
    };
    let n = 200;
    let columns = [
        (0..n).map(|i| Scalar::C128([i as f64, 1.0 / (i as f64 + 1.0)])).collect(),
        integers(n, |i| (i * 37 % 9) as i32),
        (0..n).map(|i| Scalar::F32(i as f32 / 50.0)).collect(),
        (0..n).map(|i| Scalar::C64([i as f32, -1.0])).collect(),
    ];
    check(&routine, &columns, &WIDTHS);
}

mod stop {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use verdigris_ops::error::Kind;
    use verdigris_ops::interrupt::set_check;
    use verdigris_ops::parallel::stoppable;

    static ASKED: AtomicBool = AtomicBool::new(false);

    thread_local! {
        static WANTED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    #[test]
    fn a_loop_without_end_is_stopped() {
        set_check(|| {
            ASKED.store(true, Ordering::Relaxed);
            WANTED.get()
        });
        WANTED.set(true);
        let routine = small(vec![Statement::Loop { body: vec![f64(1, id::ADD, &[r(1), num(1.0)])] }]);
        let error = stoppable(|| run(&routine, &some(10), 0, 64)).err().map(|e| e.kind);
        assert!(ASKED.load(Ordering::Relaxed));
        assert!(matches!(error, Some(Kind::Interrupt)));
    }
}
