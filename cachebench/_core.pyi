# SPDX-License-Identifier: BSD-3-Clause
"""The C core, by cffi; csrc/core.cdef has its declarations."""

from typing import Any

ffi: Any
lib: Any
