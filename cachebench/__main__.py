# SPDX-License-Identifier: BSD-3-Clause
"""``python -m cachebench``."""

from cachebench.entry import entry

entry()
