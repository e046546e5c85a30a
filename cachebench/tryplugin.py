# SPDX-License-Identifier: BSD-3-Clause
"""Loads one plug-in and says so: what is wrong with it ends this process alone."""

from __future__ import annotations

import os
import sys

from cachebench._core import ffi, lib


def main() -> int:
    why = ffi.new("char[]", 1024)
    if lib.cb_plugin_open(os.fsencode(sys.argv[1]), why, len(why)) == ffi.NULL:
        print(ffi.string(why).decode(errors="replace"), file=sys.stderr)
        return 2
    print("loaded", flush=True)
    return 0
