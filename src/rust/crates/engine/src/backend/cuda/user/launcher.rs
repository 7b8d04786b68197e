//! Host functions that launch kernels, in a shared object built by nvcc, such as
//! `int f(const float* x, int n, cudaStream_t s)`.
//!
//! Their signatures are known at run time only. On x86-64 and AArch64 (System V and AAPCS64) integers and addresses are
//! passed in one set of registers, floating point in another, each in order; the remaining arguments go to the stack in
//! words of 8 bytes. So one call that fills all these registers and some words of stack serves every function whose
//! parameters are numbers and addresses: the function ignores the registers that it does not use.

use crate::backend::cuda::context::device::Cuda;
use crate::backend::Launch;
use verdigris_ops::error::{Error, Kind, Result};

#[cfg(all(unix, any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use here::call;

#[cfg(not(all(unix, any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub fn call(_: &Cuda, _: &Launch<'_>) -> Result<()> {
    Err(Error::new(Kind::Library, "host functions can be called on Linux only"))
}

#[cfg(all(unix, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod here {
    use std::ffi::c_void;
    use std::sync::Arc;

    use super::*;
    use crate::backend::cuda::driver::library::Handle;
    use crate::kernel::{Code, Element, Passing, Signature};

    const WHOLE: usize = if cfg!(target_arch = "x86_64") { 6 } else { 8 };
    const FLOATS: usize = 8;
    const STACK: usize = 16;

    /// The address of a function, with its library, which stays loaded.
    struct Found {
        address: usize,
        _library: Arc<Handle>,
    }

    /// The contents of registers and stack at the call.
    #[derive(Default, Debug, PartialEq)]
    struct Words {
        whole: Vec<u64>,
        floats: Vec<u64>,
        stack: Vec<u64>,
    }

    impl Words {
        fn add(&mut self, word: u64, float: bool) {
            let (registers, most) = if float { (&mut self.floats, FLOATS) } else { (&mut self.whole, WHOLE) };
            if registers.len() < most {
                registers.push(word);
            } else {
                self.stack.push(word);
            }
        }
    }

    /// Distributes arguments over registers and stack. `arguments` gives the bits of the k-th argument, not counting
    /// streams, which get `stream`.
    fn words(signature: &Signature, arguments: &dyn Fn(usize) -> u64, stream: u64) -> Result<Words> {
        let mut words = Words::default();
        let mut taken = 0;
        for (k, parameter) in signature.parameters.iter().enumerate() {
            if parameter.element == Element::Stream {
                words.add(stream, false);
                continue;
            }
            let word = arguments(taken);
            taken += 1;
            match (&parameter.element, parameter.passing) {
                (_, Passing::Read | Passing::Write | Passing::Either) => words.add(word, false),
                // compilers sign-extend arguments, and the callee may rely on that
                (Element::Integer(bytes, true), _) => {
                    let unused = 64 - 8 * u32::from(*bytes);
                    words.add((((word << unused) as i64) >> unused) as u64, false);
                }
                (Element::Integer(..) | Element::Bool, _) => words.add(word, false),
                (Element::Float | Element::Double, _) => words.add(word, true),
                _ => return Err(signature.misfit(k, "a host function takes numbers and pointers only")),
            }
        }
        if words.stack.len() > STACK {
            return Err(Error::new(
                Kind::Argument,
                format!("`{}` has more parameters than can be passed: {}", signature.name, signature.parameters.len()),
            ));
        }
        words.whole.resize(8, 0);
        words.floats.resize(FLOATS, 0);
        words.stack.resize(STACK, 0);
        Ok(words)
    }

    #[rustfmt::skip]
    /// # Safety
    /// `address` is that of a C function with the parameters for which `w` was made.
    unsafe fn invoke(address: usize, w: &Words) -> u32 {
        let f: Vec<f64> = w.floats.iter().map(|&bits| f64::from_bits(bits)).collect();
        let (i, s) = (&w.whole, &w.stack);
        type Word = u64;
        #[cfg(target_arch = "x86_64")]
        #[rustfmt::skip]
        type Any = unsafe extern "C" fn(
            Word, Word, Word, Word, Word, Word, f64, f64, f64, f64, f64, f64, f64, f64,
            Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word) -> u32;
        #[cfg(target_arch = "aarch64")]
        #[rustfmt::skip]
        type Any = unsafe extern "C" fn(
            Word, Word, Word, Word, Word, Word, Word, Word, f64, f64, f64, f64, f64, f64, f64, f64,
            Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word) -> u32;
        // SAFETY: the caller's promise; the top of this file explains why surplus words do no harm.
        unsafe {
            let function = std::mem::transmute::<*const c_void, Any>(std::ptr::with_exposed_provenance(address));
            #[cfg(target_arch = "x86_64")]
            return function(
                i[0], i[1], i[2], i[3], i[4], i[5], f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7],
                s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12], s[13], s[14], s[15]);
            #[cfg(target_arch = "aarch64")]
            return function(
                i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7], f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7],
                s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12], s[13], s[14], s[15]);
        }
    }

    pub fn call(cuda: &Cuda, launch: &Launch<'_>) -> Result<()> {
        let name = &launch.function.name;
        let found = launch.function.loaded.get(cuda.properties.ordinal, || {
            let Code::Binary(_, Some(path)) = &launch.function.module.spec.code else {
                return Err(Error::new(
                    Kind::Argument,
                    format!("`{name}` is a host function, but the module has no file"),
                ));
            };
            let library = Handle::open(path).map_err(|why| {
                Error::new(Kind::Library, format!("{} cannot be loaded: {}", path.display(), why.reason))
            })?;
            let address = library.address(name).ok_or_else(|| {
                Error::new(Kind::Argument, format!("{} has no function `{name}`", path.display())).advise(
                    "Host functions must be `extern \"C\"`, and kernels be declared `__global__` in `signatures`.",
                )
            })?;
            Ok(Found { address: address.expose_provenance(), _library: Arc::new(library) })
        })?;
        let word = |k: usize| {
            let bytes = launch.arguments.bytes(k);
            let mut word = [0; 8];
            let n = bytes.len().min(8);
            word[..n].copy_from_slice(&bytes[..n]);
            u64::from_le_bytes(word)
        };
        // the function may keep the stream and queue work on it later
        let stream = cuda.stream_state().give_out();
        let words = words(launch.signature, &word, stream.as_raw() as u64)?;
        let _entered = cuda.enter()?;
        // SAFETY: the user says that this is the function's signature.
        let status = unsafe { invoke(found.address, &words) };
        if launch.signature.status && status != 0 {
            return Err(Error::new(Kind::Launch, format!("`{name}` returned {}", status as i32))
                .advise(format!("The arguments were {}.", (launch.described)())));
        }
        Ok(())
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::kernel::{Module, Spec};

        #[rustfmt::skip]
        extern "C" fn mixed(
            a: i32, x: f32, p: *const u8, b: i8, y: f64, c: u16, d: i64, s: *const u8, e: i32, f: i64, z: f32, g: i32,
        ) -> i32 {
            let whole = a == -7 && b == -3 && c == 65535 && d == -1 && e == -9 && f == 1 << 40 && g == 12;
            let rest = x == 1.5 && y == -2.25 && z == 0.5 && p as usize == 4096 && s as usize == 77;
            if whole && rest { 42 } else { 0 }
        }

        #[rustfmt::skip]
        extern "C" fn floats(
            a: f64, b: f32, c: f64, d: f32, e: f64, f: f32, g: f64, h: f32, i: f64, n: i32, j: f32,
        ) -> i32 {
            let all = [a, f64::from(b), c, f64::from(d), e, f64::from(f), g, f64::from(h), i, f64::from(j)];
            i32::from(n == 5 && all.iter().enumerate().all(|(k, &x)| x == k as f64 + 0.5))
        }

        fn signature(text: &str) -> Signature {
            let declared = crate::kernel::Module::new(Spec {
                code: Code::Binary(b".version 8.0\n".to_vec(), None),
                signatures: vec![text.into()],
                ..Spec::default()
            });
            let module: Arc<Module> = Arc::new(declared.unwrap());
            module.function(None).unwrap().known_signature().unwrap().as_ref().clone()
        }

        #[test]
        fn arguments_arrive_in_registers_and_on_the_stack() {
            let text =
                "int mixed(int a, float x, const float* p, signed char b, double y, unsigned short c, long long d, \
                        cudaStream_t s, int e, long long f, float z, int g)";
            let low = |v: i64, bytes: usize| v as u64 & (u64::MAX >> (64 - 8 * bytes));
            let values = [
                low(-7, 4),
                u64::from(1.5f32.to_bits()),
                4096,
                low(-3, 1),
                (-2.25f64).to_bits(),
                65535,
                low(-1, 8),
                low(-9, 4),
                1 << 40,
                u64::from(0.5f32.to_bits()),
                12,
            ];
            let words = super::words(&signature(text), &|k| values[k], 77).unwrap();
            // SAFETY: the function has this signature.
            assert_eq!(unsafe { invoke(mixed as *const () as usize, &words) }, 42);
            let text = "int f(double a, float b, double c, float d, double e, float f, double g, float h, double i, int n, float j)";
            let values = |k: usize| match k {
                9 => 5,
                10 => u64::from(9.5f32.to_bits()),
                k if k % 2 == 0 => (k as f64 + 0.5).to_bits(),
                k => u64::from((k as f32 + 0.5).to_bits()),
            };
            let words = super::words(&signature(text), &values, 0).unwrap();
            // SAFETY: as above.
            assert_eq!(unsafe { invoke(floats as *const () as usize, &words) }, 1);
            let complex = super::words(&signature("void f(float2 z)"), &|_| 0, 0).unwrap_err();
            assert!(complex.message.contains("numbers and pointers only"), "{complex}");
        }
    }
}
