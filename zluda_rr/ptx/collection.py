"""Building large trees without the cyclic garbage collector."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Pause the collector: hundreds of thousands of live nodes without cycles make it walk the whole heap again and
    again for nothing (half of the time for a module of 130,000 lines).
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
