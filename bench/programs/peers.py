# The nine first programs of this folder in CuPy and in PyTorch (eager), as their users write them.
#
#   python3 bench/programs/peers.py OUT.jsonl [--who=cupy,torch] [--scale=1] [--times=4] [NAME ...]
#
# Each runs in a fresh process; appends lines as run.R does.
import json, os, subprocess, sys, time
import numpy as np

arguments = sys.argv[1:]
option = lambda name, default: next((a.split("=", 1)[1] for a in arguments if a.startswith(f"--{name}=")), default)
plain = [a for a in arguments if not a.startswith("--")]
scale, times = float(option("scale", "1")), int(option("times", "4"))
N = lambda n: max(8, int(n * scale))


def det(n, k=1):
    i = np.arange(1, n + 1) * 0.6180339887 * k
    return i - np.floor(i)


def matrix(values, rows):
    return np.ascontiguousarray(values.reshape((rows, -1), order="F"))


# Each: the inputs on the host, and the program of the library `x` (cupy or torch), whose arrays `up` makes.
def kmeans(x, up):
    X = up(matrix(det(N(1e6) * 20), N(1e6)), "f4")
    start = X[:10]
    def run():
        C = start
        for _ in range(20):
            D = (X**2).sum(1)[:, None] + (C**2).sum(1)[None] - 2 * (X @ C.T)
            g = D.argmin(1)
            if x.__name__ == "torch":
                C = x.zeros_like(start).index_add_(0, g, X) / x.bincount(g, minlength=10)[:, None]
            else:
                S = x.stack([x.bincount(g, X[:, j], 10) for j in range(20)], 1)
                C = (S / x.bincount(g, minlength=10)[:, None]).astype("f4")
        return C.sum()
    return run


def gp(x, up):
    points = up(det(N(6000)) * 10)
    def run():
        y = x.sin(points)
        n = len(points)
        if x.__name__ == "torch":
            K = x.exp(-0.5 * (points[:, None] - points[None])**2) + x.eye(n, device="cuda", dtype=x.float64) * 1e-2
            L = x.linalg.cholesky(K)
            a = x.cholesky_solve(y[:, None], L)[:, 0]
            return -0.5 * (y * a).sum() - x.log(x.diagonal(L)).sum()
        from cupyx.scipy.linalg import solve_triangular
        K = x.exp(-0.5 * (points[:, None] - points[None])**2) + x.eye(n) * 1e-2
        L = x.linalg.cholesky(K)
        a = solve_triangular(L.T, solve_triangular(L, y, lower=True))
        return -0.5 * (y * a).sum() - x.log(x.diag(L)).sum()
    return run


def heat(x, up):
    start = up(matrix(det(N(2048)**2), N(2048)), "f4")
    def run():
        u = start.clone() if x.__name__ == "torch" else start.copy()
        for _ in range(200):
            u[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.2 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
                                                   - 4 * u[1:-1, 1:-1])
        return u.sum()
    return run


def irls(x, up):
    n = N(1e6)
    X = up(np.c_[np.ones(n), matrix(det(n * 49), n)])
    y = up((det(n, 7) > 0.4).astype("f8"))
    def run():
        b = up(np.zeros(50))
        for _ in range(10):
            eta = X @ b
            mu = 1 / (1 + x.exp(-eta))
            w = mu * (1 - mu)
            z = eta + (y - mu) / w
            b = x.linalg.solve(X.T @ (X * w[:, None]), X.T @ (z * w))
        return b.sum()
    return run


def nmf(x, up):
    n, m = N(5000), N(2000)
    V, W0 = up(matrix(det(n * m), n), "f4"), up(matrix(det(n * 20, 2) + 0.1, n), "f4")
    H0 = up(matrix(det(20 * m, 3) + 0.1, 20), "f4")
    def run():
        W, H = W0, H0
        for _ in range(100):
            H = H * (W.T @ V) / ((W.T @ W) @ H + 1e-9)
            W = W * (V @ H.T) / (W @ (H @ H.T) + 1e-9)
        return ((V - W @ H)**2).mean()
    return run


