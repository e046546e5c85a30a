# SPDX-License-Identifier: BSD-3-Clause
"""Running profiles: processes of all layouts in turn, and what their samples tell."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from cachebench import _core, build, catalogue, disassembly, dwarf, hotplaces, sizing
from cachebench.analyze import hotspots
from cachebench.analyze.hotspots import Neighbours, Times
from cachebench.errors import CachebenchError
from cachebench.hotplaces import OUTSIDE, Places
from cachebench.inlines import Inlines, Segments
from cachebench.listener import Listener, Step
from cachebench.machine.cpus import wanted_cpu
from cachebench.model import Experiment, Figure
from cachebench.process import run
from cachebench.profilemodel import (
    Added,
    LineSpot,
    Profile,
    ProfilePlan,
    ProfileResult,
    ProfileSample,
    SourceLine,
    Spot,
    Way,
)
from cachebench.python import command

SAMPLES = 10_000
"""Shares of one half then differ by 1.4 points between two runs, at most, 19 times in
20, from chance alone."""
PERIOD_NS = 199_967
"""A prime, lest samples keep step with what runs at a round rate."""
SURE = 0.8
"""Of the samples of a pointer chase, the part that must agree on where they land."""
UNKNOWN = "no line"
RULES = "rules"
RULE_TYPE = "struct cb_rule"


@dataclass(frozen=True)
class Asked:
    """What a profile is to be made of."""

    experiment: Experiment
    samples: int = SAMPLES
    """Of each layout, over all its processes."""
    way: Way | None = None


@dataclass
class _Arm:
    """One layout: its kernel, and its processes so far."""

    layout: catalogue.Layout
    plugin: Path
    lines: Inlines
    listing: tuple[disassembly.Instruction, ...]
    arenas: tuple[dwarf.Arena, ...]
    samples: list[ProfileSample] = field(default_factory=list)


def profile(asked: Asked, listener: Listener) -> ProfileResult:
    """Profiles all layouts of the experiment; raises CachebenchError if one fails."""
    experiment = asked.experiment
    if asked.samples < 1:
        raise CachebenchError("--samples 0: type a number from 1")
    cpu = wanted_cpu(experiment.cpu)
    experiment = msgspec.structs.replace(experiment, cpu=cpu)
    arms = _prepare(experiment, listener)
    order = random.Random(experiment.seed)
    done = 0
    for process in range(experiment.processes):
        shuffled = list(arms)
        order.shuffle(shuffled)
        for arm in shuffled:
            listen = Step(listener, arm.layout.name, done, experiment.processes * len(arms))
            arm.samples.append(_sample(asked, arm, process, cpu, listen))
            done += 1
    before, share = _lands(arms)
    profiles = [_profile(arm, before) for arm in arms]
    return ProfileResult(
        schema="cachebench.profile/1",
        spec=experiment,
        period_ns=PERIOD_NS,
        charged="before" if before else "at",
        chase_share=share,
        profiles=tuple(found for found, _ in profiles),
        added=tuple(_added(profiles[0], head) for head in profiles[1:]),
    )


def _prepare(experiment: Experiment, listener: Listener) -> list[_Arm]:
    layouts = [catalogue.find(name) for name in experiment.layouts]
    names = [layout.name for layout in layouts]
    arms = []
    for number, layout in enumerate(layouts):
        if names.count(layout.name) > 1:
            raise CachebenchError(f"two layouts are called {layout.name}; rename one header")
        listener.step(f"building {layout.name}", number, len(layouts))
        # A plug-in in any case: it holds one kernel, and its debug information names
        # the sources that are here.
        path = build.build(
            build.Recipe(
                layout,
                key_size=experiment.key_size,
                march=experiment.march,
                cflags=experiment.cflags,
                plugin=True,
            )
        )
        ops = build.load(path, layout.name, experiment.key_size)
        sizing.check([(layout.name, sizing.footprint(ops, experiment))], experiment)
        lines = Inlines(path, f"layout {layout.name}")
        arenas = dwarf.arena_types(ops, path)
        rule = dwarf.structs(path, [RULE_TYPE])[RULE_TYPE]
        rules = dwarf.Arena(RULES, RULE_TYPE, rule.size, "rules", rule)
        listing = disassembly.instructions(path)
        arms.append(_Arm(layout, path, lines, listing, (*arenas, rules)))
    return arms


def _sample(
    asked: Asked, arm: _Arm, process: int, cpu: int, listen: Callable[[str], None]
) -> ProfileSample:
    experiment = asked.experiment
    plan = ProfilePlan(
        experiment=experiment,
        layout=arm.layout.name,
        plugin=str(arm.plugin),
        cpu=cpu,
        seed=experiment.seed * 1000 + process,
        way=asked.way,
        period_ns=PERIOD_NS,
        samples=-(-asked.samples // experiment.processes),
        strides={arena.name: arena.stride for arena in arm.arenas},
        operands=hotplaces.operands(arm.listing, arm.lines.segments) if process == 0 else None,
    )
    what = f"layout {arm.layout.name}"
    return run(command("cachebench.profileworker"), plan, ProfileSample, what, listen)


def _lands(arms: Sequence[_Arm]) -> tuple[bool, float]:
    """Whether samples land behind what took the time, on this machine, and how surely."""
    path = Path(str(_core.__file__))
    listing = {each.address: each for each in disassembly.instructions(path)}
    segments = Segments.of(path)
    code = hotplaces.code(tuple(listing.values()), segments)

    def loads(offset: int) -> bool:
        address = segments.address(offset)
        return address in listing and listing[address].memory

    samples = [each for arm in arms for sample in arm.samples for each in sample.chase]
    try:
        at, behind = hotspots.lands(samples, loads, code)
    except ValueError:
        at = behind = 0.0
    if max(at, behind) < SURE:
        raise CachebenchError(
            f"samples cannot be told apart here: of those of a pointer chase, {at:.0%} are at its "
            f"load and {behind:.0%} just behind it",
            exit_code=4,
        )
    return behind > at, max(at, behind)


@dataclass(frozen=True)
class _Tables:
    """The same samples by the kinds of place that layouts are compared by."""

    whole: Times
    stages: Times
    lines: Times
    objects: Times
    members: Times


def _profile(arm: _Arm, before: bool) -> tuple[Profile, _Tables]:
    code = hotplaces.code(arm.listing, arm.lines.segments)
    steps = next((s.steps for s in arm.samples if s.steps is not None), None)
    no_members = next((s.no_steps for s in arm.samples if s.no_steps), "")
    places = Places(arm.layout, arm.lines, arm.listing, arm.arenas, steps)
    seen = Neighbours.of(steps)
    try:
        charged = [hotspots.charge(s, code, seen, before=before) for s in arm.samples]
    except ValueError:
        raise CachebenchError(
            f"layout {arm.layout.name}: a process had no sample; type a larger --samples"
        ) from None
    ns = tuple(hotspots.ns_per_lookup(sample.timed) for sample in arm.samples)
    sampled = tuple(hotspots.ns_per_lookup(sample.sampled) for sample in arm.samples)

    def times(name: Callable[[int], str | None], outside: str | None = OUTSIDE) -> Times:
        return Times(ns, tuple(hotspots.named(each, name, outside) for each in charged))

    tables = _Tables(
        whole=Times(ns, ()),
        stages=times(places.stage),
        lines=times(lambda offset: _name(*places.line(offset))),
        objects=times(places.object, None) if steps is not None else Times((), ()),
        members=times(places.member, None) if steps is not None else Times((), ()),
    )
    found = Profile(
        layout=arm.layout.name,
        way=arm.samples[0].way,
        samples=sum(_count(sample) for sample in arm.samples),
        lost=sum(sample.lost for sample in arm.samples),
        ns_per_lookup=tables.whole.level(),
        sampled_ns_per_lookup=Times(sampled, ()).level(),
        stages=_spots(tables.stages),
        lines=tuple(_line(tables.lines, name, name, places) for name in tables.lines.names()),
        objects=_spots(tables.objects),
        members=_spots(tables.members),
        source=tuple(_source(places, times)),
        no_members=no_members,
    )
    return found, tables


def _count(sample: ProfileSample) -> int:
    return sum(count for _, count in sample.inside) + sum(sample.outside.values())


def _spots(times: Times) -> tuple[Spot, ...]:
    return tuple(
        Spot(name=name, share=times.share(name), ns=times.ns_of(name)) for name in times.names()
    )


def _name(file: str, line: int) -> str:
    return f"{file}:{line}" if line else UNKNOWN


def _line(times: Times, key: str, name: str, places: Places) -> LineSpot:
    """``key`` is the name among the times; ``name`` is ``file:line``."""
    file, _, number = name.rpartition(":")
    line = int(number) if file else 0
    return LineSpot(
        name=name,
        file=file,
        line=line,
        text=places.text(file, line),
        share=times.share(key),
        ns=times.ns_of(key),
    )


def _source(
    places: Places, times: Callable[[Callable[[int], str | None], str | None], Times]
) -> Iterator[SourceLine]:
    """The lines of the layout's header in their order, with what is inlined into each."""

    def of_header(offset: int) -> str | None:
        line = places.source(offset)
        return None if line is None else _name(places.header, line)

    def inlined(offset: int) -> str | None:
        outer, inner = of_header(offset), _name(*places.line(offset))
        return None if outer in (None, inner) else f"{outer} {inner}"

    whole, parts = times(of_header, None), times(inlined, None)
    spots = [_line(whole, name, name, places) for name in whole.names()]
    for spot in sorted(spots, key=lambda each: each.line):
        within = [key for key in parts.names() if key.startswith(f"{spot.name} ")]
        yield SourceLine(
            **msgspec.structs.asdict(spot),
            inlined=tuple(
                _line(parts, key, key.removeprefix(f"{spot.name} "), places) for key in within
            ),
        )


def _added(base: tuple[Profile, _Tables], head: tuple[Profile, _Tables]) -> Added:
    def table(of_head: Times, of_base: Times) -> dict[str, Figure]:
        if not of_head.shares or not of_base.shares:
            return {}  # one of them is not told
        names = dict.fromkeys((*of_head.names(), *of_base.names()))
        gains = {name: of_head.added(of_base, name) for name in names}
        return dict(sorted(gains.items(), key=lambda gain: -(gain[1].value or 0.0)))

    return Added(
        base=base[0].layout,
        head=head[0].layout,
        total=head[1].whole.added_in_all(base[1].whole),
        stages=table(head[1].stages, base[1].stages),
        lines=table(head[1].lines, base[1].lines),
        objects=table(head[1].objects, base[1].objects),
        members=table(head[1].members, base[1].members),
    )
