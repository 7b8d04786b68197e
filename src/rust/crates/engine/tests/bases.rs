//! The next column of an orthonormal basis on the cpu device, against the formulas in numbers of twice the precision.

mod xorshift;

use verdigris_engine::array::basis::{extend, Step};
use verdigris_engine::array::transfer::{Host, HostMut};
use verdigris_engine::array::Array;
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Kind;
use xorshift::Random;

/// Between -1 and 1.
fn number(random: &mut Random) -> f64 {
    random.below(1 << 40) as f64 / (1u64 << 39) as f64 - 1.0
}

/// A number and what it leaves (Dekker 1971; products by a fused multiplication and addition).
#[derive(Clone, Copy, Default)]
struct Wide(f64, f64);

impl Wide {
    fn sum(a: f64, b: f64) -> Wide {
        let s = a + b;
        let of_b = s - a;
        Wide(s, (a - (s - of_b)) + (b - of_b))
    }

    fn add(self, other: Wide) -> Wide {
        let s = Wide::sum(self.0, other.0);
        let s = Wide::sum(s.0, s.1 + self.1 + other.1);
        Wide(s.0, s.1)
    }

    fn mul(self, other: Wide) -> Wide {
        let p = self.0 * other.0;
        Wide::sum(p, self.0.mul_add(other.0, -p) + self.0 * other.1 + self.1 * other.0)
    }

    fn less(self, other: Wide) -> Wide {
        self.add(Wide(-other.0, -other.1))
    }

    fn of(x: f64) -> Wide {
        Wide(x, 0.0)
    }
}

fn dot(a: &[Wide], b: &[Wide]) -> Wide {
    a.iter().zip(b).fold(Wide::default(), |sum, (&a, &b)| sum.add(a.mul(b)))
}

fn less_columns(x: &mut [Wide], basis: &[Vec<f64>], taken: &[(usize, Wide)]) {
    for &(c, by) in taken {
        x.iter_mut().zip(&basis[c]).for_each(|(x, &q)| *x = x.less(by.mul(Wide::of(q))));
    }
}

/// What the device computes, and the length of the vector and of what is left of it first.
struct Want {
    column: Vec<f64>,
    numbers: Vec<f64>,
    length: f64,
    left: f64,
}

fn wanted(basis: &[Vec<f64>], vector: &[f64], step: &Step, known: f64) -> Want {
    let columns: Vec<Vec<Wide>> = basis.iter().map(|q| q.iter().map(|&q| Wide::of(q)).collect()).collect();
    let mut x: Vec<Wide> = vector.iter().map(|&x| Wide::of(x)).collect();
    let length = dot(&x, &x).0.sqrt();
    let mut numbers: Vec<Wide> = (step.first_pass_from..step.count).map(|c| dot(&columns[c], &x)).collect();
    let mut taken: Vec<(usize, Wide)> = (step.first_pass_from..step.count).zip(numbers.iter().copied()).collect();
    taken.extend(step.known_product.map(|_| (step.first_pass_from - 1, Wide::of(known))));
    less_columns(&mut x, basis, &taken);
    let whole = dot(&x, &x).0;
    let again: Vec<(usize, Wide)> = (step.second_pass_from..step.count).map(|c| (c, dot(&columns[c], &x))).collect();
    less_columns(&mut x, basis, &again);
    for &(c, by) in again.iter().filter(|(c, _)| *c >= step.first_pass_from) {
        numbers[c - step.first_pass_from] = numbers[c - step.first_pass_from].add(by);
    }
    let norm = dot(&x, &x).0.sqrt();
    let scale = if norm == 0.0 { 0.0 } else { 1.0 / norm };
    let mut numbers: Vec<f64> = numbers.iter().map(|x| x.0).collect();
    numbers.extend([norm, if whole == 0.0 { 0.0 } else { norm / whole.sqrt() }]);
    Want { column: x.iter().map(|x| x.0 * scale).collect(), numbers, length, left: whole.sqrt() }
}

fn upload(x: &[f64], dtype: DType) -> Array {
    Array::upload(Host::Double(x), Some(dtype), Device::Cpu, None).unwrap()
}

fn back(x: &Array) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    x.cast(DType::Float64, None).unwrap().read(0, HostMut::Double(&mut out)).unwrap();
    out
}

fn rounded(x: f64, dtype: DType) -> f64 {
    if dtype == DType::Float32 {
        f64::from(x as f32)
    } else {
        x
    }
}

