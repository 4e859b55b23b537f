"""How the C library keeps the memory of a process."""

import contextlib
import ctypes

# As in malloc.h of glibc.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
LARGE_BLOCK_BYTES = 256 << 10
KEPT_BYTES = 4 << 20


def return_large_blocks() -> None:
    """Blocks of 256 KiB and more go back to the system as soon as they are free.

    By itself glibc takes larger and larger blocks from its heap, up to 32 MiB, once one was free; what stays
    between them, a job here and a row there, then keeps all of that from being given back: 100 MiB after
    a dozen arrays of 16 MiB. Another C library is left as it is.
    """
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
