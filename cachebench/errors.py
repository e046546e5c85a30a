# SPDX-License-Identifier: BSD-3-Clause
"""The one exception that reaches the user."""

from __future__ import annotations


class CachebenchError(Exception):
    """A failure that the user can act on.

    The message is one line that says what is wrong and what to type; the
    command line prints it on stderr and exits with ``exit_code``: 1 for a
    regression, 2 for usage, build failures, crashes and missing data, 3 for an
    inconclusive and 4 for an impossible measurement.
    """

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code