/// Orthonormal columns, as far as the dtype has it.
fn orthonormal(rows: usize, count: usize, dtype: DType, random: &mut Random) -> Vec<Vec<f64>> {
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for _ in 0..count {
        let mut x: Vec<Wide> = (0..rows).map(|_| Wide::of(number(random))).collect();
        for _ in 0..2 {
            let taken: Vec<(usize, Wide)> = basis
                .iter()
                .map(|q| dot(&q.iter().map(|&q| Wide::of(q)).collect::<Vec<_>>(), &x))
                .enumerate()
                .collect();
            less_columns(&mut x, &basis, &taken);
        }
        let norm = dot(&x, &x).0.sqrt();
        basis.push(x.iter().map(|x| rounded(x.0 / norm, dtype)).collect());
    }
    basis
}

struct Case {
    basis: Vec<Vec<f64>>,
    vector: Vec<f64>,
    step: Step,
    known: f64,
    dtype: DType,
}

/// Room for columns behind the new one, and for numbers before and behind its own.
const SPARE: usize = 2;
const BESIDE: f64 = 77.25;

impl Case {
    /// What comes of it: all columns, and all numbers.
    fn run(&self) -> (Vec<f64>, Vec<f64>) {
        let Step { rows, count, first_pass_from: near, out_offset: at, known_product: known, .. } = self.step;
        let mut memory: Vec<f64> = self.basis.concat();
        memory.resize((count + 1 + SPARE) * rows, BESIDE);
        let mut numbers = vec![BESIDE; at + count - near + 2 + SPARE];
        numbers[0] = 0.0;
        known.into_iter().for_each(|place| numbers[place] = self.known);
        let (basis, vector) = (upload(&memory, self.dtype), upload(&self.vector, self.dtype));
        let numbers = upload(&numbers, DType::Float64);
        extend(&basis, &vector, &numbers, self.step).unwrap();
        let bits = |x: &f64| x.to_bits();
        assert!(back(&vector).iter().map(bits).eq(self.vector.iter().map(bits)), "the vector has changed");
        (back(&basis), back(&numbers))
    }

    fn check(&self, what: &str) {
        let Step { rows, count, first_pass_from: near, out_offset: at, known_product: known, second_pass_from: from } =
            self.step;
        let unit = if self.dtype == DType::Float32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
        let (memory, numbers) = self.run();
        let same = self.run();
        let bits = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!((bits(&memory), bits(&numbers)), (bits(&same.0), bits(&same.1)), "{what}: other bits");
        // nothing else is written
        assert_eq!(memory[..count * rows], self.basis.concat(), "{what}");
        assert!(memory[(count + 1) * rows..].iter().all(|&x| x == BESIDE), "{what}");
        let noted = at..at + count - near + 2;
        for (k, &x) in numbers.iter().enumerate().filter(|(k, _)| !noted.contains(k)) {
            let before = if k == 0 {
                0.0
            } else if known == Some(k) {
                self.known
            } else {
                BESIDE
            };
            assert_eq!(x, before, "{what}: number {k}");
        }
        let want = wanted(&self.basis, &self.vector, &self.step, self.known);
        // of the basis the rounding of each column counts, of the vector what is taken from it
        let near_to = 64.0 * unit * (want.length + self.known.abs()) * (1.0 + count as f64).sqrt();
        let (got, column) = (&numbers[noted], &memory[count * rows..(count + 1) * rows]);
        let last = count - near;
        let norm = want.numbers[last];
        // the square of the length is a difference of squares, in which that of what is left first is lost
        let of_norm =
            near_to + (64.0 * unit).sqrt().min(64.0 * unit * want.left / norm.max(f64::MIN_POSITIVE)) * want.left;
        for (k, (got, want)) in got[..=last].iter().zip(&want.numbers).enumerate() {
            let off = if k == last { of_norm } else { near_to };
            assert!((got - want).abs() <= off, "{what}: number {k} is {got} and not {want}");
        }
        // where nothing is left direction and share are rounding's
        if norm <= 1e3 * of_norm {
            return;
        }
        let near_to = of_norm;
        let (share, full) = (got[last + 1], want.numbers[last + 1]);
        assert!((share - full).abs() <= near_to / norm + near_to / want.left, "{what}: {share} is left, not {full}");
        for (row, (got, want)) in column.iter().zip(&want.column).enumerate() {
            assert!((got - want).abs() <= 2.0 * near_to / norm, "{what}: row {row} is {got} and not {want}");
        }
        let length = column.iter().map(|x| x * x).sum::<f64>().sqrt();
        assert!((length - 1.0).abs() <= near_to / norm, "{what}: of length {length}");
        for q in &self.basis[from..] {
            let product: f64 = q.iter().zip(column).map(|(q, x)| q * x).sum();
            assert!(product.abs() <= near_to / norm, "{what}: {product} along a column");
        }
    }
}

const DTYPES: [DType; 2] = [DType::Float32, DType::Float64];

