# SPDX-License-Identifier: BSD-3-Clause
"""A stand-in for perf, for tests where counters would be needed.

It answers ``--version`` and ``stat -h``, runs the worker of ``stat ... -- WORKER``,
acknowledges its control messages, and then writes the file that PERF_REPLAY names
to the ``-o`` file. PERF_MODE makes it one of the absent or old perfs.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

MODE = os.environ.get("PERF_MODE", "")
HELP = "--delay <n> --output <file> "


def main(argv):
    if MODE == "wrapper":
        print("WARNING: perf not found for kernel 6.8.0-40\n\n  You may need", file=sys.stderr)
        return 2
    if argv == ["--version"]:
        print("Python 3.11" if MODE == "other" else "perf version 6.12.8")
        return 0
    if argv == ["stat", "-h"]:
        if MODE == "old":
            print(HELP)
        else:
            print(HELP + "--control <fd:ctl-fd> " + ("" if MODE == "no-json" else "--json-output"))
        return 129
    split = argv.index("--")
    options, worker = argv[:split], argv[split + 1 :]
    fds = ()
    if "--control" in options:
        control, ack = (int(n) for n in options[options.index("--control") + 1][3:].split(","))
        fds = tuple(range(3, 64))
        threading.Thread(target=acknowledge, args=(control, ack), daemon=True).start()
    print("Events disabled", file=sys.stderr)
    status = subprocess.run(worker, pass_fds=[fd for fd in fds if is_open(fd)]).returncode
    report = Path(os.environ["PERF_REPLAY"]).read_text()
    Path(options[options.index("-o") + 1]).write_text(report)
    return status


def acknowledge(control, ack):
    log = os.environ.get("PERF_LOG")
    while command := os.read(control, 64):
        if log:
            with Path(log).open("a") as file:
                file.write(command.decode())
        os.write(ack, b"ack\n\0")


def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


sys.exit(main(sys.argv[1:]))
