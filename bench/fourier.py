"""The cases of fourier.R by CuPy, with its cached plans: name and milliseconds (median of ten).

usage: python3 bench/fourier.py
"""

import statistics
import time

import cupy as cp
import cupyx.scipy.signal


def say(name, f, times=10):
    f()
    cp.cuda.Device().synchronize()
    took = []
    for _ in range(times):
        cp.cuda.Device().synchronize()
        at = time.perf_counter()
        out = f()
        cp.cuda.Device().synchronize()
        took.append(time.perf_counter() - at)
        del out
    print(f"{name:28s} {statistics.median(took) * 1e3:10.3f} ms", flush=True)
    cp.get_default_memory_pool().free_all_blocks()


def normal(n, dtype):
    return (cp.random.standard_normal(n) + 1j * cp.random.standard_normal(n)).astype(dtype)


z = normal(2**26, cp.complex128)
say("c128 2^26", lambda: cp.fft.fft(z))
z = normal(2**26, cp.complex64)
say("c64 2^26", lambda: cp.fft.fft(z))
z = normal(10007 * 4096, cp.complex128).reshape(4096, 10007)
say("c128 10007 x 4096", lambda: cp.fft.fft(z))
z = normal(512**3, cp.complex128).reshape(512, 512, 512)
say("c128 512^3", lambda: cp.fft.fftn(z))
x = cp.random.standard_normal(2**27)
say("r64 2^27 half", lambda: cp.fft.rfft(x))
say("r64 2^27 whole", lambda: cp.fft.fft(x))
z = normal(10**7 + 19, cp.complex128)
say("c128 1e7 + 19", lambda: cp.fft.fft(z))
del x, z
x, y = cp.random.standard_normal(10**8), cp.random.standard_normal(10**5)
say("convolve 1e8, 1e5", lambda: cupyx.scipy.signal.fftconvolve(x, y))
say("convolve 1e8, 1e5 by blocks", lambda: cupyx.scipy.signal.oaconvolve(x, y))
