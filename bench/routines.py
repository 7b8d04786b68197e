"""The cases of bench/routines.R by Numba's CUDA: the same functions, one pixel or one path a thread, float64.

    python3 bench/routines.py [--scale=1] [--seconds=0.5]

Prints the fastest run of each in seconds. Paths draw xoroshiro128+ normals, which is what numba.cuda.random has.
"""
import math
import sys
import time

import numpy as np

if not hasattr(np, "row_stack"):  # NumPy 2.5 has dropped it, and numba-cuda asks for it
    np.row_stack = np.vstack
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_normal_float64

options = dict(a.lstrip("-").split("=") for a in sys.argv[1:])
scale, seconds = float(options.get("scale", 1)), float(options.get("seconds", 0.5))


@cuda.jit
def escape(counts, re, im, turns):
    i = cuda.grid(1)
    if i < counts.size:
        x, y, a, b, count = 0.0, 0.0, re[i], im[i], 0
        for k in range(1, turns + 1):
            x2 = x * x
            y2 = y * y
            if x2 + y2 > 4.0:
                count = k
                break
            y = 2.0 * x * y + b
            x = x2 - y2 + a
        counts[i] = count


@cuda.jit
def paths(out, states, s0, drift, step, steps):
    i = cuda.grid(1)
    if i < out.size:
        s, total = s0, 0.0
        for k in range(steps):
            s *= math.exp(drift + step * xoroshiro128p_normal_float64(states, i))
            total += s
        out[i] = max(total / steps - s0, 0.0)


def fastest(run):
    """Seconds of the fastest run of about `seconds` together; the first, which compiles, does not count."""
    run()
    cuda.synchronize()
    best, spent = math.inf, 0.0
    while spent < seconds:
        start = time.perf_counter()
        run()
        cuda.synchronize()
        took = time.perf_counter() - start
        best, spent = min(best, took), spent + took
    return best


side = round(4096 * math.sqrt(scale))
re = cuda.to_device(np.tile(np.linspace(-2, 0.6, side), side))
im = cuda.to_device(np.repeat(np.linspace(-1.2, 1.2, side), side))
counts = cuda.device_array(side * side, np.int32)
for threads in (128, 256):
    blocks = -(-side * side // threads)
    print(f"mandelbrot_1000 numba, blocks of {threads:4d} {fastest(lambda: escape[blocks, threads](counts, re, im, 1000)):.4g} s", flush=True)
n = int(1e7 * scale)
states, out = create_xoroshiro128p_states(n, seed=1), cuda.device_array(n, np.float64)
for threads in (128, 256):
    blocks = -(-n // threads)
    print(f"paths_252 numba, blocks of {threads:4d} {fastest(lambda: paths[blocks, threads](out, states, 100.0, 1e-4, 0.01, 252)):.4g} s", flush=True)
