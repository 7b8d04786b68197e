"""The cases of iterative.R by CuPy (cupyx.scipy.sparse.linalg), or by SciPy without a GPU: name, milliseconds (median),
iterations or products, milliseconds for each, and a residual or the first value.

usage: python3 bench/iterative.py [quick] [cpu]
"""

import statistics
import sys
import time

import numpy as np

small = "cpu" in sys.argv
if small:
    import scipy.sparse as sparse
    import scipy.sparse.linalg as la

    xp = np
    wait = lambda: None
else:
    import cupy as xp
    import cupyx.scipy.sparse as sparse
    import cupyx.scipy.sparse.linalg as la

    wait = xp.cuda.Device().synchronize
times = 2 if "quick" in sys.argv else 5


class Counted:
    """A linear operator that counts the vectors that it has multiplied."""

    def __init__(self, n, forward, backward=None, columns=None):
        self.count = 0

        def by(f):
            def product(v):
                self.count += 1 if v.ndim == 1 else v.shape[1]
                return f(v)

            return product

        self.operator = la.LinearOperator(
            (n, columns or n), matvec=by(forward), rmatvec=by(backward) if backward else None, dtype=np.float64
        )
        self.operator.dtype = np.dtype(np.float64)


def say(name, f, repeats=times):
    """f() gives a count and a number."""
    try:
        f()
        took = []
        for _ in range(repeats):
            wait()
            at = time.perf_counter()
            count, first = f()
            wait()
            took.append((time.perf_counter() - at) * 1e3)
    except Exception as e:  # a case that this library lacks is a line too
        print(f"{name:34s} {type(e).__name__}: {e}", flush=True)
        return
    ms = statistics.median(took)
    print(f"{name:34s} {ms:10.2f} ms {count:6d} x {ms / count:8.4f} ms  {float(first):.8g}", flush=True)


def solved(operator, b, solve, **more):
    counted = Counted(len(b), operator)
    x, _ = solve(counted.operator, b, **more)
    return counted.count, xp.linalg.norm(b - operator(x)) / xp.linalg.norm(b)


def no_tolerance(solve):
    """The argument's name differs between versions."""
    return {"rtol": 0.0} if "rtol" in solve.__code__.co_varnames else {"tol": 0.0}


def stencil(middle, above, below, left, right):
    def product(v):
        x = v.reshape(m, m)
        y = middle * x
        y[1:] -= above * x[:-1]
        y[:-1] -= below * x[1:]
        y[:, 1:] -= left * x[:, :-1]
        y[:, :-1] -= right * x[:, 1:]
        return y.ravel()

    return product


def band(middle, above, below, left, right):
    """The same as a sparse matrix."""
    size = m * m
    side = xp.ones(size)
    side[::m] = 0
    rows = [middle * xp.ones(size), -left * side[1:], -right * side[1:], -above * xp.ones(size - m),
            -below * xp.ones(size - m)]
    return sparse.diags(rows, [0, -1, 1, -m, m], shape=(size, size), format="csr")


m = 300 if small else 2000
b = xp.random.standard_normal(m * m)
poisson, wind = (4, 1, 1, 1, 1), (4, 1.2, 0.8, 1.1, 0.9)
for kind, make in (("slices", stencil), ("CSR", lambda *v: band(*v).dot)):
    A, W = make(*poisson), make(*wind)
    say(f"cg, Poisson {m} x {m}, {kind}", lambda: solved(A, b, la.cg, maxiter=500, **no_tolerance(la.cg)))
    say(f"gmres(30), convection {m} x {m}, {kind}", lambda: solved(
        W, b, la.gmres, restart=30, maxiter=10 if small else 300, **no_tolerance(la.gmres)))
n = 1000 if small else 8192
a = xp.random.standard_normal((n, n))
spd = a.T @ a / n + xp.eye(n)
one = xp.random.standard_normal(n)
sides = xp.random.standard_normal((n, 16))
say(f"cg, dense {n}", lambda: solved(spd.dot, one, la.cg, maxiter=100, **no_tolerance(la.cg)))
say(f"cg, dense {n}, 16 sides in turn", lambda: [
    solved(spd.dot, xp.ascontiguousarray(sides[:, j]), la.cg, maxiter=100, **no_tolerance(la.cg))
    for j in range(16)][0])
say(f"gmres(30), dense {n}", lambda: solved(
    a.dot, one, la.gmres, restart=30, maxiter=3 if small else 90, **no_tolerance(la.gmres)))
del a, spd
rows = 20000 if small else 10**6
x, y = xp.random.standard_normal((rows, 200)), xp.random.standard_normal(rows)


def least_squares():
    found = la.lsmr(x if small else la.aslinearoperator(x), y, atol=1e-8, btol=1e-8)
    return int(found[2]), found[3] / xp.linalg.norm(y)


say(f"lsmr, {rows:.0e} x 200, to 1e-8", least_squares)
del x, y

rows, columns = (5000, 500) if small else (10**5, 2000)
x = xp.random.standard_normal((rows, columns)) * (1 + xp.arange(1, columns + 1) / 20) ** -0.7 + 0.5


def by_hand(forward, backward, p, k, power):
    """Halko, Martinsson and Tropp, algorithm 4.4 and 5.1."""
    q = xp.linalg.qr(forward(xp.random.standard_normal((p, k + 10))))[0]
    for _ in range(power):
        q = xp.linalg.qr(forward(xp.linalg.qr(backward(q))[0]))[0]
    u, d, v = xp.linalg.svd(backward(q).T, full_matrices=False)
    return (2 * power + 2) * (k + 10), d[0]


def some_values(A, k, **more):
    d = la.svds(A, k=k, return_singular_vectors=True, **more)[1]
    return 1, d.max()


say(f"svd by hand, {rows:.0e} x {columns}, k = 50", lambda: by_hand(lambda w: x @ w, lambda z: x.T @ z, columns, 50, 4))
say(f"svds, {rows:.0e} x {columns}, k = 50", lambda: some_values(x, 50, tol=1e-6))
mu = x.mean(axis=0)
say("svd by hand, centered", lambda: by_hand(
    lambda w: x @ w - mu @ w, lambda z: x.T @ z - xp.outer(mu, z.sum(axis=0)), columns, 50, 4))
del x
counted = Counted(m * m, stencil(*poisson))
say(f"eigsh, Poisson {m} x {m}, k = 6, LA", lambda: (
    1, la.eigsh(counted.operator, k=6, which="LA", tol=1e-6, maxiter=30 * 20)[0].max()), 2)

shape = (20000, 2000) if small else (10**6, 20000)
nonzeros = shape[0] * shape[1] // 1000
s = sparse.csr_matrix((xp.random.standard_normal(nonzeros), (
    xp.random.randint(0, shape[0], nonzeros), xp.random.randint(0, shape[1], nonzeros))), shape=shape)
st = s.T.tocsr()
mu = xp.asarray(s.mean(axis=0)).ravel()
say(f"svd by hand, sparse, centered, k = 50", lambda: by_hand(
    lambda w: s @ w - mu @ w, lambda z: st @ z - xp.outer(mu, z.sum(axis=0)), shape[1], 50, 4))
say("svds, sparse, k = 50", lambda: some_values(s, 50, tol=1e-6))
