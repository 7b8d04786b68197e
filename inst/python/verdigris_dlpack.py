"""DLPack capsules between R and Python, for R/interop-python.R. Python's C API is reached by ctypes: nothing to compile."""

import ctypes

api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
# a capsule keeps the address of its name: these live as long as the module
names = [b"dltensor", b"dltensor_versioned"]
used = [b"used_dltensor", b"used_dltensor_versioned"]

# The capsules' destructor is native code of the package, since it may run while an exception is pending, as where a
# consumer refuses a tensor: no Python code may run then. R gives its address (start()).
destructor = None


def address_of(name):
    """The address of a function of Python's C API, as R passes it on to the destructor's code."""
    return str(ctypes.cast(getattr(api, name), ctypes.c_void_p).value)


def start(address):
    global destructor
    destructor = int(address)


CUDA = (2, 13)  # kinds of devices whose work is queued on streams: device memory, managed memory
DEFAULT_STREAM = 1


def take(x):
    """The address of a tensor, and whether it is versioned; the producer no longer owns it. None if there is none to take."""
    if hasattr(x, "__dlpack__"):
        options = {"stream": DEFAULT_STREAM} if x.__dlpack_device__()[0] in CUDA else {}
        try:
            x = x.__dlpack__(max_version=(1, 0), **options)
        except TypeError:
            x = x.__dlpack__(**options)  # older than DLPack 1.0
    for k in (0, 1):
        if api.PyCapsule_IsValid(x, names[k]):
            pointer = api.PyCapsule_GetPointer(x, names[k])
            api.PyCapsule_SetName(x, used[k])
            return float(pointer), k == 1
    return None


def capsule_of(address, versioned):
    return api.PyCapsule_New(int(address), names[int(versioned)], destructor)


class Tensor:
    """A capsule of R. It can be given away once."""

    def __init__(self, address, versioned, device):
        self.capsule = capsule_of(address, versioned)
        self.device = (int(device[0]), int(device[1]))

    def __dlpack__(self, **_):
        if self.capsule is None:
            raise BufferError("the capsule has been used")
        capsule, self.capsule = self.capsule, None
        return capsule

    def __dlpack_device__(self):
        return self.device


class Array:
    """An array of R, which lives as long as this object. Each call of __dlpack__ gives a new capsule over its memory."""

    def __init__(self, export, host, device, shape, dtype):
        self._export = export
        self._host = host
        self._device = (int(device[0]), int(device[1]))
        self.shape = tuple(int(extent) for extent in shape)
        self.ndim = len(self.shape)
        self.dtype = str(dtype)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if dl_device is not None and tuple(dl_device) != self._device:
            raise BufferError("the array is on device %s, and is not moved: use as_gpu(x, device = ) in R" % (self._device,))
        if self._device[0] in CUDA:
            # none, "no order wanted" and 0 too: the default stream, which costs no wait
            stream = float(stream) if stream is not None and stream > 0 else float(DEFAULT_STREAM)
        else:
            stream = None
        versioned = max_version is not None and max_version[0] >= 1
        return capsule_of(self._export(versioned, stream, copy is True), versioned)

    def __dlpack_device__(self):
        return self._device

    def __array__(self, dtype=None, copy=None):
        import numpy

        if self._device[0] in CUDA:
            values = numpy.asarray(self._host())
        else:
            values = numpy.from_dlpack(self)
        if dtype is not None and values.dtype != dtype:
            return values.astype(dtype)
        return values.copy() if copy else values

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __repr__(self):
        return "<R array %s %s on %s>" % (self.dtype, self.shape, "cuda:%d" % self._device[1] if self._device[0] in CUDA else "cpu")
