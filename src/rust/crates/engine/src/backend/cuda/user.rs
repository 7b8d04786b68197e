//! Kernels that people write: compiled as they stand, and launched within the device's limits.

use super::api;
use super::compile::{self, Style, Target};
use super::device::{self, Cuda};
use super::launch::Args;
use crate::backend::Launch;
use crate::error::{Error, Kind, Result};

/// Without `--fmad=false`: these kernels are the user's arithmetic, compiled as nvcc would.
const STYLE: Style = Style { label: c"kernel.cu", options: &["--std=c++17", "--device-as-default-execution-space"] };

const THREADS: u32 = 256;
/// The same for every compute capability (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
const MOST_THREADS: u64 = 1024;
const MOST_BLOCK: [u32; 3] = [1024, 1024, 64];
const MOST_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// What a block may have without being allowed more.
const USUAL_SHARED: u32 = 48 * 1024;

/// Compiles a source for the first device; for the newest architecture that NVRTC knows, where there is no device.
/// False where there is no NVRTC to ask.
///
/// # Errors
/// `Compile`, naming the line, with the compiler's log as detail.
pub fn check(source: &str) -> Result<bool> {
    if device::count().unwrap_or(0) > 0 {
        if let Ok(cuda) = Cuda::of(0) {
            return match module(cuda, source) {
                Err(e) if e.kind == Kind::Library => Ok(false),
                other => other.map(|_| true),
            };
        }
    }
    let Ok(nvrtc) = api::nvrtc() else { return Ok(false) };
    let Some(newest) = compile::archs(nvrtc)?.into_iter().max() else { return Ok(false) };
    compile::compile_as(source, Target::Ptx(newest), &STYLE).map_err(|e| located(e, source))?;
    Ok(true)
}

fn module(cuda: &Cuda, source: &str) -> Result<std::sync::Arc<compile::Module>> {
    // nothing of ours begins so, and the source is all that determines it
    let key = format!("user kernel\n{source}");
    cuda.module_as(&key, &STYLE, || source.to_string()).map_err(|e| located(e, source))
}

/// Puts the first complaint and the line that it is about into the message.
fn located(error: Error, source: &str) -> Error {
    let (Kind::Compile, Some(log)) = (error.kind, error.detail.as_deref()) else { return error };
    // kernel.cu(3): error: identifier "z" is undefined
    let complaint = log.lines().find_map(|l| {
        let (place, what) = l.split_once("): ")?;
        let (_, line) = place.rsplit_once('(')?;
        let what = what.strip_prefix("error: ").or_else(|| what.split_once("error: ").map(|(_, w)| w))?;
        Some((place.starts_with("kernel.cu"), line.parse::<usize>().ok()?, what))
    });
    let Some((own, line, what)) = complaint else { return error };
    if !own {
        return error; // in a header: the log says where
    }
    let message = format!("the kernel does not compile: line {line}: {what}");
    let mut located = Error::new(Kind::Compile, message).detail(log);
    if let Some(text) = source.lines().nth(line - 1) {
        located = located.advise(format!("Line {line} is `{}`.", text.trim()));
    }
    located.advise("The condition's `detail` has the whole log.")
}

/// See `Backend::launch`.
pub fn launch(cuda: &Cuda, launch: &Launch<'_>) -> Result<()> {
    let kernel = cuda.function(&*module(cuda, launch.source)?, launch.name)?;
    let (grid, block) = geometry(launch, kernel.max_threads)?;
    if launch.shared > cuda.properties.shared {
        return Err(refuse(
            launch,
            &format!("{} bytes of shared memory", launch.shared),
            &format!("{}", cuda.properties.shared),
        ));
    }
    if launch.shared > USUAL_SHARED {
        cuda.allow_shared(&kernel, launch.shared)?;
    }
    let mut args = Args::new();
    for bytes in launch.arguments {
        args.push_bytes(bytes);
    }
    cuda.launch(&kernel, grid, block, launch.shared, &mut args)
}

fn refuse(launch: &Launch<'_>, asked: &str, most: &str) -> Error {
    Error::new(Kind::Launch, format!("kernel `{}` cannot have {asked}: at most {most}", launch.name))
}

