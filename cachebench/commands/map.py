# SPDX-License-Identifier: BSD-3-Clause
"""``cachebench map``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import msgspec

from cachebench import build, catalogue, dwarf, experiment, resultfile, tracing
from cachebench.analyze import lines, structmap
from cachebench.errors import CachebenchError
from cachebench.model import Experiment
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
            "--heat",
            action="store_true",
            help="also accesses and misses per packet, from a trace at the point",
        )
        parser.add_argument("--json", action="store_true", help="print the map document")
        parser.add_argument("--svg", metavar="FILE", help="draw the map")
        experiment.add_arguments(parser, layouts=False, timed=False)
        tracing.add_arguments(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        pair = (arguments.base, arguments.head)
        if (arguments.layout is None) == (pair == (None, None)) or (
            arguments.layout is None and None in pair
        ):
            raise CachebenchError("type a layout, or --base LAYOUT --head LAYOUT")
        if arguments.svg:
            resultfile.check_writable(arguments.svg)
        arguments.layouts = pair if arguments.layout is None else (arguments.layout,)
        asked = tracing.from_arguments(arguments)
        point = asked.experiment
        if not arguments.heat and asked != tracing.Asked(_unheated(point)):
            raise CachebenchError(
                "the point and the simulated memory are those of the heat: type --heat too"
            )
        heats: Sequence[structmap.HeatMap | None] = [None] * len(point.layouts)
        traced = None
        if arguments.heat:
            heats, traced = _heat(asked)
        maps = tuple(
            layout_map(name, point, heat) for name, heat in zip(point.layouts, heats, strict=True)
        )
        differences = structmap.compare(*maps) if arguments.layout is None else None
        document = structmap.Document(structmap.SCHEMA, maps, differences, traced)
        if arguments.svg:
            resultfile.write(arguments.svg, mapsvg.draw(document))
        if arguments.json:
            sys.stdout.write(encode(document))
        else:
            maptext.show(document)
        return 0


def layout_map(
    typed: str, point: Experiment, heat: structmap.HeatMap | None = None
) -> structmap.LayoutMap:
    """The map of a layout by name or path, from a kernel that is compiled for it if need be."""
    layout = catalogue.find(typed)
    # A plug-in in any case: its object holds one kernel, and always has its own debug information.
    path = build.build(
        build.Recipe(
            layout, key_size=point.key_size, march=point.march, cflags=point.cflags, plugin=True
        )
    )
    ops = build.load(path, layout.name, point.key_size)
    return structmap.map_layout(layout.name, point.key_size, dwarf.arena_types(ops, path), heat)


def _unheated(point: Experiment) -> Experiment:
    """The default point of the same kernels: a map without heat depends on these alone."""
    return msgspec.structs.replace(
        experiment.DEFAULT,
        layouts=point.layouts,
        key_size=point.key_size,
        march=point.march,
        cflags=point.cflags,
    )


def _heat(asked: tracing.Asked) -> tuple[list[structmap.HeatMap], structmap.HeatPoint]:
    """What a trace of each layout says of its members."""
    with Progress(facts=False) as progress:
        result = tracing.trace(asked, progress)
    point = structmap.HeatPoint(
        result.spec, result.geometry, result.lookups, result.warm_up, result.prefetch
    )
    return [lines.heat_map(traced.objects) for traced in result.results], point


def encode(document: structmap.Document) -> str:
    """The document as text."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"
