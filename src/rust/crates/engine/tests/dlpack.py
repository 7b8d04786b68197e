"""numpy and the engine exchange arrays by DLPack in one process. usage: dlpack.py LIBRARY (examples/dlpack_producer)"""

import ctypes
import gc
import sys

import numpy as np

lib = ctypes.CDLL(sys.argv[1])
lib.verdigris_example.restype = ctypes.c_void_p
lib.verdigris_example.argtypes = [ctypes.c_int, ctypes.c_int]
lib.verdigris_alive.restype = ctypes.c_uint64
lib.verdigris_import.argtypes = [ctypes.c_void_p, ctypes.c_int]
lib.verdigris_element.restype = ctypes.c_double
lib.verdigris_element.argtypes = [ctypes.POINTER(ctypes.c_int64)]

api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
NAMES = [b"dltensor", b"dltensor_versioned"]  # a capsule keeps the address of its name
USED = [b"used_dltensor", b"used_dltensor_versioned"]
KINDS = ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", None, "float32", "float64", "complex64", "complex128"]
VERSIONED_NUMPY = int(np.__version__.split(".")[0]) * 100 + int(np.__version__.split(".")[1]) >= 201


class Producer:
    """What numpy.from_dlpack asks for."""

    def __init__(self, kind, versioned):
        self.kind, self.versioned = kind, versioned

    def __dlpack__(self, **_):
        pointer = lib.verdigris_example(self.kind, self.versioned)
        assert pointer, "the engine refused"
        return api.PyCapsule_New(pointer, NAMES[self.versioned], None)

    def __dlpack_device__(self):
        return (1, 0)


def check_export(versioned):
    start = lib.verdigris_alive()
    x = np.from_dlpack(Producer(0, versioned))
    assert x.shape == (2, 3) and x.strides == (8, 16) and x.dtype == np.float64, (x.shape, x.strides)
    assert x.flags.f_contiguous and not x.flags.writeable and not x.flags.owndata
    assert (x == np.arange(6.0).reshape(3, 2).T).all()
    assert lib.verdigris_alive() == start + 48, "no copy was made, and the memory is alive"
    part = x[:, 1]
    del x
    gc.collect()
    assert (part == [2, 3]).all() and lib.verdigris_alive() == start + 48
    del part
    gc.collect()
    assert lib.verdigris_alive() == start, "the deleter ran"

    t = np.from_dlpack(Producer(1, versioned))
    assert t.shape == (3, 2) and t.strides == (16, 8) and (t == np.arange(6.0).reshape(3, 2)).all()
    r = np.from_dlpack(Producer(2, versioned))
    assert r.strides == (-16,) and (r == [5, 3, 1]).all()
    one = np.from_dlpack(Producer(3, versioned))
    assert one.shape == () and one[()] == 0
    none = np.from_dlpack(Producer(4, versioned))
    assert none.shape == (0, 3) and none.size == 0
    flags = np.from_dlpack(Producer(5, versioned))
    assert flags.dtype == np.bool_ and flags.tolist() == [True, False]
    for k, name in enumerate(KINDS):
        if name is None:
            continue  # numpy has no bfloat16
        x = np.from_dlpack(Producer(10 + k, versioned))
        expected = np.array([True, True, True] if name == "bool" else [1, 2, 3], dtype=name)
        assert x.dtype == expected.dtype and (x == expected).all(), name
    del t, r, one, none, flags, x
    gc.collect()
    assert lib.verdigris_alive() == start


class Tracked(np.ndarray):
    gone = 0

    def __del__(self):
        Tracked.gone += 1


def check_import(x, versioned, refused=False):
    base = x.view(Tracked)
    capsule = base.__dlpack__(max_version=(1, 0)) if versioned else base.__dlpack__()
    pointer = api.PyCapsule_GetPointer(capsule, NAMES[versioned])
    done = lib.verdigris_import(pointer, versioned)
    assert done == (not refused)
    before = Tracked.gone
    if refused:
        del base, capsule  # the capsule still owns it, and lets go
        gc.collect()
        assert Tracked.gone == before + 1
        return
    api.PyCapsule_SetName(capsule, USED[versioned])
    del capsule, base
    gc.collect()
    assert Tracked.gone == before, "the engine keeps numpy's array alive"
    for index in np.ndindex(x.shape):
        at = (ctypes.c_int64 * max(1, x.ndim))(*index)
        assert lib.verdigris_element(at) == x[index], index
    if x.size and x.flags.writeable:
        index = tuple(0 for _ in x.shape)
        x[index] = 1 - x[index]
        assert lib.verdigris_element((ctypes.c_int64 * max(1, x.ndim))(*index)) == x[index], "the memory is one"
    lib.verdigris_release()
    gc.collect()
    assert Tracked.gone == before + 1, "numpy's deleter ran"


for versioned in [0, 1] if VERSIONED_NUMPY else [0]:
    check_export(versioned)
    for x in [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(24, dtype="int32").reshape(2, 3, 4)[:, ::2, ::-1],
        np.arange(3, dtype="float32"),
        np.array(3.0),
        np.zeros((0, 2)),
        np.array([True, False]),
        np.broadcast_to(np.arange(3.0), (2, 3)) if versioned else np.arange(3.0),
    ]:
        check_import(x, versioned)
    check_import(np.arange(3, dtype="uint32"), versioned, refused=True)
    check_import(np.array([1, 2], dtype="uint8").view("bool"), versioned, refused=True)
print("numpy", np.__version__, "ok")
