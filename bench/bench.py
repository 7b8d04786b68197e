"""The peers (CuPy, PyTorch, JAX) on the cases of cases.csv, and the limits of the GPU.

    python3 bench/bench.py OUT.jsonl [--scale=1] [--inputs=FOLDER] [--seconds=0.15] [--peers=cupy,torch,jax] [--serve]
                           [PREFIX ...]

Runs the cases whose names begin with a PREFIX (default: those marked so in cases.csv), or, with --serve, the groups
that it reads from its standard input (bench/run.sh). Each answer is checked first against NumPy in float64 on some
elements; a wrong one is reported and not timed. A line of JSON a case and peer goes to OUT.jsonl, with the fields of bench.R.

What R does by columns NumPy does by rows: memory is laid out alike on both sides, so R's colSums() stands beside
sum(1).
Timed calls end in a synchronisation, a batch at a time, as on R's side; numbers are timed in the caller's hand.
--peers=numpy runs the script on a machine without a GPU, to test the script.
"""
import csv, ctypes, gc, json, os, statistics, subprocess, sys, tempfile, time
import numpy as np

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
FLAGS = dict(a[2:].split("=", 1) if "=" in a else (a[2:], "1") for a in sys.argv[1:] if a.startswith("--"))
PLAIN = [a for a in sys.argv[1:] if not a.startswith("--")]
OUT, PREFIXES = (PLAIN or [None])[0], PLAIN[1:]
SCALE, SECONDS = float(FLAGS.get("scale", 1)), float(FLAGS.get("seconds", 0.15))
FOLDER = os.path.dirname(os.path.abspath(__file__))
CASES = list(csv.DictReader(open(os.path.join(FOLDER, "cases.csv"))))
WANTED = [c for c in CASES
          if (any(c["name"].startswith(p) for p in PREFIXES) if PREFIXES else c["default"] == "1")]


# ---- the peers ---------------------------------------------------------------------------------------------------
class Peer:
    """One library: how it takes data, gives them back, waits, and frees."""
    def __init__(self, name, module, put, get, wait, free=lambda: None, peak=lambda: None, reset=lambda: None):
        self.name, self.m, self.put, self.get, self.wait, self.free, self.peak, self.reset = name, module, put, get, wait, free, peak, reset


def load_peers(names):
    peers = {}
    if "numpy" in names:
        peers["numpy"] = Peer("numpy", np, lambda x, d=None: np.asarray(x, d), np.asarray, lambda r=None: None)
    if "cupy" in names:
        try:
            import cupy as cp
            pool = cp.get_default_memory_pool()
            peers["cupy"] = Peer("cupy", cp, lambda x, d=None: cp.asarray(x).astype(d or x.dtype, copy=False),
                cp.asnumpy, lambda r=None: cp.cuda.Device().synchronize(),
                lambda: (pool.free_all_blocks(), cp.get_default_pinned_memory_pool().free_all_blocks()),
                pool.total_bytes, pool.free_all_blocks)
        except Exception as e: print("no CuPy:", e, file=sys.stderr)
    if "torch" in names:
        try:
            import torch
            torch.cuda.init()
            torch.backends.cuda.matmul.allow_tf32 = False
            import torch._dynamo
            torch._dynamo.config.automatic_dynamic_shapes = False   # a kernel for each length, as the others make
            def put(x, d=None):
                dtype = np.dtype(d or x.dtype)
                name = dtype.name if dtype != bool else "bool"
                return torch.from_numpy(np.ascontiguousarray(x)).to("cuda").to(getattr(torch, name))
            peers["torch"] = Peer("torch", torch, put,
                lambda r: (r.float() if r.dtype == torch.bfloat16 else r).cpu().numpy(),
                lambda r=None: torch.cuda.synchronize(), torch.cuda.empty_cache,
                torch.cuda.max_memory_allocated, torch.cuda.reset_peak_memory_stats)
        except Exception as e: print("no PyTorch:", e, file=sys.stderr)
    if "jax" in names:
        try:
            import jax
            jax.config.update("jax_enable_x64", True)
            import jax.numpy as jnp
            card = jax.devices("gpu")[0]
            peers["jax"] = Peer("jax", jnp, lambda x, d=None: jax.device_put(np.asarray(x, d), card), np.asarray,
                lambda r=None: jax.block_until_ready(r) if r is not None else None,
                peak=lambda: (card.memory_stats() or {}).get("peak_bytes_in_use"))
        except Exception as e: print("no JAX:", e, file=sys.stderr)
    return peers


# ---- inputs ------------------------------------------------------------------------------------------------------
def even_square(n): return (2 * int(n ** 0.5 / 2)) ** 2

def make_inputs():
    """Normals that float32 holds exactly; written for bench.R where a folder is given."""
    n, host = even_square(10 ** 8 * SCALE), {}
    for name, seed in (("x", 1), ("y", 2)):
        v = np.random.default_rng(seed).standard_normal(n)
        v *= 2.0 ** 20; np.rint(v, v); v /= 2.0 ** 20
        host[name] = v
        if "inputs" in FLAGS: v.tofile(os.path.join(FLAGS["inputs"], name + ".f64"))
    return host


