# SPDX-License-Identifier: BSD-3-Clause
"""``cachebench map``."""

from __future__ import annotations

import argparse
import shlex
import sys

import msgspec

from cachebench import build, catalogue, dwarf, experiment, resultfile, tracing
from cachebench.analyze import lines, structmap
from cachebench.errors import CachebenchError
from cachebench.report import mapsvg, maptext
from cachebench.report.progress import Progress


class Map:
    """Show where the members of a layout's structs lie: offsets, cache lines, holes.

    LAYOUT, or --base and --head to put two side by side, is a name or the path of
    a header.
    """

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("layout", nargs="?", metavar="LAYOUT", help="what to show")
        parser.add_argument("--base", metavar="LAYOUT", help="what to compare with")
        parser.add_argument("--head", metavar="LAYOUT", help="what is compared")
        parser.add_argument(
            "--key", type=int, choices=build.KEY_SIZES, default=16, help="bytes of a key (16)"
        )
        parser.add_argument("--cflags", metavar="FLAGS", help="compile with these flags too")
        parser.add_argument(
            "--heat",
            action="store_true",
            help="also accesses and misses per lookup, from a trace at the default point",
        )
        parser.add_argument("--json", action="store_true", help="print the map document")
        parser.add_argument("--svg", metavar="FILE", help="draw the map")

    def run(self, arguments: argparse.Namespace) -> int:
        pair = (arguments.base, arguments.head)
        if (arguments.layout is None) == (pair == (None, None)) or (
            arguments.layout is None and None in pair
        ):
            raise CachebenchError("type a layout, or --base LAYOUT --head LAYOUT")
        if arguments.svg:
            resultfile.check_writable(arguments.svg)
        typed = pair if arguments.layout is None else (arguments.layout,)
        cflags = _split(arguments.cflags or "")
        maps = tuple(
            layout_map(name, arguments.key, cflags, _heat(name, arguments.key, cflags))
            if arguments.heat
            else layout_map(name, arguments.key, cflags)
            for name in typed
        )
        differences = structmap.compare(*maps) if arguments.layout is None else None
        document = structmap.Document(structmap.SCHEMA, maps, differences)
        if arguments.svg:
            resultfile.write(arguments.svg, mapsvg.draw(document))
        if arguments.json:
            sys.stdout.write(encode(document))
        else:
            maptext.show(document)
        return 0


def layout_map(
    typed: str,
    key_size: int = 16,
    cflags: tuple[str, ...] = (),
    heat: structmap.HeatMap | None = None,
) -> structmap.LayoutMap:
    """The map of a layout by name or path, from a kernel that is compiled for it if need be."""
    layout = catalogue.find(typed)
    # A plug-in in any case: its object holds one kernel, and always has its own debug information.
    path = build.build(build.Recipe(layout, key_size=key_size, cflags=cflags, plugin=True))
    ops = build.load(path, layout.name, key_size)
    return structmap.map_layout(layout.name, key_size, dwarf.arena_types(ops, path), heat)


def _heat(typed: str, key_size: int, cflags: tuple[str, ...]) -> structmap.HeatMap:
    """What a trace of the layout at the default point says of each member."""
    point = msgspec.structs.replace(
        experiment.DEFAULT, layouts=(typed,), key_size=key_size, cflags=cflags
    )
    with Progress(facts=False) as progress:
        (traced,) = tracing.trace(tracing.Asked(point), progress).results
    return lines.heat_map(traced.objects)


def encode(document: structmap.Document) -> str:
    """The document as text."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def _split(flags: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(flags))
    except ValueError as error:
        raise CachebenchError(f"--cflags {flags!r}: {error}") from None