#[test]
fn columns_are_those_of_plain_loops() {
    let mut random = Random(11);
    // around a part of the rows, and lanes within
    let rows = [1, 2, 3, 7, 8, 9, 17, 64, 255, 1000, 1023, 1024, 1025, 2047, 2048, 3001, 5000];
    for turn in 0..400 {
        let rows = rows[random.below(rows.len())];
        let count = random.below(rows.min(14) + 1);
        let dtype = DTYPES[turn % 2];
        let near = random.below(count + 1);
        let from = random.below(count + 1);
        let known = (near > 0 && random.below(2) == 0).then(|| 1 + random.below(3));
        let at = 4 + random.below(5);
        let basis = orthonormal(rows, count, dtype, &mut random);
        let size = [1.0, 1e-8, 1e6][random.below(3)];
        let vector: Vec<f64> = match random.below(4) {
            // of the columns alone: little or nothing is left
            0 if count > 0 => {
                let by: Vec<f64> = (0..count).map(|_| size * number(&mut random)).collect();
                (0..rows).map(|r| (0..count).map(|c| by[c] * basis[c][r]).sum()).collect()
            }
            _ => (0..rows).map(|_| size * number(&mut random)).collect(),
        };
        let vector = vector.into_iter().map(|x| rounded(x, dtype)).collect();
        let known_product = size * number(&mut random);
        let known_product = if known.is_some() { known_product } else { 0.0 };
        let case = Case {
            basis,
            vector,
            step: Step {
                rows,
                count,
                first_pass_from: near,
                second_pass_from: from,
                known_product: known,
                out_offset: at,
            },
            known: known_product,
            dtype,
        };
        case.check(&format!("{turn}: {dtype:?}, {rows} rows, {count} columns, {near}, {from}, {known:?}"));
    }
}

#[test]
fn vectors_without_length_give_zeros() {
    for dtype in DTYPES {
        for (rows, count) in [(0, 0), (1, 0), (5, 0), (5, 3), (3000, 4)] {
            let basis = orthonormal(rows, count, dtype, &mut Random(5));
            let step =
                Step { rows, count, first_pass_from: 0, second_pass_from: 0, known_product: None, out_offset: 4 };
            let (memory, numbers) = Case { basis, vector: vec![0.0; rows], step, known: 0.0, dtype }.run();
            assert!(memory[count * rows..(count + 1) * rows].iter().all(|&x| x == 0.0));
            assert!(numbers[4..4 + count + 2].iter().all(|&x| x == 0.0));
        }
    }
}

#[test]
fn what_is_not_finite_shows_in_the_length() {
    for dtype in DTYPES {
        for odd in [f64::NAN, f64::INFINITY] {
            let basis = orthonormal(2000, 3, dtype, &mut Random(9));
            let mut vector = vec![1.0; 2000];
            vector[1500] = odd;
            let step = Step {
                rows: 2000,
                count: 3,
                first_pass_from: 0,
                second_pass_from: 0,
                known_product: None,
                out_offset: 4,
            };
            let (_, numbers) = Case { basis, vector, step, known: 0.0, dtype }.run();
            assert!(!numbers[4 + 3].is_finite());
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let step = Step { rows: 4, count: 1, first_pass_from: 0, second_pass_from: 0, known_product: None, out_offset: 1 };
    let numbers = || upload(&[0.0; 9], DType::Float64);
    let (basis, vector) = (upload(&[0.5; 8], DType::Float64), upload(&[1.0; 4], DType::Float64));
    assert!(extend(&basis, &vector, &numbers(), step).is_ok());
    // a float32 vector is converted
    assert!(extend(&basis, &upload(&[1.0; 4], DType::Float32), &numbers(), step).is_ok());
    let refused = |basis: &Array, vector: &Array, numbers: &Array, step: Step| {
        assert_eq!(extend(basis, vector, numbers, step).unwrap_err().kind, Kind::Shape);
    };
    let complex = basis.cast(DType::Complex128, None).unwrap();
    refused(&complex, &vector, &numbers(), step);
    refused(&upload(&[1.0; 8], DType::Int32), &vector, &numbers(), step);
    refused(&basis, &upload(&[1.0; 3], DType::Float64), &numbers(), step);
    refused(&basis, &vector, &upload(&[0.0; 9], DType::Float32), step);
    for wrong in [
        Step { count: 2, ..step },
        Step { first_pass_from: 2, ..step },
        Step { second_pass_from: 2, ..step },
        Step { out_offset: 0, ..step },
        Step { out_offset: 7, ..step },
        Step { known_product: Some(3), ..step },
        Step { first_pass_from: 1, known_product: Some(9), ..step },
        Step { rows: usize::MAX, ..step },
    ] {
        refused(&basis, &vector, &numbers(), wrong);
    }
}