class Operands(dict):
    __getattr__ = dict.__getitem__


def operands(group, x, y, put, n, dtype):
    """As `operands` in bench.R; matrices in NumPy's order are R's transposed."""
    if group == "elementwise":
        side = int(len(x) ** 0.5); o = Operands(x=put(x), y=put(y), v=put(x[:side]))
        o["m"] = o.x.reshape(side, side); return o
    if group == "number": return Operands(x=put(x), y=put(y))
    if group == "margin":
        side = int(len(x) ** 0.5); long = put(np.resize(x, int(len(x) // 10 ** 4 * 26843.5456 // 16 * 16)))
        soft = put(np.resize(y, max(len(x) // 10 ** 4 * 6711 // 64, 1) * 64))
        columns = 4096 if len(soft) >= 4096 * 64 else 8
        rows = len(soft) // columns; soft = soft[:rows * columns]
        return Operands(m=put(x).reshape(side, side), flat=long.reshape(-1, 16), tall=long.reshape(16, -1),
            rows=soft.reshape(columns, rows), columns=soft.reshape(rows, columns))
    if group == "order":
        return Operands(x=put(x), i=put(np.random.default_rng(3).integers(0, len(x), len(x), dtype=np.int32), np.int32))
    if group == "groups":
        drawn = lambda seed, most: put(np.random.default_rng(seed).integers(0, most, len(x), dtype=np.int32), np.int32)
        return Operands(x=put(x), g=drawn(4, 1000), b=drawn(5, 256), u=drawn(6, 10 ** 6))
    if group == "random": return Operands(n=len(x), dtype=dtype)
    if group == "linear": return Operands(m=put(x[:n * n].reshape(n, n)), w=put(y[:n * n].reshape(n, n)))
    if group == "library":
        a = x[:n * n].reshape(n, n)
        return Operands(tall=put(x[:len(x) // 100 * 100].reshape(-1, 100)), a=put(a), spd=put(a.T @ a + n * np.eye(n)),
            b=put(y[:16 * n].reshape(n, 16)), z=put(x + 1j * y, np.complex128))
    raise ValueError(group)


# ---- the cases: NumPy's reference, and each peer's ways; a key is a peer, or a peer and a way ------------------------
# lint: wide
def build(peers):
    cases = {}
    def case(name, reference, **ways): cases[name] = dict(reference=reference, ways=ways)
    cp, tc, jx = (peers[k].m if k in peers else None for k in ("cupy", "torch", "jax"))
    stub = "numpy" in peers
    if jx is not None: import jax
    def jit(f): return None if jx is None else (lambda g: lambda o: g(dict(o)))(jax.jit(lambda o: f(jx, Operands(o))))
    def fetched(f): return None if f is None else (lambda o: np.asarray(f(o)))
    def xp(f): return None if cp is None else (lambda o: f(cp, o))
    def th(f): return None if tc is None else f
    def compiled(f):
        if tc is None: return None
        g = tc.compile(f)
        return lambda o: g(o)
    def every(name, f, torch=None, ctorch=None, **more):
        """One expression in NumPy's names for NumPy, CuPy and JAX; torch's own beside it."""
        case(name, lambda o: f(np, o), numpy=(lambda o: f(np, o)) if stub else None, cupy=xp(f), jax=jit(f), torch=th(torch), torch_compile=compiled(ctorch) if ctorch else None, **more)

    fuse = None
    # named, since "<lambda>" is no name of a kernel
    if cp is not None:
        fused = cp.fuse(kernel_name="chain")(lambda a, b: cp.sqrt(a * a + b * b) * 2 - cp.exp(-a) / (1 + cp.abs(b)))
        fuse = lambda o: fused(o.x, o.y)
    axpy = lambda x, y: 2.5 * x + y
    chain = (lambda x, y: tc.sqrt(x * x + y * y) * 2 - tc.exp(-x) / (1 + tc.abs(y)))
    caxpy, cchain = (tc.compile(axpy), tc.compile(chain)) if tc is not None else (None, None)
    every("axpy", lambda m, o: 2.5 * o.x + o.y, lambda o: 2.5 * o.x + o.y)
    every("chain", lambda m, o: m.sqrt(o.x * o.x + o.y * o.y) * 2 - m.exp(-o.x) / (1 + m.abs(o.y)), lambda o: chain(o.x, o.y), cupy_fuse=fuse)
    cases["axpy"]["ways"]["torch_compile"] = th(lambda o: caxpy(o.x, o.y)); cases["chain"]["ways"]["torch_compile"] = th(lambda o: cchain(o.x, o.y))
    every("strided", lambda m, o: o.x[::2] + o.y[::2], lambda o: o.x[::2] + o.y[::2])
    every("broadcast_column", lambda m, o: o.m + o.v[None, :], lambda o: o.m + o.v[None, :])
    every("broadcast_row", lambda m, o: o.m + o.v[:, None], lambda o: o.m + o.v[:, None])
    case("transpose", lambda o: o.m.T + 0, numpy=(lambda o: np.ascontiguousarray(o.m.T)) if stub else None, cupy=xp(lambda m, o: m.ascontiguousarray(o.m.T)), torch=th(lambda o: o.m.T.contiguous()), jax=jit(lambda m, o: m.transpose(o.m) + 0))
    cadd = tc.compile(lambda a: a + a.T) if tc is not None else None
    every("add_transpose", lambda m, o: o.m + o.m.T, lambda o: o.m + o.m.T)
    cases["add_transpose"]["ways"]["torch_compile"] = th(lambda o: cadd(o.m))

    # numbers, in the caller's hand
    number = lambda f: None if f is None else (lambda o: float(f(o)))
    def reduce(name, f, torch, whole=float, **more):
        w = lambda g: None if g is None else (lambda o: whole(g(o)))
        case(name, lambda o: whole(f(np, o)), numpy=w(lambda o: f(np, o)) if stub else None, cupy=w(xp(f)), torch=w(th(torch)), jax=w(jit(f)), **more)
    reduce("sum", lambda m, o: m.sum(o.x), lambda o: o.x.sum())
    reduce("var", lambda m, o: m.var(o.x, ddof=1), lambda o: o.x.var())
    cnorm = tc.compile(lambda x, y: tc.sqrt(((x - y) ** 2).sum())) if tc is not None else None
    reduce("norm", lambda m, o: m.sqrt(((o.x - o.y) ** 2).sum()), lambda o: tc.sqrt(((o.x - o.y) ** 2).sum()), torch_compile=number(th(lambda o: cnorm(o.x, o.y))))
    reduce("whichmax", lambda m, o: m.argmax(o.x), lambda o: o.x.argmax(), int)

    for name, field, axis in (("colsums", "m", 1), ("rowsums", "m", 0), ("colsums_16x2e24", "flat", 1), ("rowsums_16x2e24", "flat", 0), ("colsums_2e24x16", "tall", 1), ("rowsums_2e24x16", "tall", 0)):
        every(name, (lambda field, axis: lambda m, o: o[field].sum(axis))(field, axis), (lambda field, axis: lambda o: o[field].sum(axis))(field, axis))
    def softmax(m, x, axis):
        e = m.exp(x - x.max(axis, keepdims=True)); return e / e.sum(axis, keepdims=True)
    csoft = {axis: tc.compile(lambda x, axis=axis: tc.softmax(x, axis)) for axis in (0, 1)} if tc is not None else None
    for name, field, axis in (("softmax_contiguous", "columns", 1), ("softmax_across", "rows", 0)):
        every(name, (lambda field, axis: lambda m, o: softmax(m, o[field], axis))(field, axis), (lambda field, axis: lambda o: tc.softmax(o[field], axis))(field, axis))
        cases[name]["ways"]["torch_compile"] = th((lambda field, axis: lambda o: csoft[axis](o[field]))(field, axis))
        if jx is not None: cases[name]["ways"]["jax_nn"] = (lambda g: lambda o, g=g, field=field: g(o[field]))(jax.jit(lambda x, axis=axis: jax.nn.softmax(x, axis)))

    every("cumsum", lambda m, o: m.cumsum(o.x), lambda o: tc.cumsum(o.x, 0))
    every("sort", lambda m, o: m.sort(o.x), lambda o: tc.sort(o.x)[0])
    every("order", lambda m, o: m.argsort(o.x), lambda o: tc.argsort(o.x))
    every("gather", lambda m, o: o.x[o.i], lambda o: o.x[o.i])
    case("mask", lambda o: o.x[o.x > 0], numpy=(lambda o: o.x[o.x > 0]) if stub else None, cupy=xp(lambda m, o: o.x[o.x > 0]), torch=th(lambda o: o.x[o.x > 0]))

    # counts and order statistics in the caller's hand, as R gives them
    def added(m, o, add):
        sums = m.zeros(1000, o.x.dtype); add(sums, o.g, o.x); return sums
    if cp is not None: import cupyx
    case("rowsum", lambda o: np.bincount(o.g, o.x, 1000), numpy=(lambda o: np.bincount(o.g, o.x, 1000)) if stub else None, cupy=xp(lambda m, o: m.bincount(o.g, o.x, 1000)),
         cupy_scatter_add=xp(lambda m, o: added(m, o, cupyx.scatter_add)), jax=jit(lambda m, o: m.bincount(o.g, o.x, length=1000)),
         torch=th(lambda o: tc.bincount(o.g, o.x, 1000)), torch_index_add=th(lambda o: tc.zeros(1000, dtype=o.x.dtype, device=o.x.device).index_add_(0, o.g, o.x)))
    probs = (0, 0.25, 0.5, 0.75, 1)
    case("quantile", lambda o: np.quantile(o.x, probs), numpy=(lambda o: np.quantile(o.x, probs)) if stub else None, cupy=xp(lambda m, o: m.quantile(o.x, m.asarray(probs)).get()), jax=fetched(jit(lambda m, o: m.quantile(o.x, m.asarray(probs)))))
    case("table_256", lambda o: np.bincount(o.b, minlength=256), numpy=(lambda o: np.bincount(o.b, minlength=256)) if stub else None, cupy=xp(lambda m, o: m.bincount(o.b, minlength=256).get()),
         torch=th(lambda o: tc.bincount(o.b, minlength=256).cpu().numpy()))
    case("unique_1e6", lambda o: np.unique(o.u), numpy=(lambda o: np.unique(o.u)) if stub else None, cupy=xp(lambda m, o: m.unique(o.u)), torch=th(lambda o: tc.unique(o.u)))

    # random numbers: each peer's own generator
    def drawn(kind):
        ways = {}
        if stub: ways["numpy"] = lambda o: getattr(np.random.default_rng(1), kind[0])(o.n).astype(o.dtype)
        if cp is not None:
            ways["cupy"] = lambda o: getattr(cp.random, kind[1])(o.n, dtype=o.dtype)
            g = cp.random.default_rng(1); ways["cupy_generator"] = lambda o: getattr(g, kind[0])(o.n, dtype=o.dtype)
        if tc is not None: ways["torch"] = lambda o: getattr(tc, kind[2])(o.n, device="cuda", dtype=getattr(tc, o.dtype))
        if jx is not None:
            key, f = jax.random.key(1), jax.jit(getattr(jax.random, kind[3]), static_argnums=(1, 2)); ways["jax"] = lambda o: f(key, (o.n,), o.dtype)
        return ways
    case("rnorm", None, **drawn(("standard_normal", "standard_normal", "randn", "normal")))
    case("runif", None, **drawn(("random", "random", "rand", "uniform")))

    every("matmul", lambda m, o: o.m @ o.w, lambda o: o.m @ o.w)
    def tf32(o):
        tc.backends.cuda.matmul.allow_tf32 = True
        try: return o.m @ o.w
        finally: tc.backends.cuda.matmul.allow_tf32 = False
    case("matmul_f32_tf32_8192", lambda o: o.m @ o.w, torch=th(tf32))
    def bf16(o):
        if "m16" not in o: o["m16"], o["w16"] = o.m.bfloat16(), o.w.bfloat16()   # in the first call, which is not timed
        return o.m16 @ o.w16
    case("matmul_bf16_8192", lambda o: o.m @ o.w, torch=th(bf16))
    every("crossprod", lambda m, o: o.tall.T @ o.tall, lambda o: o.tall.T @ o.tall)
    every("solve", lambda m, o: m.linalg.solve(o.a, o.b), lambda o: tc.linalg.solve(o.a, o.b))
    every("chol", lambda m, o: m.linalg.cholesky(o.spd), lambda o: tc.linalg.cholesky(o.spd))
    every("qr", lambda m, o: m.linalg.qr(o.a, mode="raw"), lambda o: tc.geqrf(o.a))
    every("qr_q", lambda m, o: m.linalg.qr(o.a)[0], lambda o: tc.linalg.qr(o.a)[0])
    every("eigen_sym", lambda m, o: m.linalg.eigh(o.spd), lambda o: tc.linalg.eigh(o.spd))
    every("svd", lambda m, o: m.linalg.svd(o.a), lambda o: tc.linalg.svd(o.a))
    every("fft", lambda m, o: m.fft.fft(o.z), lambda o: tc.fft.fft(o.z))
    return cases


def key_of(name, cases):
    if name in cases: return name
    for tag in ("_f32", "_f64", "_c128"):
        if tag in name and name.split(tag)[0] in cases: return name.split(tag)[0]
    return None


def check_names(cases):
    listed = [c["name"] for c in CASES if c["group"] not in ("transfer", "dtypes", "small", "compile", "cold", "loop")]
    lacking = [n for n in listed if key_of(n, cases) is None]
    spare = [n for n in cases if not any(l.startswith(n) for l in listed)]
    if lacking or spare: raise SystemExit(f"bench.py and cases.csv differ: {lacking + spare}")
# lint: end


# ---- checking and timing ---------------------------------------------------------------------------------------------
def label(way):
    return {"torch_compile": "torch.compile", "cupy_fuse": "cupy.fuse", "cupy_generator": "cupy.Generator",
        "jax_nn": "jax.nn", "cupy_scatter_add": "cupyx.scatter_add", "torch_index_add": "torch.index_add_"}.get(way, way)

def emit(**row):
    row.setdefault("status", "ok")
    with open(OUT, "a") as f: f.write(json.dumps(row) + "\n")
    ms = f"{statistics.median(row['ms']):12.5f} ms" if "ms" in row else row.get("why", "")
    print(f"{row['name']:26s} {row['peer']:14s} {row['status'] if row['status'] != 'ok' else ''} {ms}",
        file=sys.stderr, flush=True)

def near(found, wanted, tolerance):
    found, wanted = np.asarray(found), np.asarray(wanted)
    return found.size == wanted.size and bool(np.all(np.abs(found.ravel() - wanted.ravel()) <= tolerance * (np.abs(wanted.ravel()) + np.abs(wanted).mean())))

def repeats(once, least=3, most=100):
    rows, start = [], time.perf_counter()
    while len(rows) < least or (time.perf_counter() - start < SECONDS and len(rows) < most): rows.append(once())
    return rows

def both(rows): return rows if len(rows) > 1 else rows * 2   # the reader expects an array

def measure(case, peer, way, round, f):
    """Batches of calls that end in a synchronisation; as measure_device() in measure.R."""
    r = f(); peer.wait(r); r = f(); peer.wait(r)
    start = time.perf_counter(); r = f(); peer.wait(r)
    inner = max(1, min(20, int(8e-3 / max(time.perf_counter() - start, 1e-9))))
    number = case["kind"] == "number"
    if number: inner = 5  # as measure_calls()
    peer.reset()
    def once():
        if not number: peer.wait(f())
        start = time.perf_counter()
        for _ in range(inner): r = f()
        returned = time.perf_counter()
        if not number: peer.wait(r)
        return (time.perf_counter() - start) / inner * 1e3, (returned - start) / inner * 1e6
    rows = repeats(once)
    emit(name=case["name"], peer=label(way), round=round, ms=both([a for a, _ in rows]),
        host_us=None if number else statistics.median(b for _, b in rows), launches=None, peak_bytes=peer.peak())

def few_of(r, peer):
    if isinstance(r, (float, int, np.ndarray)): return r
    return peer.get(r)

REFUSED = set()
def run_cases(table, round, peers, cases, host):
    group = table[0]["group"].removesuffix("_f32").removesuffix("_f64")
    for peer in peers.values():
        held, size = None, None
        for case in table:
            name = case["name"]; spec = cases[key_of(name, cases)]
            dtype = "float32" if "_f32" in name else "float64"
            n = matrix_side(name) if group in ("linear", "library") else None
            put = lambda v, d=None: peer.put(v, d or dtype)
            ways = {w: f for w, f in spec["ways"].items() if f is not None and w.split("_")[0] == peer.name}
            for way, f in ways.items():
                if (name, way) in REFUSED: continue
                try:
                    if round == 1:
                        few = min(even_square(10 ** 4), len(host["x"])) if n is None else 4900
                        small = operands(group, host["x"][:few], host["y"][:few], put, n and min(n, 64), dtype)
                        found = f(small)
                        if case["check"] in ("small", "sample", "full", "order"):
                            plain = operands(group, host["x"][:few], host["y"][:few],
                                lambda v, d=None: np.asarray(v, d or "float64"), n and min(n, 64), dtype)
                            found = few_of(found, peer)
                            if case["check"] == "order": found = plain.x[found]; wanted = np.sort(plain.x)
                            else: wanted = spec["reference"](plain)
                            # float64 limits are for R's sums in double-double; a peer may add plainly
                            least = 1e-5 if dtype == "float32" else 1e-10
                            tolerance = float(case["tolerance"])
                            if not near(found, wanted, 0 if tolerance == 0 else max(tolerance, least)):
                                REFUSED.add((name, way))
                                emit(name=name, peer=label(way), status="wrong", why="not what NumPy gives"); continue
                        elif case["check"] in ("normal", "uniform"):
                            v = np.asarray(few_of(found, peer), dtype="float64")
                            right = (0, 1) if case["check"] == "normal" else (0.5, 1 / 12)
                            if abs(v.mean() - right[0]) > 8 / len(v) ** 0.5 or abs(v.var() - right[1]) > 16 / len(v) ** 0.5:
                                REFUSED.add((name, way))
                                emit(name=name, peer=label(way), status="wrong", why="wrong moments"); continue
                        del small, found
                    if held is None or size != n:
                        held = None; gc.collect(); peer.free()
                        held, size = operands(group, host["x"], host["y"], put, n, dtype), n
                        if peer.name == "torch" and "i" in held: held["i"] = held["i"].long()   # torch indexes by int64 only; converted outside the time
                        peer.wait(list(v for v in held.values() if not isinstance(v, (int, str))))
                    measure(case, peer, way, round, lambda: f(held))
                except Exception as e:
                    REFUSED.add((name, way)); emit(name=name, peer=label(way), status="failed", why=repr(e)[:200])
        held = None; gc.collect(); peer.free()

def matrix_side(name):
    last = name.rsplit("_", 1)[1]
    return max(16, int((int(last) if last.isdigit() else 1000) * SCALE ** 0.5))

def measure_host(name, peer, way, round, f, before=None, once=False):
    """Transfers: one call a repeat."""
    def one():
        given = () if before is None else (before(),)
        peer.wait(given[0] if given else None)
        start = time.perf_counter(); r = f(*given); peer.wait(r if peer.name == "jax" else None)
        return (time.perf_counter() - start) * 1e3
    try:
        if not once: one()
        rows = repeats(one, 1 if once else 3, 1 if once else 100)
        emit(name=name, peer=way, round=round, ms=both(rows), host_us=None, launches=None, peak_bytes=peer.peak())
    except Exception as e: emit(name=name, peer=way, status="failed", why=repr(e)[:200])
    gc.collect(); peer.free()

def run_transfers(table, round, peers, cases, host):
    x = host["x"]; side = int(len(x) ** 0.5)
    for case in table:
        name = case["name"]
        if case["kind"] == "first" and round > 1: continue
        h = x.reshape(side, side).T if "matrix" in name else x   # a matrix in R's order
        single = "f32" in name
        for peer in peers.values():
            if name.startswith("h2d"):
                measure_host(name, peer, peer.name, round,
                    lambda: peer.put(h, np.float32) if single and peer.name != "torch" else up(peer, h, single))
                if peer.name == "cupy" and single:
                    measure_host(name, peer, "cupy host cast", round, lambda: peer.m.asarray(h.astype(np.float32)))
                if peer.name == "cupy" and name == "h2d_f64":
                    import cupyx
                    pinned = cupyx.empty_pinned(len(x), dtype=np.float64); pinned[:] = x; target = peer.m.empty(len(x))
                    measure_host(name, peer, "cupy pinned", round, lambda: target.set(pinned))
                    measure_host("d2h_f64", peer, "cupy pinned", round, lambda: target.get(out=pinned)); del pinned, target
            else:
                a = up(peer, h, single)
                if peer.name == "jax":   # an array of JAX keeps the copy that it has once made
                    measure_host(name, peer, "jax", round, lambda b: np.asarray(b, np.float64), before=lambda: a + 0,
                        once=case["kind"] == "first")
                elif peer.name == "torch":
                    measure_host(name, peer, "torch", round, lambda: (a.double() if single else a).cpu(),
                        once=case["kind"] == "first")
                else:
                    measure_host(name, peer, peer.name, round, lambda: peer.get(a.astype(np.float64) if single else a),
                        once=case["kind"] == "first")
                del a

def up(peer, h, single):
    if peer.name == "torch":
        t = peer.m.from_numpy(h).to("cuda")
        return t.float() if single else t
    return peer.put(h, np.float32 if single else h.dtype)

def run_dtypes(table, round, peers, cases, host):
    n = max(1000, int(2.5e7 * SCALE)); x = host["x"][:n]
    sources = {"float": x, "bool": x > 0, "complex": x + 1j * x[::-1], "uint": (np.abs(x) * 20).astype(np.int32), "int": (x * 20).astype(np.int32)}
    for case in table:
        way, dtype = case["name"].split("_", 1)
        kind = dtype.rstrip("0123456789").removeprefix("b") if dtype == "bfloat16" else dtype.rstrip("0123456789")
        h = sources[kind]
        if kind == "bool": h = h.astype(np.int32)     # R's logicals are 32 bits wide
        for peer in peers.values():
            target = {"bool8": "bool", "bfloat16": "bfloat16"}.get(dtype, dtype)
            if target == "bfloat16" and peer.name in ("cupy", "numpy"): continue
            if peer.name == "torch":
                t = getattr(peer.m, target); put = lambda h=h: peer.m.from_numpy(h).to("cuda").to(t)
                back = {"float": "float64", "bool": "int32", "complex": "complex128", "uint": "int32", "int": "float64" if dtype == "int64" else "int32"}[kind]
                get = lambda b: b.to(getattr(peer.m, back)).cpu()
            else:
                d = peer.m.bfloat16 if target == "bfloat16" else np.dtype(target)
                back = {"float": np.float64, "bool": np.int32, "complex": np.complex128, "uint": np.int32, "int": np.float64 if dtype == "int64" else np.int32}[kind]
                put = lambda h=h: peer.m.asarray(h).astype(d)
                get = lambda b: peer.get(b.astype(back))
            if way == "h2d": measure_host(case["name"], peer, peer.name, round, put)
            else:
                try: a = put()
                except Exception as e:
                    emit(name=case["name"], peer=peer.name, status="failed", why=repr(e)[:200]); continue
                measure_host(case["name"], peer, peer.name, round, get,
                    before=(lambda: a.copy()) if peer.name == "jax" else (lambda: a)); del a

def run_small(table, round, peers, cases, host):
    names = {c["name"] for c in table}
    for peer in peers.values():
        put = lambda n: peer.put(host["x"][:n], np.float32)
        x, y = put(10), peer.put(host["y"][:10], np.float32)
        calls = {"small_add": lambda: x + y, "small_sum": lambda: float(x.sum())}
        if peer.name == "torch": calls["small_sum"] = lambda: x.sum().item()
        if peer.name == "jax":
            import jax
            add, total = jax.jit(lambda a, b: a + b), jax.jit(peer.m.sum)
            calls = {"small_add": lambda: add(x, y), "small_sum": lambda: float(total(x))}
        if peer.name == "cupy":
            k = peer.m.RawKernel('extern "C" __global__ void axpy(const float* x, float* y, float a, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] += a * x[i]; }', "axpy")
            u, v, a, n = peer.m.ones(1000, np.float32), peer.m.ones(1000, np.float32), np.float32(2), np.int32(1000)
            calls["small_kernel"] = lambda: k((4,), (256,), (u, v, a, n))
            calls["small_dlpack"] = lambda: peer.m.from_dlpack(u)
        if peer.name == "torch": calls["small_dlpack"] = lambda: peer.m.from_dlpack(x)
        if not near(few_of(x + y, peer), host["x"][:10] + host["y"][:10], 1e-6):
            emit(name="small_add", peer=peer.name, status="wrong"); continue
        for name, f in calls.items():
            if name not in names: continue
            for _ in range(200): r = f()
            peer.wait(r)
            def once(calls=2000):
                start = time.perf_counter()
                for _ in range(calls): r = f()
                returned = time.perf_counter(); peer.wait(r)
                return (time.perf_counter() - start) / calls * 1e3, (returned - start) / calls * 1e6
            rows = repeats(once, 5)
            emit(name=name, peer=peer.name, round=round, ms=both([a for a, _ in rows]),
                host_us=statistics.median(b for _, b in rows), launches=None, peak_bytes=None)

UNARY = ["sin", "cos", "tanh", "atan", "exp", "abs", "floor", "sqrt"]
def fresh_source(k, module, atan):
    """Expression k of 192, as fresh_expression() in bench.R."""
    at = (k * 37 + 11) % 192
    inner = lambda f, v: f"{module}.sqrt({module}.abs({v}))" if f == "sqrt" else f"{module}.{atan if f == 'atan' else f}({v})"
    return f"({inner(UNARY[at % 8], 'x')} {'+-*'[at // 64]} {inner(UNARY[at // 8 % 8], 'y')}) * 0.5 + x"

def run_fresh(table, round, peers, cases, host):
    n = max(1000, int(1e6 * SCALE))
    for peer in peers.values():
        x, y = peer.put(host["x"][:n], np.float32), peer.put(host["y"][:n], np.float32); peer.wait((x, y))
        ways = [peer.name] + (["cupy_fuse"] if peer.name == "cupy" else ["torch_compile"] if peer.name == "torch" else [])
        for way in ways:
            ms = []
            # torch.compile takes a second for each: three of them
            for k in range((round - 1) * 30, (round - 1) * 30 + (3 if way == "torch_compile" else 30)):
                f = eval("lambda x, y: " + fresh_source(k, "m", "atan" if peer.name == "torch" else "arctan"),
                    dict(m=peer.m))
                peer.wait((x, y)); start = time.perf_counter()
                g = peer.m.fuse(kernel_name="fresh")(f) if way == "cupy_fuse" else peer.m.compile(f) if way == "torch_compile" else f
                if peer.name == "jax": import jax; g = jax.jit(f)
                r = g(x, y); peer.wait(r); ms.append((time.perf_counter() - start) * 1e3)
                reference = eval("lambda x, y: " + fresh_source(k, "m", "arctan"), dict(m=np))
                wanted = reference(host["x"][:100], host["y"][:100])
                if not near(peer.get(r[:100]), wanted, 1e-4):
                    emit(name="new_expression", peer=label(way), status="wrong", why=fresh_source(k, "m", "atan")); break
            else:
                emit(name="new_expression", peer=label(way), round=round, ms=both(ms), host_us=None, launches=None,
                    peak_bytes=None)

COLD = {
    "cupy": "import numpy as np, cupy as m; x = m.asarray(np.random.rand(N).astype('f')); w = m.cuda.Device().synchronize; w(); t = time.perf_counter(); y = m.sqrt(x * x + 1) * 2 - m.exp(-x); w()",
    "torch": "import numpy as np, torch as m; x = m.from_numpy(np.random.rand(N).astype('f')).cuda(); w = m.cuda.synchronize; w(); t = time.perf_counter(); y = m.sqrt(x * x + 1) * 2 - m.exp(-x); w()",
    "jax": "import numpy as np, jax, jax.numpy as m; x = jax.device_put(np.random.rand(N).astype('f')); x.block_until_ready(); t = time.perf_counter(); y = jax.jit(lambda x: m.sqrt(x * x + 1) * 2 - m.exp(-x))(x); y.block_until_ready()",
    "numpy": "import numpy as m; x = m.random.rand(N); t = time.perf_counter(); y = m.sqrt(x * x + 1) * 2 - m.exp(-x)",
}
def run_cold(table, round, peers, cases, host):
    if round > 1: return
    names = [c["name"] for c in table]
    for peer in peers.values():
        with tempfile.TemporaryDirectory() as cache:
            code = f"import time; N = {int(1e6 * SCALE)}; {COLD[peer.name]}; print((time.perf_counter() - t) * 1e3)"
            # of these CuPy alone keeps what it compiles by itself; the others are always cold
            for name in names if peer.name == "cupy" else names[:1]:
                p = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, CUPY_CACHE_DIR=cache),
                    capture_output=True, text=True)
                if p.returncode: emit(name=name, peer=peer.name, status="failed", why=p.stderr[-200:])
                else:
                    emit(name=name, peer=peer.name, round=round, ms=both([float(p.stdout)]), host_us=None,
                        launches=None, peak_bytes=None)

def run_loop(table, round, peers, cases, host):
    n, steps = max(1000, int(1e6 * SCALE)), max(100, int(1e5 * SCALE))
    for peer in peers.values():
        start_x = peer.put(host["x"][:n], np.float32); step = lambda x, a, b: x * a + b
        ways = {peer.name: step}
        if peer.name == "jax":
            import jax
            ways = {"jax": jax.jit(step)}
        if peer.name == "cupy": ways["cupy_fuse"] = peer.m.fuse(kernel_name="step")(step)
        if peer.name == "torch": ways["torch_compile"] = peer.m.compile(step)
        for way, f in ways.items():
            try:
                x = start_x
                for _ in range(100): x = f(x, 0.99, 0.01)
                wanted = host["x"][:100].copy()
                for _ in range(100): wanted = wanted * 0.99 + 0.01
                if not near(peer.get(x[:100]), wanted, 1e-4):
                    emit(name="loop", peer=label(way), status="wrong"); continue
                peer.wait(x); peer.reset(); x = start_x; start = time.perf_counter()
                for _ in range(steps): x = f(x, 0.99, 0.01)
                returned = time.perf_counter(); peer.wait(x); end = time.perf_counter()
                for name in (c["name"] for c in table):
                    emit(name=name, peer=label(way), round=round, ms=both([(end - start) * 1e3]),
                        host_us=(returned - start) / steps * 1e6, launches=None, peak_bytes=peer.peak())
            except Exception as e: emit(name="loop", peer=label(way), status="failed", why=repr(e)[:200])

def run_limits(round, peers):
    """What the card and the bus can do, as rows of peer "limit": the floors of the table."""
    if "torch" not in peers: return
    torch, peer, N = peers["torch"].m, peers["torch"], int(10 ** 8 * SCALE)
    def limit(name, f, per):
        for _ in range(3): f()
        peer.wait()
        def once():
            start = time.perf_counter()
            for _ in range(per): f()
            peer.wait(); return (time.perf_counter() - start) / per * 1e3
        return repeats(once)
    a = torch.zeros(2 * N, dtype=torch.float64, device="cuda"); b = torch.empty_like(a)
    rows = {"copy": (limit("copy", lambda: b.copy_(a), 5), 2 * a.nbytes),
        "read": (limit("read", lambda: a.view(-1).view(torch.float32).sum(), 5), a.nbytes)}
    del a, b; peer.free()
    h = torch.empty(N, dtype=torch.float64, pin_memory=True); d = torch.empty(N, dtype=torch.float64, device="cuda")
    rows["h2d"] = (limit("h2d", lambda: d.copy_(h, non_blocking=True), 1), h.nbytes)
    rows["d2h"] = (limit("d2h", lambda: h.copy_(d, non_blocking=True), 1), h.nbytes)
    del h, d; peer.free()
    for name, (ms, nbytes) in rows.items():
        emit(name="limit_" + name, peer="limit", round=round, ms=both(ms), gbs=nbytes / statistics.median(ms) / 1e6)
    if "cupy" in peers:
        k = peers["cupy"].m.RawKernel('extern "C" __global__ void nothing() {}', "nothing")
        emit(name="limit_launch", peer="limit", round=round,
            ms=both([t / 1000 for t in limit("launch", lambda: [k((1,), (1,), ()) for _ in range(1000)], 1)]))

SPECIAL = dict(transfer=run_transfers, dtypes=run_dtypes, small=run_small, compile=run_fresh, cold=run_cold,
    loop=run_loop)
def run_group(group, round, state):
    if group == "limit": return run_limits(round, state["peers"])
    table = [c for c in WANTED if c["group"] == group]
    if table: SPECIAL.get(group, run_cases)(table, round, state["peers"], state["cases"], state["host"])

def main():
    if OUT is None: raise SystemExit(__doc__)
    state = {}
    def begin():
        state["peers"] = load_peers(FLAGS.get("peers", "cupy,torch,jax").split(","))
        state["cases"] = build(state["peers"]); check_names(state["cases"])
        emit(name="versions", peer="versions",
            status=", ".join(f"{k} {getattr(p.m, '__version__', '') or sys.modules[k].__version__}"
                for k, p in state["peers"].items()))
        if "torch" in state["peers"]:
            emit(name="device", peer="versions", status=state["peers"]["torch"].m.cuda.get_device_name(0))
    if "serve" not in FLAGS:
        state["host"] = make_inputs(); begin()
        for round in range(1, int(FLAGS.get("rounds", 1)) + 1):
            for group in ["limit", *dict.fromkeys(c["group"] for c in WANTED)]: run_group(group, round, state)
        return
    progress = os.fdopen(os.dup(1), "w"); os.dup2(2, 1)   # what libraries print does not disturb the other end
    for text in sys.stdin:
        command = text.split()
        try:
            if command[0] == "quit": break
            if command[0] == "inputs": state["host"] = make_inputs()
            elif command[0] == "begin": begin()
            else: run_group(command[0], int(command[1]), state)
        except Exception as e: emit(name=command[0], peer="python", status="stopped", why=repr(e)[:300])
        gc.collect()
        for p in state.get("peers", {}).values(): p.free()
        print("done", file=progress, flush=True)

if __name__ == "__main__": main()
