# SPDX-License-Identifier: BSD-3-Clause
"""Running a worker under ``perf stat`` so that only its measured region is counted.

The command line is::

    perf stat -D -1 --control fd:R,A -o FILE -j -e EVENT -e EVENT -- env ... WORKER

and each part answers something seen with perf 5.10 to 7.2:

* ``-D -1`` starts with the events off; without it they count from exec on, and
  the control messages come too late.
* The control pipe has an acknowledgement, without which nothing orders "enabled"
  before the first lookup. The worker writes ``enable\\n``, reads the 5 bytes
  ``ack\\n\\0``, works, writes ``disable\\n``, reads 5 bytes again: one message at a
  time, since acknowledgements can arrive together.
* The report goes to a file of its own: stderr holds "Events enabled", messages of
  the worker and of signals. Its header lines (``# started on``) are skipped.
* ``LC_ALL=C`` for perf, since a decimal comma breaks every form of output; ``env``
  gives the worker its own locale back.
* Without ``-j`` (perf 5) the separator is ``;``, since event names hold commas.
* No braces around events (save for topdown): one unsupported event would fail the
  whole group, and a software leader makes the rest read ``<not counted>``. What a
  group would guarantee, counting over the same time, follows from the rule that
  only rows are used which ran all of the time.

perf's exit status says little: it is 0 for a worker ended by a signal, up to
6.12. A worker must prove itself that it finished. Ended by SIGTERM, perf leaves
the file empty and the worker running: end the process group.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from cachebench.perfstat.binary import NoPerf, Perf, find_perf, paranoid_level
from cachebench.perfstat.events import Group
from cachebench.perfstat.parse import parse
from cachebench.perfstat.probe import probe
from cachebench.perfstat.report import Report

__all__ = ["NoPerf", "Perf", "Session", "event_options", "find_perf", "paranoid_level", "probe"]

_LOCALE = "LC_ALL"


def event_options(events: Group | Sequence[str]) -> list[str]:
    """``-e`` options: one an event, or one in braces for a braced group."""
    if isinstance(events, Group):
        names = [event.perf_name for event in events.events]
        if events.braced:
            return ["-e", "{" + ",".join(names) + "}"]
        events = names
    return [word for name in events for word in ("-e", name)]


class Session:
    """The pipes and the report of one worker under perf. It starts no process.

    ::

        with Session(perf, group, workdir) as session:
            process = Popen(session.argv(worker), pass_fds=session.pass_fds,
                            env=session.environment(), start_new_session=True)
            session.started()
            process.wait()
            report = session.report()

    The worker is told the two numbers of :meth:`control_for_worker`. It should
    close the two of :attr:`perf_fds`, which it inherits as well: it would
    otherwise hold the writing end of the pipe that it reads acknowledgements
    from, and wait for ever if perf died.
    """

    def __init__(self, perf: Perf, events: Group | Sequence[str], workdir: Path) -> None:
        """Opens the pipes and an empty file in ``workdir``. Raises OSError where it cannot."""
        self._perf = perf
        self._options = event_options(events)
        handle, name = tempfile.mkstemp(prefix="perf-stat-", suffix=".out", dir=workdir)
        os.close(handle)
        self.file = Path(name).absolute()
        self._text: str | None = None
        self._control_read, self._control_write = os.pipe()
        self._ack_read, self._ack_write = os.pipe()
        self._open = True

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pass_fds(self) -> tuple[int, ...]:
        """For ``Popen``: the numbers are the same in perf and in the worker."""
        return (self._control_read, self._control_write, self._ack_read, self._ack_write)

    @property
    def perf_fds(self) -> tuple[int, int]:
        """perf's ends (control to read, acknowledgement to write): the worker closes them."""
        return (self._control_read, self._ack_write)

    def control_for_worker(self) -> tuple[int, int]:
        """The worker's ends: where it writes commands, where it reads acknowledgements."""
        return (self._control_write, self._ack_read)

    def argv(self, worker: Sequence[str], base: Mapping[str, str] | None = None) -> list[str]:
        """The whole command. ``base`` is the environment the worker is meant to see."""
        form = ["-j"] if self._perf.json else ["-x", ";"]
        return [
            self._perf.path,
            "stat",
            "-D",
            "-1",
            "--control",
            f"fd:{self._control_read},{self._ack_write}",
            "-o",
            str(self.file),
            *form,
            *self._options,
            "--",
            *_with_locale(os.environ if base is None else base),
            *worker,
        ]

    def environment(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment for perf: ``base`` (default: this process's) in the C locale."""
        return {**(os.environ if base is None else base), _LOCALE: "C"}

    def started(self) -> None:
        """Call after Popen: closes the pipes here, so that their other ends notice an end."""
        if self._open:
            self._open = False
            for descriptor in self.pass_fds:
                os.close(descriptor)

    def report(self) -> Report:
        """What perf wrote so far. Call it after perf has ended; works after :meth:`close`."""
        return parse(self.text())

    def text(self) -> str:
        """perf's output as it is, for messages about it; empty where there is none."""
        if self._text is not None:
            return self._text
        try:
            return self.file.read_bytes().decode("utf-8", "replace")
        except OSError:
            return ""

    def close(self) -> None:
        """Closes the pipes and removes the file, whose text is kept. May be called twice."""
        self.started()
        if self._text is None:
            self._text = self.text()
            self.file.unlink(missing_ok=True)


def _with_locale(base: Mapping[str, str]) -> list[str]:
    """The words before the worker that undo LC_ALL=C for it."""
    own = base.get(_LOCALE)
    if own == "C":
        return []
    return ["env", "-u", _LOCALE] if own is None else ["env", f"{_LOCALE}={own}"]
