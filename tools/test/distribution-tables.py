"""Writes tests/testthat/distributions.csv: densities, both tails and their logarithms of random cases, by mpmath with 50
digits. `pip install mpmath`, then `python tools/test/distribution-tables.py > tests/testthat/distributions.csv`.

Columns: distribution, x, its parameters a and b, then the logarithms of density, distribution function and upper tail.
Parameters go from 1e-3 to 1e5, x from the centre to where a tail is 1e-300."""

import math
import random

import mpmath as mp

mp.mp.dps = 50
random.seed(31)


def gamma_tails(a, x):
    """P and Q of the incomplete gamma function, by the series of P and the complement or the integral."""
    a, x = mp.mpf(a), mp.mpf(x)
    lead = mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1))
    if x < a + 1 or x < 60:
        with mp.workdps(400 if x < 700 else 60):
            term = total = mp.mpf(1)
            n = 0
            while term > total * mp.mpf(10) ** (-390 if x < 700 else -55):
                n += 1
                term *= x / (a + n)
                total += term
            p = mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1)) * total
            return +p, 1 - p
    # the continued fraction, from its end
    value = mp.mpf(0)
    for n in range(4000, 0, -1):
        value = -n * (n - a) / (x + 2 * n + 1 - a + value)
    q = lead * a / (x + 1 - a + value)
    return 1 - q, q


def beta_tails(a, b, x, y):
    """I_x(a, b) and its complement, y = 1 - x."""
    if a * y < b * x:
        upper, lower = beta_tails(b, a, y, x)
        return lower, upper
    with mp.workdps(120):
        a, b = mp.mpf(a), mp.mpf(b)
        term = total = mp.mpf(1)
        n = 0
        while True:
            ratio = (a + b + n) * x / (a + 1 + n)
            term *= ratio
            total += term
            n += 1
            if ratio < 1 and term / (1 - max(ratio, x)) < total * mp.mpf(10) ** -110:
                break
            if n > 60000:
                raise ValueError
        return total * mp.exp(a * mp.log(x) + b * mp.log(y) - log_beta(a, b)) / a, None


def log_beta(a, b):
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def both_beta(a, b, x, y):
    lower, upper = beta_tails(a, b, x, y)
    with mp.workdps(120):
        return (1 - upper if lower is None else lower), (1 - lower if upper is None else upper)


def spread(least, most):
    return float("%.6g" % 10 ** random.uniform(least, most))


def near(mean, sd):
    """Within a few standard deviations, or far on one side."""
    if random.random() < 0.6:
        return float("%.8g" % (mean + sd * random.gauss(0, 2)))
    return float("%.8g" % (mean * 10 ** random.uniform(-1.5, 0.5)))


def gamma_case(name):
    a = spread(-3, 4)
    x = near(a, math.sqrt(a))
    scale = spread(-2, 2) if name == "gamma" else 2.0
    if name == "chisq":
        a = float("%.6g" % (2 * a)) / 2
    z = mp.mpf(x * scale) / mp.mpf(scale)
    if x <= 0:
        return None
    p, q = gamma_tails(a, z)
    d = a * mp.log(z) - z - mp.loggamma(a) - mp.log(x * scale)
    return (x * scale, a if name == "gamma" else 2 * a, scale if name == "gamma" else None), d, p, q


def pois_case(name):
    mean = spread(-3, 4)
    k = round(near(mean, math.sqrt(mean)))
    if k < 0:
        return None
    p, q = gamma_tails(k + 1, mean)
    return (k, mean, None), k * mp.log(mean) - mean - mp.loggamma(k + 1), q, p


def beta_case(name):
    a, b = spread(-2.5, 4), spread(-2.5, 4)
    r = a / b * math.exp(random.gauss(0, 1) * 2 * math.sqrt(1 / a + 1 / b))
    x = float("%.8g" % (r / (1 + r)))
    if not 1e-300 < x < 1 - 1e-6:
        return None
    y = 1 - mp.mpf(x)
    p, q = both_beta(a, b, mp.mpf(x), y)
    return (x, a, b), (a - 1) * mp.log(x) + (b - 1) * mp.log(y) - log_beta(mp.mpf(a), mp.mpf(b)), p, q


def f_case(name):
    m, n = spread(-2, 4), spread(-2, 4)
    x = float("%.8g" % math.exp(random.gauss(0, 1) * 2 * math.sqrt(2 / m + 2 / n)))
    if not 1e-100 < x < 1e100:
        return None
    r = mp.mpf(m) * mp.mpf(x) / mp.mpf(n)
    p, q = both_beta(m / 2, n / 2, r / (1 + r), 1 / (1 + r))
    m2, n2 = mp.mpf(m) / 2, mp.mpf(n) / 2
    return (x, m, n), m2 * mp.log(r) - (m2 + n2) * mp.log1p(r) - log_beta(m2, n2) - mp.log(x), p, q


def t_case(name):
    n = spread(-2, 5)
    x = float("%.8g" % (random.gauss(0, 3) * math.exp(abs(random.gauss(0, 1)) * min(3, 2 / n))))
    if not abs(x) < 1e100 or x == 0:
        return None
    s = mp.mpf(x) ** 2
    tails, centre = both_beta(n / 2, 0.5, n / (n + s), s / (n + s))
    far, close = tails / 2, (1 + centre) / 2
    d = -log_beta(mp.mpf(n) / 2, mp.mpf(1) / 2) - mp.log(n) / 2 - (mp.mpf(n) + 1) / 2 * mp.log1p(s / n)
    return (x, n, None), d, *((far, close) if x < 0 else (close, far))


def binom_case(name):
    n, prob = round(spread(0, 5)), float("%.6g" % (1 / (1 + math.exp(random.gauss(0, 2)))))
    k = round(near(n * prob, math.sqrt(n * prob * (1 - prob))))
    if not 0 <= k < n:
        return None
    p, q = mp.mpf(prob), 1 - mp.mpf(prob)
    upper, lower = both_beta(k + 1, n - k, p, q)
    choose = mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)
    return (k, n, prob), choose + k * mp.log(p) + (n - k) * mp.log(q), lower, upper


def nbinom_case(name):
    size, prob = spread(-2, 3), float("%.6g" % (1 / (1 + math.exp(random.gauss(0, 2)))))
    k = round(near(size * (1 - prob) / prob, math.sqrt(size * (1 - prob)) / prob))
    if k < 0:
        return None
    p, q = mp.mpf(prob), 1 - mp.mpf(prob)
    lower, upper = both_beta(size, k + 1, p, q)
    choose = mp.loggamma(k + mp.mpf(size)) - mp.loggamma(k + 1) - mp.loggamma(size)
    return (k, size, prob), choose + size * mp.log(p) + k * mp.log(q), lower, upper


CASES = {
    "gamma": gamma_case, "chisq": gamma_case, "pois": pois_case, "beta": beta_case, "f": f_case, "t": t_case,
    "binom": binom_case, "nbinom": nbinom_case,
}

print("name,x,a,b,log_density,log_lower,log_upper")
for name, case in CASES.items():
    count = 0
    while count < 60:
        try:
            found = case(name)
        except ValueError:
            continue
        if found is None:
            continue
        parameters, density, lower, upper = found
        with mp.workdps(120):
            if not (lower > 0 and upper > 0 and max(-mp.log(lower), -mp.log(upper)) < 690):
                continue
            values = [mp.mpf(density), mp.log(lower), mp.log(upper)]
        numbers = ["" if v is None else repr(v) for v in parameters]
        print(",".join([name, *numbers, *(mp.nstr(v, 20) for v in values)]))
        count += 1
