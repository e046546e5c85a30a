# SPDX-License-Identifier: BSD-3-Clause
"""Numbers in perf's human output, whose locale has to be inferred from the text itself.

The digits of ``20.053`` are a whole number in German and could be a fraction in
English. What perf prints with a fraction has two decimals (six in old versions,
nine in times), never three; and every percentage and time in the same output
shows which sign is the decimal one. Without such a witness a number with one
group is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_WITNESSES = (
    re.compile(r"[0-9]([.,])[0-9]{9} seconds"),
    re.compile(r"[(\[]\s*[0-9]{1,3}([.,])[0-9]{2}\s*%\s*[)\]]"),
    re.compile(r"\+-\s*[0-9]{1,6}([.,])[0-9]{1,3}\s*%"),
    re.compile(r"#\s+[0-9]{1,6}([.,])[0-9]{2}(?![0-9])"),
    re.compile(r"#\s+0([.,])[0-9]{3}(?![0-9])"),
    re.compile(r"[0-9]([.,])[0-9]{2}\s+msec\s"),
    re.compile(r"(?m)^[ \t]*[0-9]{1,12}([.,])[0-9]{6}[ \t]"),
)
_GROUP_SPACES = re.compile("(?<=[0-9])[ \u00a0\u202f'\u2019](?=[0-9])")
_GROUPED = re.compile(r"[0-9]{1,3}(?:[.,][0-9]{2,3})*[.,][0-9]{3}")

NUMBER = (
    "[0-9]{1,3}(?:[ \u00a0\u202f'\u2019][0-9]{3})+(?![0-9])(?:[.,][0-9]{1,6})?|[0-9][0-9.,]{0,40}"
)
"""A number as it stands in a row, thousands apart by a space or a sign."""


@dataclass(frozen=True)
class Numerals:
    """The decimal sign of an output: ``.``, ``,`` or unknown (None).

    ``contradictory`` where both are witnessed, as in two outputs put together.
    """

    decimal: str | None
    contradictory: bool = False

    @staticmethod
    def of(text: str) -> Numerals:
        signs = {sign for pattern in _WITNESSES for sign in pattern.findall(text)}
        if len(signs) > 1:
            return Numerals(None, True)
        return Numerals(signs.pop() if signs else None)

    def plain(self, text: str) -> str | None:
        """The number with a decimal point and without groups; None where not certain."""
        spaced = _GROUP_SPACES.search(text) is not None
        digits = _GROUP_SPACES.sub("", text)
        signs = [character for character in digits if character in ".,"]
        if not signs:
            return digits
        if self.contradictory:
            return None
        last = signs[-1]
        head, _, tail = digits.rpartition(last)
        if last not in signs[:-1] and len(tail) in (2, 6) and self.decimal in (None, last):
            whole = head
            if not whole.isdigit():
                if spaced or not _GROUPED.fullmatch(whole) or len(set(signs[:-1])) != 1:
                    return None
                whole = whole.replace(signs[0], "")
            return f"{whole}.{tail}"
        if spaced or len(set(signs)) != 1 or not _GROUPED.fullmatch(digits):
            return None
        if last == self.decimal or (self.decimal is None and len(signs) == 1):
            return None
        return digits.replace(last, "")
