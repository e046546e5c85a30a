# SPDX-License-Identifier: BSD-3-Clause
"""What a session table's memory layout costs, measured on your machine."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("cachebench")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"
