"""DLPack capsules between R and Python, for R/dlpack.R. Python's C API is reached by ctypes: nothing to compile."""

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

# in a destructor the capsule is an address: it must not become an object again
is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", api))
get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
DELETER = (56, 16)  # where DLManagedTensor and DLManagedTensorVersioned have it (dlpack.h, 64 bits)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def destroy(capsule):
    """Calls the deleter, if nobody used the capsule."""
    for k in (0, 1):
        if is_valid(capsule, names[k]):
            pointer = get_pointer(capsule, names[k])
            deleter = ctypes.c_void_p.from_address(pointer + DELETER[k]).value
            if deleter:
                ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(pointer)


def take(x):
    """The address of a capsule's tensor, and whether it is versioned; the capsule no longer owns it. None if it is used."""
    if hasattr(x, "__dlpack__"):
        try:
            x = x.__dlpack__(max_version=(1, 0))
        except TypeError:
            x = x.__dlpack__()
    for k in (0, 1):
        if api.PyCapsule_IsValid(x, names[k]):
            pointer = api.PyCapsule_GetPointer(x, names[k])
            api.PyCapsule_SetName(x, used[k])
            return float(pointer), k == 1
    return None


class Tensor:
    """An array of R. It can be given away once."""

    def __init__(self, address, versioned, device):
        self.capsule = api.PyCapsule_New(int(address), names[int(versioned)], ctypes.cast(destroy, ctypes.c_void_p))
        self.device = (int(device[0]), int(device[1]))

    def __dlpack__(self, **_):
        if self.capsule is None:
            raise BufferError("the capsule has been used")
        capsule, self.capsule = self.capsule, None
        return capsule

    def __dlpack_device__(self):
        return self.device
