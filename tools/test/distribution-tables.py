"""Writes tests/testthat/distributions.csv: densities, both tails and their logarithms of random cases, by mpmath with
50 digits or more. `pip install mpmath`, then `python tools/test/distribution-tables.py >
tests/testthat/distributions.csv`; names of distributions after it write these alone, without the columns' names.

Columns: distribution, x, its parameters a, b and c, then the logarithms of density, distribution function and upper
tail. Parameters go from 1e-3 to 1e5, x from the centre to where a tail is 1e-300."""

import math
import random
import sys

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


DEEP = 420  # digits in which 1 - p has those of a tail of 1e-300


def poisson_mixture(mean, nu, shape, first, up):
    """Density, lower and upper tail: the sums over Poisson counts k = j + nu, whose mean is half the noncentrality, of
    central distributions. `first(k)` is a lower tail and its mass P(k) - P(k + 1), `up(k)` a mass over its predecessor, and
    shape + k over mass is the density (of log x or logit x)."""
    last = int(mean + 40 * math.sqrt(mean) + 400)
    k = last + nu
    p, mass = first(k)
    weight = mp.exp(k * mp.log(mean) - mean - mp.loggamma(k + 1))
    density = lower = upper = mp.mpf(0)
    for j in range(last, -1, -1):
        k = j + nu
        density += weight * mass * (shape + k)
        lower += weight * p
        upper += weight * (1 - p)
        weight *= k / mean
        if j > 0:
            mass /= up(k - 1)
            p += mass
    return density, lower, upper


def gamma_mixture(a, x, mean):
    def first(k):
        term = total = mass = mp.exp((a + k) * mp.log(x) - x - mp.loggamma(a + k + 1))
        n = 0
        while term > total * mp.mpf(10) ** -DEEP:
            n += 1
            term *= x / (a + k + n)
            total += term
        return total, mass

    return poisson_mixture(mean, 0, a, first, lambda k: x / (a + k + 1))


def beta_mixture(a, b, x, y, mean, nu):
    def first(k):
        mass = mp.exp((a + k) * mp.log(x) + b * mp.log(y) - log_beta(a + k, b)) / (a + k)
        term = total = mass
        n = 0
        while term > total * mp.mpf(10) ** -DEEP:
            term *= (a + k + b + n) * x / (a + k + 1 + n)
            total += term
            n += 1
            if n > 60000:
                raise ValueError
        return total, mass

    return poisson_mixture(mean, nu, a, first, lambda k: x * (a + b + k) / (a + k + 1))


def chisq_ncp_case(name):
    df, ncp = spread(-2, 3), spread(-2, 3)
    x = near(df + ncp, math.sqrt(2 * (df + 2 * ncp)))
    if x <= 0:
        return None
    d, p, q = gamma_mixture(mp.mpf(df) / 2, mp.mpf(x) / 2, mp.mpf(ncp) / 2)
    return (x, df, ncp), mp.log(d / x), p, q


def beta_ncp_case(name):
    a, b, ncp = spread(-2, 3), spread(-2, 3), spread(-2, 2.5)
    r = (a + ncp / 2) / b * math.exp(random.gauss(0, 1) * 2 * math.sqrt(1 / a + 1 / b))
    x = float("%.8g" % (r / (1 + r)))
    if not 1e-300 < x < 0.99:
        return None
    z = mp.mpf(x)
    d, p, q = beta_mixture(mp.mpf(a), mp.mpf(b), z, 1 - z, mp.mpf(ncp) / 2, 0)
    return (x, a, b, ncp), mp.log(d / (z * (1 - z))), p, q


def f_ncp_case(name):
    m, n, ncp = spread(-1, 3), spread(-1, 3), spread(-2, 2.5)
    x = float("%.8g" % ((1 + ncp / m) * math.exp(random.gauss(0, 1) * 2 * math.sqrt(2 / m + 2 / n))))
    r = mp.mpf(m) * mp.mpf(x) / mp.mpf(n)
    if not 1e-100 < r < 100:
        return None
    d, p, q = beta_mixture(mp.mpf(m) / 2, mp.mpf(n) / 2, r / (1 + r), 1 / (1 + r), mp.mpf(ncp) / 2, 0)
    return (x, m, n, ncp), mp.log(d / x), p, q


def t_ncp_case(name):
    n, delta = spread(-1, 3), float("%.6g" % random.gauss(0, 4))
    t = float("%.8g" % ((delta + random.gauss(0, 2)) * math.exp(random.gauss(0, 1) / math.sqrt(n + 1))))
    s = mp.mpf(t) ** 2 / n
    if not 1e-6 < abs(t) < 1e6 or s > 100 or delta == 0:
        return None
    mean, half = mp.mpf(delta) ** 2 / 2, mp.mpf(1) / 2
    parts = [beta_mixture(half, mp.mpf(n) / 2, s / (1 + s), 1 / (1 + s), mean, nu) for nu in (mp.mpf(0), half)]
    sign = 1 if t * delta > 0 else -1
    d, p, q = (((whole + sign * rest) / 2) for whole, rest in zip(*parts))
    p += mp.erfc(sign * abs(mp.mpf(delta)) / mp.sqrt(2)) / 2
    if t < 0:
        p, q = q, p
    return (t, n, delta), mp.log(2 * d / abs(mp.mpf(t))), p, q


