"""Writes tests/testthat/special.csv: Bessel functions and psigamma by mpmath with 50 digits or more. `pip install
mpmath`, then `python tools/test/special-tables.py > tests/testthat/special.csv`.

Columns: function, x, order, value, and what its error is relative to: the value, or where J and Y oscillate the root of
the sum of their squares. I and K are scaled by exp(-x) and exp(x). Orders go from 0 to 1e4, x from 1e-10 to 1e6; what
doubles do not hold is left out."""

import random

import mpmath as mp

mp.mp.dps = 60
random.seed(31)

ORDERS = [0, 1e-10, 0.3, 0.5, 1, 1 + 1e-9, 1.5, 2, 3.3, 7.25, 10, 14.9, 24.6, 25, 50, 99.5, 100, 333.3, 1000, 1000.5,
          9999.7, 10000]
XS = [1e-10, 1e-3, 0.5, 1.9, 2, 5.5, 14, 24.9, 25.1, 29.9, 30.1, 60, 99, 101, 330, 990, 1010, 6627, 9800, 9990, 10000,
      10300, 1e5, 1e6]


def i_series(nu, x):
    """The power series, whose terms are positive."""
    term = total = mp.mpf(1)
    v, k = x * x / 4, 0
    while term > total * mp.mpf(10) ** -45:
        k += 1
        term *= v / (k * (nu + k))
        total += term
    return mp.exp(nu * mp.log(x / 2) - mp.loggamma(nu + 1) - x) * total


def modified(nu, x):
    """I exp(-x) and K exp(x): K by the recurrence upwards, from where mpmath has it at once."""
    n = int(mp.floor(nu))
    mu = nu - n
    k = [mp.besselk(mu, x) * mp.exp(x), mp.besselk(mu + 1, x) * mp.exp(x)]
    for j in range(1, n + 1):
        k = [k[1], k[0] + 2 * (mu + j) / x * k[1]]
    if x <= 2e4:
        i = i_series(nu, x)
    else:
        # the Wronskian, with the continued fraction of the neighbours' ratio from far above
        r = mp.mpf(0)
        for j in range(int(20 * mp.sqrt(x)) + 2000, -1, -1):
            r = 1 / (2 * (nu + j + 1) / x + r)
        i = 1 / (x * (k[1] + r * k[0]))
    return i, k[0]


def waves(nu, x):
    """J and Y. Upwards from small orders, with digits to spare for J above x."""
    n = int(mp.floor(nu))
    if n < 2:
        return mp.besselj(nu, x), mp.bessely(nu, x)
    if nu > x:
        # J falls: the ratio of neighbours from far above, and the Wronskian
        mu = nu - n
        y = [mp.bessely(mu, x), mp.bessely(mu + 1, x)]
        for j in range(1, n + 1):
            y = [y[1], 2 * (mu + j) / x * y[1] - y[0]]
        r = mp.mpf(0)
        for j in range(3000, -1, -1):
            r = 1 / (2 * (nu + j + 1) / x - r)
        return 2 / (mp.pi * x) / (r * y[0] - y[1]), y[0]
    mu = nu - n
    j, y = [[f(mu, x), f(mu + 1, x)] for f in (mp.besselj, mp.bessely)]
    for k in range(1, n):
        c = 2 * (mu + k) / x
        j, y = [j[1], c * j[1] - j[0]], [y[1], c * y[1] - y[0]]
    return j[1], y[1]


def psigamma(n, x):
    """The sum up to a large x, and the formula of Euler and Maclaurin. Negative x: by the recurrence."""
    if n == 0:
        return mp.digamma(x)
    m = 300 + max(0, int(mp.ceil(-x)))
    total = mp.fsum((x + k) ** (-n - 1) for k in range(m))
    far = x + m
    total += far ** -n / n + far ** (-n - 1) / 2
    for k in range(1, 40):
        total += mp.bernoulli(2 * k) / mp.factorial(2 * k) * mp.rf(n + 1, 2 * k - 1) * far ** (-n - 2 * k)
    return (1 if n % 2 else -1) * mp.factorial(n) * total


def write(name, x, order, value, scale=None):
    scale = abs(value) if scale is None else scale
    if mp.mpf("1e-300") < abs(value) < mp.mpf("1e308") and scale < mp.mpf("1e308"):
        print(f"{name},{x!r},{order!r},{mp.nstr(value, 19)},{mp.nstr(scale, 6)}")


print("name,x,order,value,scale")
for order in ORDERS:
    for x in XS:
        if random.random() > 0.36:
            continue
        nu, at = mp.mpf(order), mp.mpf(x)
        i, k = modified(nu, at)
        write("besselI", x, order, i)
        write("besselK", x, order, k)
        j, y = waves(nu, at)
        modulus = mp.hypot(j, y)
        write("besselJ", x, order, j, modulus if x > order else None)
        write("besselY", x, order, y, modulus)
for order in [0, 1, 2, 3, 5, 8, 20, 57, 100]:
    for x in [1e-5, 0.1, 1.5, 7, 12.5, 113.5, 1e3, 1e6, -1e-3, -1.3, -2.999, -40.25]:
        write("psigamma", x, order, psigamma(order, mp.mpf(x)))
