"""Cases of distributions.R by CuPy's special functions, and by torch.distributions where CuPy has none: nanoseconds an
element, the fastest of five runs, float64.

usage: python3 bench/distributions.py [N]
"""

import math
import sys
import time

import cupy
import cupyx.scipy.special as special
import torch

n = int(float(sys.argv[1])) if len(sys.argv) > 1 else int(1e8)
random = cupy.random.default_rng(1)
u = random.random(n)
v = -cupy.log(random.random(n)) * 3
z = random.standard_normal(n) * 2
k = random.binomial(50, 0.3, n).astype(cupy.float64)
p = random.poisson(20, n).astype(cupy.float64)


def say(name, f):
    try:
        best = math.inf
        for _ in range(6):  # the first one compiles
            cupy.cuda.Device().synchronize()
            at = time.perf_counter()
            value = f()
            cupy.cuda.Device().synchronize()
            best = min(best, time.perf_counter() - at)
            del value
        print(f"{name:32s} {1e9 * best / n:9.4f}", flush=True)
    except Exception as problem:
        print(f"{name:32s} {type(problem).__name__}: {str(problem)[:60]}", flush=True)


say("pgamma(v, 3)", lambda: special.gammainc(3.0, v))
say("qgamma(u, 3)", lambda: special.gammaincinv(3.0, u))
say("pgamma(v * 300, 1000)", lambda: special.gammainc(1000.0, v * 300))
say("pt(z, 5)", lambda: special.stdtr(5.0, z))
say("pt(z, 1000)", lambda: special.stdtr(1000.0, z))
say("pbeta(u, 2, 3)", lambda: special.betainc(2.0, 3.0, u))
say("pbeta(u, 2000, 2000)", lambda: special.betainc(2000.0, 2000.0, u))
say("qbeta(u, 2, 3)", lambda: special.betaincinv(2.0, 3.0, u))
say("qbeta(u, 0.5, 30)", lambda: special.betaincinv(0.5, 30.0, u))
say("pf(v, 3, 10)", lambda: special.fdtr(3.0, 10.0, v))
say("pbinom(k, 50, 0.3)", lambda: special.bdtr(k, 50, 0.3))
say("ppois(p, 20)", lambda: special.pdtr(p, 20.0))
say("besselJ1(v * 10)", lambda: special.j1(v * 10))
say("besselK1(v)", lambda: special.k1(v))
say("psigamma(v, 2)", lambda: special.polygamma(2, v))

# the same memory, in PyTorch
tv, tk, tp = torch.from_dlpack(v), torch.from_dlpack(k), torch.from_dlpack(p)
binomial = torch.distributions.Binomial(50, torch.tensor(0.3, dtype=torch.float64, device="cuda"), validate_args=False)
gamma = torch.distributions.Gamma(torch.tensor(3.0, dtype=torch.float64, device="cuda"), 1.0, validate_args=False)
three = torch.tensor(3.0, dtype=torch.float64, device="cuda")
twenty = torch.tensor(20.0, dtype=torch.float64, device="cuda")


def timed_torch(name, f):
    def run():
        value = f()
        torch.cuda.synchronize()
        return value

    say(name, run)


timed_torch("torch pgamma(v, 3)", lambda: torch.special.gammainc(three, tv))
timed_torch("torch dbinom(k, 50, 0.3)", lambda: torch.exp(binomial.log_prob(tk)))
timed_torch("torch dgamma(v, 3)", lambda: torch.exp(gamma.log_prob(tv)))
timed_torch("torch ppois(p, 20)", lambda: torch.special.gammaincc(tp + 1, twenty))
