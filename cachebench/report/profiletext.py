# SPDX-License-Identifier: BSD-3-Clause
"""A profile in the terminal: where the time of a lookup goes, and what a layout adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cachebench.hotplaces import NO_STAGE
from cachebench.model import Figure
from cachebench.profilemodel import Added, LineSpot, Profile, ProfileResult, SourceLine, Spot
from cachebench.report.console import Terminal
from cachebench.report.terminal import point
from cachebench.report.text import printable

LEAST_SHARE = 0.005
"""Places with less are one row, if no layout has more there."""
STAGES = {NO_STAGE: "driver, and what no stage names"}
SHARE_WIDTH = 9
LEAST_WIDTH, LEAST_PLACE = 56, 20


@dataclass(frozen=True)
class Kind:
    """One way to divide a lookup's time."""

    name: str
    spots: Callable[[Profile], Sequence[Spot]]
    gains: Callable[[Added], Mapping[str, Figure]]
    intervals: bool = True
    """Whether there is room for them."""


KINDS = (
    Kind("stage", lambda profile: profile.stages, lambda added: added.stages),
    Kind("object", lambda profile: profile.objects, lambda added: added.objects),
    Kind("member", lambda profile: profile.members, lambda added: added.members),
    Kind("line", lambda profile: profile.lines, lambda added: added.lines, intervals=False),
)


def show(result: ProfileResult, console: Console | None = None) -> None:
    """Tables by stage, object, member and line, then the layouts' own sources."""
    console = console or Terminal()
    console.print(escape(printable(point(result.spec))))
    for kind in KINDS:
        if any(kind.spots(profile) for profile in result.profiles):
            _show_tables(result, kind, console)
    for profile in result.profiles:
        for line in _source(profile):
            console.print(escape(printable(line)), no_wrap=True, overflow="ellipsis")
        console.print()
    for text in _notes(result):
        console.print(escape(printable(text)))


@dataclass(frozen=True)
class _Grid:
    """The text of one table; its first column can be cut, the numbers cannot."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    total: Sequence[str]

    @property
    def numbers(self) -> tuple[int, ...]:
        """Widths of all columns but the first."""
        columns = list(zip(self.header, *self.rows, self.total, strict=True))
        return tuple(max(map(len, column)) for column in columns[1:])

    @property
    def numbers_width(self) -> int:
        """With what is between columns."""
        return sum(self.numbers) + 2 * len(self.header)


def _show_tables(result: ProfileResult, kind: Kind, console: Console) -> None:
    """As many layouts beside the first one as there is room for, then the next ones."""
    base, *heads = result.profiles
    width = console.width
    rest = list(zip(heads, result.added, strict=True))
    while True:
        count = 1
        grid = _grid(base, rest[:count], kind)
        while count < len(rest):
            wider = _grid(base, rest[: count + 1], kind)
            if wider.numbers_width + LEAST_PLACE > width:
                break
            count, grid = count + 1, wider
        console.width = max(width, LEAST_WIDTH, grid.numbers_width + LEAST_PLACE)
        console.print(_table(grid, console.width), "")
        console.width = width
        rest = rest[count:]
        if not rest:
            return


def _grid(base: Profile, heads: Sequence[tuple[Profile, Added]], kind: Kind) -> _Grid:
    """Places are rows; each layout has its share and time, each but the first what it adds."""
    profiles = [base, *(profile for profile, _ in heads)]
    by_name = [{spot.name: spot for spot in kind.spots(profile)} for profile in profiles]
    gains = [kind.gains(added) for _, added in heads]
    shown, rest = _sorted(by_name, gains)
    rows = []
    for name in shown:
        cells = [cell for places in by_name for cell in _pair(places.get(name))]
        more = [_signed(gain.get(name), kind.intervals) for gain in gains]
        first = next(places[name] for places in by_name if name in places)
        rows.append([_title(first), *cells, *more])
    if rest:
        sums = [[places[name] for name in rest if name in places] for places in by_name]
        cells = [cell for found in sums for cell in _sum(found)]
        more = [_signed_sum([gain[name] for name in rest if name in gain]) for gain in gains]
        rows.append([f"{len(rest)} more", *cells, *more])
    header = [f"by {kind.name}"]
    total = ["a lookup"]
    for profile in profiles:
        header += [profile.layout, "ns"]
        total += ["", _number(profile.ns_per_lookup.value)]
    header += [f"{added.head} adds" for _, added in heads]
    total += [_signed(added.total, kind.intervals) for _, added in heads]
    return _Grid([printable(title) for title in header], rows, total)


def _table(grid: _Grid, width: int) -> Table:
    """The numbers whole; the first column has what is left, and is cut there."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    left = width - grid.numbers_width
    table.add_column(escape(grid.header[0]), no_wrap=True, overflow="ellipsis", max_width=left)
    for title, needed in zip(grid.header[1:], grid.numbers, strict=True):
        table.add_column(escape(title), justify="right", no_wrap=True, min_width=needed)
    for row in grid.rows:
        table.add_row(*(escape(printable(cell)) for cell in row))
    table.add_section()
    table.add_row(*grid.total)
    return table


