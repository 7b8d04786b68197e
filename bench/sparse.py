"""Products of sparse matrices by CuPy and PyTorch, beside bench/sparse.R, which says what the matrices are.

    python3 bench/sparse.py [--scale=1] [--matrices=uniform,power,banded,cells,long] [--dtypes=float64,float32]
                            [--seconds=0.3] [--peers=cupy,torch] [--csv=OUT]

Milliseconds a call, the fastest repeat, a batch of calls and a synchronisation at a time. --peers=scipy runs the script
on a machine without a GPU, to test it. What a peer does not have, or refuses, is passed over with a word. Each peer
gets matrices and dense factors in the order that it is fastest with: both orders are timed.
"""
import csv, sys, time
import numpy as np

FLAGS = dict(a[2:].split("=", 1) for a in sys.argv[1:] if a.startswith("--") and "=" in a)
SCALE, SECONDS = float(FLAGS.get("scale", 1)), float(FLAGS.get("seconds", 0.3))
DTYPES = FLAGS.get("dtypes", "float64,float32").split(",")
COLUMNS = 64


def stratified(lengths, columns, m):
    """Element k of a row is somewhere in the k-th of as many equal parts of the columns."""
    lengths = m.asarray(lengths)
    p = m.concatenate([m.zeros(1, dtype="int64"), m.cumsum(lengths)])
    n = int(p[-1])
    i = m.empty(n, dtype="int32")
    # some 1e8 elements at a time
    rows = len(lengths)
    step = max(1, int(rows * min(1.0, 1e8 / n)))
    for r in range(0, rows, step):
        own = lengths[r:r + step]
        from_, to = int(p[r]), int(p[min(r + step, rows)])
        row = m.repeat(m.arange(len(own)), own.tolist() if m is not np else own)
        k = m.arange(from_, to) - p[r:r + step][row]
        part = columns / own[row]
        low, high = m.ceil(k * part), m.floor((k + 1) * part)
        i[from_:to] = m.floor(k * part + m.random.random(to - from_) * (high - low)).astype("int32")
    return p, i, (rows, columns)


def banded(rows, m):
    at = (m.arange(rows)[:, None] + m.arange(-2, 3)[None, :])
    inside = (at >= 0) & (at < rows)
    p = m.concatenate([m.zeros(1, dtype="int64"), m.cumsum(inside.sum(1))])
    return p, at[inside].astype("int32"), (rows, rows)


def power(rows, m):
    lengths = np.maximum(1, np.floor(min(2e4, rows) * np.arange(1, rows + 1) ** -0.5)).astype("int64")
    np.random.default_rng(1).shuffle(lengths)
    return stratified(lengths, rows, m)


def long(rows, m):
    lengths = np.ones(rows, dtype="int64")
    lengths[16] = rows
    return stratified(lengths, rows, m)


MILLION = int(1e6 * SCALE)
MATRICES = {
    "uniform": lambda m: stratified(np.full(MILLION, 20), MILLION, m),
    "power": lambda m: power(MILLION, m),
    "banded": lambda m: banded(int(2e7 * SCALE), m),
    "cells": lambda m: stratified(np.full(MILLION, 1000), int(2e4), m),
    "long": lambda m: long(MILLION, m),
}


def fastest(run, wait):
    times = 1
    def timed():
        wait()
        start = time.perf_counter()
        for _ in range(times): run()
        wait()
        return (time.perf_counter() - start) / times
    timed()
    while (best := timed()) * times < 0.05: times *= 2
    spent = best * times
    while spent < SECONDS:
        took = timed()
        best, spent = min(best, took), spent + took * times
    return best


rows = []


def report(peer, matrix, case, dtype, run, wait):
    try: ms = 1e3 * fastest(run, wait)
    except Exception as e: return print(f"{peer} {matrix} {case} {dtype}: {str(e).splitlines()[0]}", file=sys.stderr)
    print(f"{peer:6} {matrix:8} {case:20} {dtype:8} {ms:10.3f} ms", flush=True)
    rows.append(dict(peer=peer, matrix=matrix, case=case, dtype=dtype, ms=ms))


def arrays(peer, m, csr_matrix, wait):
    for name in FLAGS.get("matrices", ",".join(MATRICES)).split(","):
        p, i, shape = MATRICES[name](m)
        for dtype in DTYPES:
            x = m.random.random(len(i)).astype(dtype)
            s = csr_matrix((x, i, p if len(i) >= 2**31 else p.astype("int32")), shape=shape)
            by_column = s.tocsc()
            b, B = m.random.random(shape[1]).astype(dtype), m.random.random((shape[1], COLUMNS)).astype(dtype)
            c, C = m.random.random(shape[0]).astype(dtype), m.random.random((shape[0], COLUMNS)).astype(dtype)
            run = lambda case, f: report(peer, name, case, dtype, f, wait)
            run("S %*% x", lambda: s @ b)
            for order in "CF":
                given, turned = m.array(B, order=order), m.array(C, order=order)
                run(f"S %*% B ({order})", lambda: s @ given)
                run(f"t(S) %*% B ({order})", lambda: by_column.T @ turned)
            run("t(S) %*% x", lambda: by_column.T @ c)
            run("t(S)", lambda: s.tocsc())
            run("colSums", lambda: s.sum(0))
            if name in ("uniform", "banded"): run("S %*% S", lambda: s @ s)


def torch_arrays(torch):
    wait = torch.cuda.synchronize
    try:
        import cupy as m
        bring = lambda a: torch.from_dlpack(a)
    except ImportError:
        m, bring = np, lambda a: torch.from_numpy(a).cuda()
    for name in FLAGS.get("matrices", ",".join(MATRICES)).split(","):
        p, i, shape = MATRICES[name](m)
        offsets, at = bring(p), bring(i)
        for dtype in DTYPES:
            draw = lambda *d: torch.rand(*d, dtype=getattr(torch, dtype), device="cuda")
            s = torch.sparse_csr_tensor(offsets.to(torch.int32) if len(i) < 2**31 else offsets,
                                        at if len(i) < 2**31 else at.to(torch.int64), draw(len(i)), size=shape)
            b, B = draw(shape[1]), draw(shape[1], COLUMNS)
            run = lambda case, f: report("torch", name, case, dtype, f, wait)
            run("S %*% x", lambda: s @ b)
            run("S %*% B (C)", lambda: s @ B)
            given = B.t().contiguous().t()
            run("S %*% B (F)", lambda: s @ given)
            if name in ("uniform", "banded"): run("S %*% S", lambda: s @ s)


for peer in FLAGS.get("peers", "cupy,torch").split(","):
    try:
        if peer == "scipy":
            from scipy.sparse import csr_matrix
            arrays(peer, np, csr_matrix, lambda: None)
        if peer == "cupy":
            import cupy as cp
            from cupyx.scipy.sparse import csr_matrix
            arrays(peer, cp, csr_matrix, lambda: cp.cuda.Device().synchronize())
        if peer == "torch":
            import torch
            torch.backends.cuda.matmul.allow_tf32 = False
            torch_arrays(torch)
    except Exception as e:
        print(f"no {peer}: {e}", file=sys.stderr)
if "csv" in FLAGS:
    with open(FLAGS["csv"], "w", newline="") as f:
        out = csv.DictWriter(f, ["peer", "matrix", "case", "dtype", "ms"])
        out.writeheader()
        out.writerows(rows)
