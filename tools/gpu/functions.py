#!/usr/bin/env python3
"""Finds the CUDA functions whose bits changed from one version of NVRTC to the next, for `CHANGES` in
src/rust/crates/engine/src/backend/cuda/interpret/mod.rs. Every float32 is tried, of float64 and of pairs 2^30 random ones.

usage: tools/gpu/functions.py compile FOLDER [ARCHITECTURE]     each version by pip, and its FOLDER/VERSION.cubin (sm_90); needs no GPU
       tools/gpu/functions.py run FOLDER                        on a GPU of that architecture; FOLDER with the cubins is enough
"""

import ctypes
import pathlib
import subprocess
import sys

# the last release of each version
VERSIONS = ["12.0.140", "12.1.105", "12.2.140", "12.3.107", "12.4.127", "12.5.82", "12.6.85", "12.8.93", "12.9.86",
            "13.0.88", "13.1.115", "13.2.86", "13.3.33", "13.4.92", "13.5.37"]
# those that kernels/ calls
UNARY = ["exp", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh",
         "asinh", "acosh", "atanh", "sqrt", "sine_of_both", "cosine_of_both"]
FLOAT = ["sinpif", "cospif"]
BINARY = ["pow", "atan2", "fmod", "hypot"]

# A kernel adds up a hash of each operand and its result; operands depend on the place alone.
SOURCE = """
typedef unsigned long long u64;
__device__ u64 mix(u64 x) {
  x ^= x >> 30; x *= 0xbf58476d1ce4e5b9ull; x ^= x >> 27; x *= 0x94d049bb133111ebull;
  return x ^ x >> 31;
}
__device__ double sine_of_both(double x) { double s, c; sincos(x, &s, &c); return s; }
__device__ double cosine_of_both(double x) { double s, c; sincos(x, &s, &c); return c; }
__device__ float sine_of_both(float x) { float s, c; sincosf(x, &s, &c); return s; }
__device__ float cosine_of_both(float x) { float s, c; sincosf(x, &s, &c); return c; }
// NaNs are one value
__device__ u64 bits(double x) { return x != x ? 1 : __double_as_longlong(x); }
__device__ u64 bits(float x) { return x != x ? 1 : __float_as_uint(x); }
// any bits, and three ranges in which functions do most of their work
__device__ double draw(u64 at, double) {
  u64 r = mix(at);
  double unit = (r >> 11) * 0x1p-53 * 2 - 1;
  switch (mix(r) % 4) {
    case 0: return __longlong_as_double(r);
    case 1: return unit;
    case 2: return unit * 32;
    default: return ldexp(1 + unit / 2, (int)(mix(r + 1) % 81) - 40) * (r & 1 ? 1 : -1);
  }
}
__device__ float draw(u64 at, float) {
  u64 r = mix(at);
  return mix(r) % 4 ? (float)draw(at, 0.0) : __uint_as_float((unsigned)r);
}
__device__ float every(u64 at, float) { return __uint_as_float((unsigned)at); }
__device__ double every(u64 at, double) { return draw(at, 0.0); }
#define EACH(NAME, T, N, RESULT)                                                          \\
  extern "C" __global__ void NAME(u64* out) {                                             \\
    u64 sum = 0;                                                                          \\
    for (u64 i = blockIdx.x * 256ull + threadIdx.x; i < N; i += gridDim.x * 256ull) {     \\
      T x = every(i, T()), y = draw(i ^ 0x5555555500000000ull, T()), z = RESULT;          \\
      sum += mix(i * 0x9e3779b97f4a7c15ull ^ bits(z));                                    \\
    }                                                                                     \\
    atomicAdd(out, sum);                                                                  \\
  }
"""


def kernels():
    """Name of each kernel, with its element type, how many operands it takes, and the call."""
    for f in UNARY:
        yield f"{f}_f32", "float", "1ull << 32", f"{f}(x)"
        yield f"{f}_f64", "double", "1ull << 30", f"{f}(x)"
    for f in FLOAT:
        yield f"{f[:-1]}_f32", "float", "1ull << 32", f"{f}(x)"
    for f in BINARY:
        # the first operand runs through all of its bits four times, beside other second ones
        yield f"{f}_f32", "float", "1ull << 32", f"{f}(x, y)"
        yield f"{f}_f64", "double", "1ull << 30", f"{f}(x, y)"


def compile_all(folder, arch):
    text = SOURCE + "".join(f"EACH({name}, {kind}, ({n}), {call})\n" for name, kind, n, call in kernels())
    for version in VERSIONS:
        package = "nvidia-cuda-nvrtc" + ("-cu12" if version.startswith("12.") else "")
        place = folder / f"nvrtc-{version}"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--root-user-action=ignore", "--no-deps"]
        subprocess.run([*pip, "--target", place, f"{package}=={version}"], check=True)
        library = next(place.rglob("libnvrtc.so.1?"))
        for part in library.parent.glob("libnvrtc-builtins.so.*"):  # which the library looks for by its name alone
            ctypes.CDLL(str(part))
        nvrtc = ctypes.CDLL(str(library))
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        options = [f"--gpu-architecture=sm_{arch}", "--fmad=false", "--std=c++17"]
        given = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"functions.cu", 0, None, None)
        if nvrtc.nvrtcCompileProgram(program, len(options), given):
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            sys.exit(f"NVRTC {version}: {log.value.decode()}")
        nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        cubin = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetCUBIN(program, cubin)
        (folder / f"{version}.cubin").write_bytes(cubin.raw)
        print(f"{version}: {size.value} bytes", flush=True)


def run_all(folder):
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        status = getattr(cuda, name)(*arguments)
        if status:
            sys.exit(f"{name}: error {status}")

    device, context, out = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(out), ctypes.c_size_t(8))
    hashes = {}
    for version in VERSIONS:
        module, function, value = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        call("cuModuleLoadData", ctypes.byref(module), (folder / f"{version}.cubin").read_bytes())
        for name, *_ in kernels():
            call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            call("cuMemsetD32_v2", out, 0, ctypes.c_size_t(2))
            arguments = (ctypes.c_void_p * 1)(ctypes.addressof(out))
            call("cuLaunchKernel", function, 2048, 1, 1, 256, 1, 1, 0, None, arguments, None)
            call("cuMemcpyDtoH_v2", ctypes.byref(value), out, ctypes.c_size_t(8))
            hashes[name, version] = value.value
    for name, *_ in kernels():
        changes = [f"{a} -> {b}" for a, b in zip(VERSIONS, VERSIONS[1:]) if hashes[name, a] != hashes[name, b]]
        print(f"{name}: {', '.join(changes) or 'same'}")


if len(sys.argv) < 3 or sys.argv[1] not in ("compile", "run"):
    sys.exit(__doc__)
folder = pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
if sys.argv[1] == "compile":
    compile_all(folder, sys.argv[3] if len(sys.argv) > 3 else "90")
else:
    run_all(folder)