/// The grid and the block, within what the device and the kernel's registers allow.
fn geometry(launch: &Launch<'_>, max_threads: u32) -> Result<([u32; 3], [u32; 3])> {
    let most = u64::from(max_threads).min(MOST_THREADS);
    let block = launch.block.unwrap_or([THREADS.min(max_threads.max(1)), 1, 1]);
    let threads: u64 = block.iter().map(|&b| u64::from(b)).product();
    if threads > most || threads == 0 {
        return Err(refuse(launch, &format!("{threads} threads in a block"), &format!("{most} (and at least 1)")));
    }
    let within = |what: &str, asked: [u32; 3], most: [u32; 3]| {
        if asked.iter().zip(&most).all(|(&a, &m)| 0 < a && a <= m) {
            return Ok(());
        }
        Err(refuse(launch, &format!("{what} {asked:?}"), &format!("{most:?} (and at least 1)")))
    };
    within("block", block, MOST_BLOCK)?;
    let grid = match launch.grid {
        Some(grid) => grid,
        None if block[1] > 1 || block[2] > 1 => {
            return Err(Error::new(
                Kind::Argument,
                format!("kernel `{}`: a block of more than one dimension needs `grid`", launch.name),
            ));
        }
        None => [u32::try_from((launch.n as u64).div_ceil(threads)).unwrap_or(u32::MAX), 1, 1],
    };
    within("grid", grid, MOST_GRID)?;
    Ok((grid, block))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(grid: Option<[u32; 3]>, block: Option<[u32; 3]>, n: usize) -> Launch<'static> {
        Launch { source: "", name: "k", grid, block, shared: 0, n, arguments: &[] }
    }

    #[test]
    fn blocks_cover_n_and_limits_are_kept() {
        assert_eq!(geometry(&asked(None, None, 1000), 1024).unwrap(), ([4, 1, 1], [256, 1, 1]));
        assert_eq!(geometry(&asked(None, None, 1000), 128).unwrap(), ([8, 1, 1], [128, 1, 1]));
        assert_eq!(geometry(&asked(None, Some([512, 1, 1]), 513), 1024).unwrap().0, [2, 1, 1]);
        assert!(geometry(&asked(Some([2, 3, 1]), Some([8, 8, 2]), 0), 1024).is_ok());
        for (grid, block, n) in [
            (None, Some([2048, 1, 1]), 10),
            (None, Some([0, 1, 1]), 10),
            (Some([1, 1, 1]), Some([1, 1, 128]), 10),
            (Some([1, 70000, 1]), None, 10),
            (Some([0, 1, 1]), None, 10),
            (None, Some([1, 1, 1]), 1 << 32),
        ] {
            assert_eq!(geometry(&asked(grid, block, n), 1024).unwrap_err().kind, Kind::Launch);
        }
        assert_eq!(geometry(&asked(None, Some([16, 16, 1]), 9), 1024).unwrap_err().kind, Kind::Argument);
    }

    #[test]
    fn a_complaint_names_the_line() {
        let log = "kernel.cu(2): warning #177-D: variable\n\nkernel.cu(3): error: identifier \"z\" is undefined\n    y = z;\n";
        let error = located(Error::new(Kind::Compile, "x").detail(log), "a\nb\n  y = z;\n");
        assert_eq!(error.message, "the kernel does not compile: line 3: identifier \"z\" is undefined");
        assert_eq!(error.advice[0], "Line 3 is `y = z;`.");
        assert_eq!(error.detail.as_deref(), Some(log));
    }

    /// Skipped where there is no NVRTC, unless VERDIGRIS_CUDA_PATH says where one is.
    #[test]
    fn nvrtc_compiles_a_kernel_and_refuses_a_wrong_one() {
        let source = "extern \"C\" __global__ void f(const float* x, float* y, int n) {\n  \
                      int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = 2 * x[i];\n}\n";
        match check(source) {
            Ok(false) if std::env::var_os("VERDIGRIS_CUDA_PATH").is_none() => return eprintln!("skipped: no NVRTC"),
            other => assert!(other.unwrap()),
        }
        let error = check(&source.replace("2 * x", "2 * z")).unwrap_err();
        assert_eq!(error.kind, Kind::Compile);
        assert!(error.message.contains("line 3") && error.message.contains("\"z\" is undefined"), "{error}");
        assert!(error.detail.unwrap().contains("kernel.cu(3)"));
    }
}