def hyper_case(name):
    m, n = round(spread(0, 3)), round(spread(0, 3))
    k = random.randint(1, m + n)
    mean = k * m / (m + n)
    x = round(near(mean, math.sqrt(mean * n / (m + n) * (m + n - k) / max(1, m + n - 1)) + 0.1))
    least, most = max(0, k - n), min(m, k)
    if not least <= x < most:
        return None
    masses = [mp.mpf(math.comb(m, j) * math.comb(n, k - j)) for j in range(least, most + 1)]
    total = mp.mpf(math.comb(m + n, k))
    x_at = x - least
    return (x, m, n, k), mp.log(masses[x_at] / total), sum(masses[: x_at + 1]) / total, sum(masses[x_at + 1 :]) / total


def rank_case(name, counts, parameters):
    total = sum(counts)
    last = len(counts) - 1
    x = round(near(last / 2, math.sqrt(last) * 2)) if random.random() < 0.7 else random.randint(0, last)
    if not 0 <= x < last:
        return None
    d, p, q = mp.mpf(counts[x]), mp.mpf(sum(counts[: x + 1])), mp.mpf(sum(counts[x + 1 :]))
    return (x, *parameters), mp.log(d / total), p / total, q / total


def signrank_case(name):
    n = round(spread(0.3, 2.7))
    counts = [1]
    for i in range(1, n + 1):
        counts = [a + b for a, b in zip(counts + [0] * i, [0] * i + counts)]
    return rank_case(name, counts, (n,))


def wilcox_case(name):
    m, n = round(spread(0, 1.9)), round(spread(0, 2.6))
    counts = [1] + [0] * (m * n)
    for i in range(1, m + 1):
        for k in range(m * n, n + i - 1, -1):
            counts[k] -= counts[k - n - i]
        for k in range(i, m * n + 1):
            counts[k] += counts[k - i]
    return rank_case(name, counts, (m, n))


def range_tails(w, k):
    """The distribution function and upper tail of the range of k normals, by the least of them: the trapezoidal rule."""
    step = mp.mpf(1) / 16
    lower = upper = mp.mpf(0)
    for n in range(-int((10 + w) / step), int(10 / step)):
        z = n * step
        mass, above, beyond = mp.npdf(z), mp.ncdf(-z), mp.ncdf(-z - w)
        lower += mass * (above - beyond) ** (k - 1)
        upper += mass * (above ** (k - 1) - (above - beyond) ** (k - 1))
    return k * step * lower, k * step * upper


def tukey_case(name):
    """Without a density, which base R does not have."""
    k, df, ranges = random.randint(2, 12), float("%.4g" % (2 * 10 ** random.uniform(0, 2))), random.choice([1, 1, 2])
    q = float("%.5g" % (1.6 * math.sqrt(2 * math.log(k * ranges)) * math.exp(random.gauss(0, 0.6))))
    with mp.workdps(40):
        # over u, the logarithm of chi / sqrt(df)
        step = mp.mpf(1) / 120
        lower = upper = mp.mpf(0)
        n = int(3 / step)
        while True:
            u = n * step
            weight = mp.exp(df * (u - mp.exp(2 * u) / 2 + mp.mpf(1) / 2))
            if weight < mp.mpf(10) ** -45 and u < 0:
                break
            n -= 1
            if weight < mp.mpf(10) ** -45:
                continue
            p, above = range_tails(q * mp.exp(u), k)
            lower += weight * p**ranges
            upper += weight * (above if ranges == 1 else above * (2 - above))
        a = mp.mpf(df) / 2
        scale = 2 * step * mp.exp(a * mp.log(a) - a - mp.loggamma(a))
        return (q, k, df, ranges), None, scale * lower, scale * upper


CASES = {
    "gamma": gamma_case, "chisq": gamma_case, "pois": pois_case, "beta": beta_case, "f": f_case, "t": t_case,
    "binom": binom_case, "nbinom": nbinom_case,
    "chisq_ncp": chisq_ncp_case, "beta_ncp": beta_ncp_case, "f_ncp": f_ncp_case, "t_ncp": t_ncp_case,
    "hyper": hyper_case, "signrank": signrank_case, "wilcox": wilcox_case, "tukey": tukey_case,
}

names = sys.argv[1:]
if not names:
    print("name,x,a,b,c,log_density,log_lower,log_upper")
for name, case in CASES.items():
    is_later = list(CASES).index(name) >= 8
    size = 7 if name == "tukey" else 30 if is_later else 60
    if is_later:
        random.seed("31 " + name)  # whichever are written before
    if names and name not in names:
        continue
    count = 0
    while count < size:
        try:
            with mp.workdps(DEEP if is_later else 50):
                found = case(name)
        except ValueError:
            continue
        if found is None:
            continue
        parameters, density, lower, upper = found
        with mp.workdps(120):
            if not (lower > 0 and upper > 0 and max(-mp.log(lower), -mp.log(upper)) < 690):
                continue
            values = [density, mp.log(lower), mp.log(upper)]
        numbers = ["" if v is None else repr(v) for v in (*parameters, None, None)[:4]]
        print(",".join([name, *numbers, *("" if v is None else mp.nstr(v, 17) for v in values)]))
        count += 1
