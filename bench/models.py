"""The cases of models.R and clusters.R as they are written by hand in PyTorch: name, seconds (the fastest run) and the
most memory that was allocated. Data are drawn on the device.

usage: python3 bench/models.py [--scale=1] [--device=cuda|cpu]
"""

import math
import sys
import time

import torch

given = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--"))
device = given.get("device", "cuda")
scale = float(given.get("scale", "1"))
F = torch.float64


def wait():
    if device == "cuda":
        torch.cuda.synchronize()


def say(name, f, times=3):
    best = math.inf
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        for _ in range(times):
            wait()
            at = time.perf_counter()
            value = f()
            wait()
            best = min(best, time.perf_counter() - at)
            del value
    except torch.cuda.OutOfMemoryError:
        print(f"{name:58s} out of memory", flush=True)
        return
    most = torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else 0
    print(f"{name:58s} {best:8.3f} s, {most:7.2f} GB", flush=True)


def rows(n):
    return max(1000, round(n * scale))


def design(n, p):
    """An intercept and p - 1 normal columns, and what depends on them."""
    x = torch.randn(n, p, dtype=F, device=device)
    x[:, 0] = 1
    slopes = torch.tensor([0.0] + [0.3 / k for k in range(1, p)], dtype=F, device=device)
    return x, x @ slopes


def solve(a, b):
    return torch.cholesky_solve(b[:, None], torch.linalg.cholesky(a))[:, 0]


def least_squares(x, y):
    return solve(x.T @ x, x.T @ y)


def glm(x, y, mean, weight, deviance):
    """Iteratively reweighted least squares, with R's rule for its end."""
    eta, last = None, math.inf
    b = torch.zeros(x.shape[1], dtype=F, device=device)
    for _ in range(25):
        eta = x @ b
        mu = mean(eta)
        w = weight(mu)
        xw = x * w[:, None]
        b = solve(xw.T @ x, xw.T @ (eta + (y - mu) / w))
        now = deviance(y, mean(x @ b)).item()
        if abs(now - last) / (abs(now) + 0.1) < 1e-8:
            break
        last = now
    return b


