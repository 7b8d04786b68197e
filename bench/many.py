"""Many small matrices at once by CuPy and PyTorch, beside bench/many.R.

    python3 bench/many.py [--counts=1,100,1e4,1e5] [--sizes=4,8,16,32,64] [--seconds=0.3] [--peers=cupy,torch]
                          [--csv=OUT]

Microseconds a call, the fastest repeat, a batch of calls and a synchronisation at a time. --peers=numpy runs the script
on a machine without a GPU, to test it. What a peer does not have, or refuses, is passed over with a word.
"""
import csv, sys, time
import numpy as np

FLAGS = dict(a[2:].split("=", 1) for a in sys.argv[1:] if a.startswith("--") and "=" in a)
NUMBERS = lambda name, default: [float(x) for x in FLAGS.get(name, default).split(",")]
COUNTS, SIZES = [[int(x) for x in NUMBERS(*p)] for p in (("counts", "1,100,1e4,1e5"), ("sizes", "4,8,16,32,64"))]
SECONDS = float(FLAGS.get("seconds", 0.3))
PEERS = {}
for name in FLAGS.get("peers", "cupy,torch").split(","):
    try:
        if name == "numpy": PEERS[name] = (np, np.asarray, lambda: None)
        if name == "cupy":
            import cupy as cp
            PEERS[name] = (cp, cp.asarray, lambda: cp.cuda.Device().synchronize())
        if name == "torch":
            import torch
            torch.backends.cuda.matmul.allow_tf32 = False
            PEERS[name] = (torch, lambda x: torch.tensor(x, device="cuda"), torch.cuda.synchronize)
    except Exception as e:
        print(f"no {name}: {e}", file=sys.stderr)


def fastest(run, wait):
    times = 1
    def timed():
        wait()
        start = time.perf_counter()
        for _ in range(times): run()
        wait()
        return (time.perf_counter() - start) / times
    timed()
    while (best := timed()) * times < 0.02: times *= 2
    spent = best * times
    while spent < SECONDS:
        took = timed()
        best, spent = min(best, took), spent + took * times
    return best


CASES = {
    "chol": lambda m, o: m.linalg.cholesky(o["spd"]),
    "solve": lambda m, o: m.linalg.solve(o["a"], o["b"]),
    "inverse": lambda m, o: m.linalg.inv(o["a"]),
    "qr": lambda m, o: m.linalg.qr(o["a"]),
    "eigen": lambda m, o: m.linalg.eigh(o["spd"]),
    "svd": lambda m, o: m.linalg.svd(o["a"], full_matrices=False),
}
rows = []


def report(peer, case, dtype, n, count, run, wait):
    try: us = 1e6 * fastest(run, wait)
    except Exception as e: return print(f"{peer} {case} {dtype} {n} {count}: {str(e).splitlines()[0]}", file=sys.stderr)
    print(f"{peer:6} {case:8} {dtype:8} n = {n:2}, {count:6} matrices: {us:10.1f} us", flush=True)
    rows.append(dict(peer=peer, case=case, dtype=dtype, n=n, count=count, us=us))


rng = np.random.default_rng(1)
for dtype in ("float64", "float32"):
    for n in SIZES:
        for count in COUNTS:
            if n * n * count > 2e8: continue
            a = rng.standard_normal((count, n, n)).astype(dtype)
            spd = (a + a.transpose(0, 2, 1)) / 10 + n * np.eye(n, dtype=dtype)
            b = rng.standard_normal((count, n, 1)).astype(dtype)
            for peer, (m, put, wait) in PEERS.items():
                o = dict(a=put(a), spd=put(spd), b=put(b))
                for case, f in CASES.items(): report(peer, case, dtype, n, count, lambda: f(m, o), wait)
    a, b = rng.standard_normal((50, 50)).astype(dtype), rng.standard_normal(50).astype(dtype)
    spd = a @ a.T + 50 * np.eye(50, dtype=dtype)
    for peer, (m, put, wait) in PEERS.items():
        o = dict(a=put(a), spd=put(spd), b=put(b))
        report(peer, "solve1", dtype, 50, 1, lambda: m.linalg.solve(o["a"], o["b"]), wait)
        report(peer, "chol1", dtype, 50, 1, lambda: m.linalg.cholesky(o["spd"]), wait)
        for n in SIZES:
            x = put(a[:n, :n].copy()) if n <= 50 else put(rng.standard_normal((n, n)).astype(dtype))
            report(peer, "product1", dtype, n, 1, lambda: x @ x, wait)
if "csv" in FLAGS:
    with open(FLAGS["csv"], "w", newline="") as f:
        out = csv.DictWriter(f, ["peer", "case", "dtype", "n", "count", "us"])
        out.writeheader()
        out.writerows(rows)