def bootstrap(x, up):
    n, B = N(10000), N(5000)
    values = up(det(n), "f4")
    def run():
        if x.__name__ == "torch":
            i = x.randint(0, n, (n * B,), device="cuda", dtype=x.int32)
        else:
            i = x.random.randint(0, n, n * B, dtype=np.int32)
        return values[i].reshape(B, n).mean(1).mean()
    return run


def descent(x, up):
    n = N(1e5)
    X, y = up(matrix(det(n * 20), n), "f4"), up((det(n, 7) > 0.4)[:, None], "f4")
    def run():
        b = up(np.zeros((20, 1)), "f4")
        for _ in range(1000):
            mu = 1 / (1 + x.exp(-(X @ b)))
            b = b - 1e-3 * (X.T @ (mu - y)) / n
        return b.sum()
    return run


def asian(x, up):
    n = N(2e6)
    def run():
        s, total = up(np.full(n, 100.0), "f4"), up(np.zeros(n), "f4")
        for _ in range(100):
            if x.__name__ == "torch":
                z = x.randn(n, device="cuda")
            else:
                z = x.random.standard_normal(n, dtype=np.float32)
            s = s * x.exp(0.0002 + 0.02 * z)
            total = total + s
        gain = total / 100 - 100
        return (gain.clamp(min=0) if x.__name__ == "torch" else x.maximum(gain, 0)).mean()
    return run


def typed(x, up):
    z, w = up(det(N(1e7))), up(det(N(1e7), 3))
    def run():
        torch = x.__name__ == "torch"
        var = (lambda v: v.var()) if torch else (lambda v: v.var(ddof=1))
        cor = (lambda a, b: x.corrcoef(x.stack([a, b]))[0, 1]) if torch else (lambda a, b: x.corrcoef(a, b)[0, 1])
        # as base R has it
        median = (lambda v: v.quantile(0.5) if len(v) < 1e7 else v.median()) if torch else x.median
        m, sd = z.mean(), var(z)**0.5
        return sum(map(float, [
            m, sd, (z**2).mean() - m**2, cor(z, w), abs(z - w).max(), ((z > 0.5) & (w < 0.5)).sum(), z[w > 0.9].mean(),
            median(z), x.log1p(z).mean(), (x.sqrt(z) * w).sum(), var(z - w), (z * w).max(), ((z - m)**3).mean() / sd**3,
            x.exp(-z / 2).sum(), x.where(z > w, z, w).mean()]))
    return run


PROGRAMS = dict(asian=asian, bootstrap=bootstrap, descent=descent, gp=gp, heat=heat, irls=irls, kmeans=kmeans, nmf=nmf,
                typed=typed)


def run_here(name, who):
    if who == "torch":
        import torch as x
        up = lambda v, dtype="f8": x.from_numpy(np.ascontiguousarray(v.astype(dtype))).to("cuda")
        sync = x.cuda.synchronize
    else:
        import cupy as x
        up = lambda v, dtype="f8": x.asarray(v.astype(dtype))
        sync = x.cuda.Device().synchronize
    program, taken = PROGRAMS[name](x, up), []
    for _ in range(times):
        sync()
        start = time.perf_counter()
        check = float(program())
        sync()
        taken.append(time.perf_counter() - start)
    return dict(program=name, who=who, status="ok", first_s=taken[0], later_s=float(np.median(taken[1:])), check=check)


if option("in", ""):
    print(json.dumps(run_here(plain[1], option("in", ""))))
    sys.exit()
for name in plain[1:] or PROGRAMS:
    if name not in PROGRAMS:
        continue
    for who in option("who", "cupy,torch").split(","):
        command = [sys.executable, os.path.abspath(__file__), "-", name, f"--in={who}", f"--scale={scale}", f"--times={times}"]
        said = subprocess.run(command, capture_output=True, text=True)
        line = next((l for l in said.stdout.splitlines() if l.startswith("{")), None)
        if line is None:
            line = json.dumps(dict(program=name, who=who, status="failed", why=said.stderr.strip()[-200:]))
        with open(plain[0], "a") as out:
            out.write(line + "\n")
        print(line)
