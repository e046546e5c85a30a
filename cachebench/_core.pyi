"""The C core, by cffi; csrc/core.cdef has its declarations."""

from typing import Any

ffi: Any
lib: Any
