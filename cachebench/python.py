# SPDX-License-Identifier: BSD-3-Clause
"""Starting this Python again with another module."""

from __future__ import annotations

import sys


def command(module: str) -> tuple[str, ...]:
    """What starts ``main()`` of a module in a process of its own; arguments may follow.

    It imports from the folders that this process imports from. Python would put
    the working folder before them, which may hold a source tree of the same name.
    """
    paths = repr([path for path in sys.path if path])
    start = f"import sys; sys.path[:] = {paths}; from {module} import main; sys.exit(main())"
    return (sys.executable, "-IB", "-c", start)