def _sorted(
    by_name: Sequence[Mapping[str, Spot]], gains: Sequence[Mapping[str, Figure]]
) -> tuple[list[str], list[str]]:
    """The places to show, what a layout adds most first, and those with little time."""
    names = dict.fromkeys(name for places in by_name for name in places)

    def share(name: str) -> float:
        return max(_value(places[name].share) for places in by_name if name in places)

    def weight(name: str) -> float:
        if gains:
            return max(_value(gain.get(name)) for gain in gains)
        return share(name)

    ordered = sorted(names, key=weight, reverse=True)
    return (
        [name for name in ordered if share(name) >= LEAST_SHARE],
        [name for name in ordered if share(name) < LEAST_SHARE],
    )


def _title(spot: Spot) -> str:
    if isinstance(spot, LineSpot):
        return f"{spot.name}  {spot.text}" if spot.text else spot.name
    return STAGES.get(spot.name, spot.name)


def _pair(spot: Spot | None) -> tuple[str, str]:
    if spot is None:
        return "", ""
    return f"{_value(spot.share):.1%}", _number(spot.ns.value)


def _sum(spots: Sequence[Spot]) -> tuple[str, str]:
    if not spots:
        return "", ""
    share = sum(_value(spot.share) for spot in spots)
    return f"{share:.1%}", _number(sum(_value(spot.ns) for spot in spots))


def _signed(figure: Figure | None, interval: bool) -> str:
    if figure is None or figure.value is None:
        return ""
    if not interval or figure.low is None or figure.high is None:
        return f"{figure.value:+.1f}"
    return f"{figure.value:+.1f} ({figure.low:+.1f} … {figure.high:+.1f})"


def _signed_sum(figures: Sequence[Figure]) -> str:
    return f"{sum(map(_value, figures)):+.1f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _value(figure: Figure | None) -> float:
    return 0.0 if figure is None or figure.value is None else figure.value


def _source(profile: Profile) -> Iterable[str]:
    """The sampled lines of the layout's header, each with the lines inlined into it."""
    if not profile.source:
        return
    yield f"{profile.source[0].file}, lines with their share of a lookup's time and ns:"
    before: int | None = None
    for line in profile.source:
        if before is not None and line.line > before + 1:
            yield f"{'':{2 * SHARE_WIDTH}}    …"
        before = line.line
        yield f"{_gutter(line)} {line.line:4}  {line.text}"
        yield from _inlined(line)


def _inlined(line: SourceLine) -> Iterable[str]:
    for part in line.inlined:
        if _value(part.share) >= LEAST_SHARE:
            yield f"{_gutter(part)}         {part.name}  {part.text}"


def _gutter(spot: Spot) -> str:
    return f"{_value(spot.share):{SHARE_WIDTH}.1%}{_value(spot.ns):{SHARE_WIDTH}.1f}"


def _notes(result: ProfileResult) -> Iterable[str]:
    period = result.period_ns / 1000
    for profile in result.profiles:
        sampled, plain = profile.sampled_ns_per_lookup.value, profile.ns_per_lookup.value
        assert sampled is not None and plain is not None
        lost = f", {profile.lost:,} lost" if profile.lost else ""
        way = "perf record" if profile.way == "record" else "the perf module of Python"
        yield (
            f"{profile.layout}: {profile.samples:,} samples{lost}, one each {period:.0f} µs of CPU "
            f"time, by {way}; "
            f"sampled lookups took {sampled / plain - 1:+.1%} of time (measured)"
        )
        if profile.no_members:
            yield f"{profile.layout}: members are not told: {profile.no_members}"
    where = "behind the load" if result.charged == "before" else "at the load"
    yield (
        f"of samples of a pointer chase, {result.chase_share:.0%} are {where} that it waits for "
        f"(measured); each sample is charged to the instruction "
        f"{'executed before its address' if result.charged == 'before' else 'at its address'}"
    )
    yield (
        "shares are measured, in user mode; ns are estimated: the share times the measured ns of "
        "a lookup"
    )
    if result.added:
        yield "(low … high): 95 % interval over processes"
    yield "in bulk, what is done for one lookup hides the waiting of others"
    yield "levels hold on this machine only"