def models():
    n = rows(1e8)
    x, eta = design(n, 10)
    y = eta + torch.randn(n, dtype=F, device=device)
    say(f"lm, 10 columns, {n:g} rows", lambda: least_squares(x, y))
    del x, y, eta

    n = rows(1e7)
    x, eta = design(n, 30)
    y = (torch.rand(n, dtype=F, device=device) < torch.sigmoid(eta)).to(F)
    binomial = lambda y, mu: -2 * torch.where(y > 0, torch.log(mu), torch.log1p(-mu)).sum()
    say(f"glm binomial, 30 columns, {n:g} rows", lambda: glm(x, y, torch.sigmoid, lambda mu: mu * (1 - mu), binomial))
    del x, y, eta

    x, eta = design(n, 4)
    level = torch.randint(50, (n,), device=device)
    dummies = torch.nn.functional.one_hot(level, 50).to(F)[:, 1:]
    x = torch.cat([x, dummies], 1)
    del dummies
    y = torch.poisson(torch.exp(eta))
    poisson = lambda y, mu: 2 * (torch.xlogy(y, y / mu) - (y - mu)).sum()
    say(f"glm poisson, factor of 50 levels, {n:g} rows", lambda: glm(x, y, torch.exp, lambda mu: mu, poisson))
    del x, y, eta

    x, eta = design(n, 6)
    codes = [torch.randint(k, (n,), device=device) for k in (max(2, n // 100), 100)]
    y = eta + torch.randn(n, dtype=F, device=device)
    counts = [torch.bincount(code).to(F) for code in codes]

    def absorbed():
        z = torch.cat([x[:, 1:], y[:, None]], 1)
        for _ in range(100):
            before = z.clone()
            for code, count in zip(codes, counts):
                sums = torch.zeros(len(count), z.shape[1], dtype=F, device=device).index_add_(0, code, z)
                z -= (sums / count[:, None])[code]
            if (z - before).abs().max().item() < 1e-8:
                break
        return least_squares(z[:, :-1], z[:, -1])

    say(f"lm, effects of {len(counts[0]):g} and 100 levels absorbed", absorbed)
    del x, y, eta, codes

    x, eta = design(n, 10)
    y = eta + torch.randn(n, dtype=F, device=device) * x[:, 1].abs()
    b = least_squares(x, y)

    def robust():
        scores = x * (y - x @ b)[:, None]
        bread = torch.linalg.inv(x.T @ x)
        return bread @ (scores.T @ scores) @ bread * (n / (n - x.shape[1]))

    say(f"HC1 covariances, 10 columns, {n:g} rows", robust)


def clouds(n, p, k):
    centers = 3 * torch.randn(k, p, dtype=F, device=device)
    return centers[torch.randint(k, (n,), device=device)] + torch.randn(n, p, dtype=F, device=device)


def blocks(n, step):
    return (slice(at, min(n, at + step)) for at in range(0, n, step))


def kmeans(x, start, iterations, step=65536):
    n, k = len(x), len(start)
    centers, last = start.clone(), None
    for _ in range(iterations):
        squares = (centers**2).sum(1)
        codes = torch.cat([(squares - 2 * x[at] @ centers.T).argmin(1) for at in blocks(n, step)])
        if last is not None and torch.equal(codes, last):
            break
        last = codes
        sums = torch.zeros_like(centers).index_add_(0, codes, x)
        centers = sums / torch.bincount(codes, minlength=k)[:, None]
    return codes, centers


def neighbours(x, k, step=2048):
    squares = (x**2).sum(1)
    found = []
    for at in blocks(len(x), step):
        gaps = squares[at, None] + squares - 2 * x[at] @ x.T
        found.append(gaps.topk(k, 1, largest=False))
    return torch.cat([f.indices for f in found]), torch.cat([f.values for f in found])


def randomised(x, k, turns=2):
    """Halko, Martinsson and Tropp: centered implicitly."""
    mean = x.mean(0)
    q = torch.randn(x.shape[1], k + 10, dtype=x.dtype, device=device)
    for _ in range(turns + 1):
        y = x @ q - mean @ q
        y = torch.linalg.qr(y).Q
        q = torch.linalg.qr(x.T @ y - mean[:, None] * y.sum(0)).Q
    y = x @ q - mean @ q
    u, d, v = torch.linalg.svd(y, full_matrices=False)
    return d[:k], (q @ v.T)[:, :k]


def exact(x, k):
    centered = x - x.mean(0)
    values, vectors = torch.linalg.eigh(centered.T @ centered)
    return values[-k:].sqrt(), vectors[:, -k:]


def clusters():
    n, p, k = rows(1e6), 128, max(10, round(1000 * min(1, scale)))
    x = clouds(n, p, k)
    start = x[:k].clone()
    say(f"kmeans, Lloyd, 10 iterations, {n:g} x {p}, k = {k}", lambda: kmeans(x, start, 10))
    del x
    x = clouds(rows(1e5), p, 100)
    say(f"neighbours, euclidean, {len(x):g} x {p}, k = 15", lambda: neighbours(x, 15))
    del x
    n = rows(1e6)
    x = torch.randn(n, 100, dtype=F, device=device) @ (
        torch.randn(100, 1000, dtype=F, device=device) * 0.95 ** torch.arange(1, 101, dtype=F, device=device)[:, None]
    )
    x += 0.1 * torch.randn(n, 1000, dtype=F, device=device)
    say(f"prcomp, randomised, {n:g} x 1000, rank 50", lambda: randomised(x, 50))
    say(f"prcomp, exact, {n:g} x 1000, rank 50", lambda: exact(x, 50))


models()
clusters()
