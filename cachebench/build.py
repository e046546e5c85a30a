# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that are not built in: compiled on demand, cached by content, loaded.

The process that plans a run calls :func:`artifact`, which compiles what is not
in the cache; a worker calls :func:`load` with the path and compiles nothing.

The cache is the folder ``plugins`` in ``$CACHEBENCH_CACHE``, or else in the
user's cache folder (``~/.cache/cachebench``). Nothing in it is worth keeping: it
can be removed at any time. A plug-in's file name holds a digest of all that it
was made from and one of its content, so a damaged file is known before it is
loaded, and processes that build the same plug-in at once do not disturb each
other.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cachebench._core import ffi, lib
from cachebench.catalogue import Layout, csrc_folder, layouts_folder
from cachebench.errors import CachebenchError
from cachebench.python import command

ABI = int(lib.CB_ABI)

KEY_SIZES = (16, 40)
STAGES = ("hash", "bucket", "key", "session")

# What CMakeLists.txt gives to the built-in kernels: change both, so that all
# arms of a comparison agree.
_BASELINE = {
    "x86_64": "x86-64-v2",
    "AMD64": "x86-64-v2",
    "aarch64": "armv8-a+crc",
    "arm64": "armv8-a+crc",
}
_CODE = ("-O2", "-g", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-std=gnu11")
# The instrumentation without its runtime: the object is linked without the flag.
_TRACE = ("-DCB_TRACE", "-fsanitize=thread", "--param", "tsan-instrument-func-entry-exit=0")
# An undeclared function is an error in C11, but old compilers only warn.
_WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Werror=implicit-function-declaration",
)
_LINK = ("-shared", "-Wl,-z,defs", "-Wl,--build-id")

# What a header must or may define, in the order in which to ask for it.
_CONTRACT = (
    "layout_slot",
    "layout_arenas",
    "LAYOUT_PREFETCH_STEPS",
    "LAYOUT_COPIES_QOS",
    "layout_prefetch1",
    "layout_prefetch2",
    "layout_process",
    "layout_create",
    "layout_destroy",
    "layout_expired",
    "layout_read",
    "layout_reprofile",
    "layout_publish",
)

_ERROR = re.compile(r"^(.+?):(\d+):(\d+): (?:fatal )?error: (.*)$", re.MULTILINE)
_UNDEFINED = re.compile(r"^(.*undefined (?:reference|symbol).*)$", re.MULTILINE)
_ANY_ERROR = re.compile(r"^(.*\berror\b.*)$", re.MULTILINE | re.IGNORECASE)
_ABSENT = re.compile(r"implicit declaration|undeclared|unknown type name")
_QUOTED = re.compile(r"'(\w+)'")


@dataclass(frozen=True)
class Recipe:
    """All that decides a kernel.

    ``stage`` is the last stage that lookups execute. ``march`` replaces the
    baseline CPU; ``cflags`` come last, so they win over the flags before them.
    ``plugin`` asks for a plug-in where a built-in kernel would do: if one arm of
    a comparison is a plug-in, all are. ``trace`` is a build that reports every
    access to memory (csrc/hooks.h); it is always a plug-in.
    """

    layout: Layout
    key_size: int = 16
    stage: str = "session"
    march: str | None = None
    cflags: tuple[str, ...] = ()
    plugin: bool = False
    trace: bool = False

    def __post_init__(self) -> None:
        if self.key_size not in KEY_SIZES:
            raise CachebenchError(f"a key has 16 or 40 bytes, not {self.key_size}")
        if self.stage not in STAGES:
            raise CachebenchError(f"no stage {self.stage!r}: there are {', '.join(STAGES)}")


@dataclass(frozen=True)
class BuildEvent:
    """What :func:`build` is doing: ``cached`` ends it, ``compiling`` begins a
    compilation and ``compiled`` ends it, with the compiler's warnings if any."""

    kind: Literal["cached", "compiling", "compiled"]
    recipe: Recipe
    seconds: float = 0.0
    warnings: str = ""


OnEvent = Callable[[BuildEvent], None]


@dataclass(frozen=True)
class Toolchain:
    """The compiler of plug-ins: the command of $CC, or cc, and its version line."""

    command: tuple[str, ...]
    version: str

    @staticmethod
    def find() -> Toolchain:
        """The compiler that the environment names now. Raises if it does not run."""
        return _toolchain(os.environ.get("CC", "").strip() or "cc")

    def flags(self, recipe: Recipe) -> tuple[str, ...]:
        """Flags that decide the machine code, as they are given."""
        march = recipe.march or _baseline()
        trace = _TRACE if recipe.trace else ()
        return (*_CODE, f"-march={march}", *trace, *recipe.cflags)

    def resolved_flags(self, recipe: Recipe) -> tuple[str, ...]:
        """The same flags, with what ``native`` stands for on this machine."""
        flags = self.flags(recipe)
        if not any(flag.endswith("=native") for flag in flags):
            return flags
        shown = _run([*self.command, *flags, "-###", "-E", "-x", "c", os.devnull])
        found = [line for line in shown.text.splitlines() if re.search(r"cc1\W", line)]
        if shown.status != 0 or not found:
            raise _failure(recipe, shown)
        return (
            *(flag for flag in flags if not flag.endswith("=native")),
            *_target_options(shlex.split(found[0])),
        )


def route(recipe: Recipe) -> Literal["builtin", "plugin"]:
    """How the kernel comes: from the extension module, or compiled on demand."""
    built_in = recipe.layout.builtin and recipe == Recipe(recipe.layout)
    return "builtin" if built_in else "plugin"


def artifact(recipe: Recipe, on_event: OnEvent | None = None) -> Path | None:
    """What a worker passes to :func:`load`: a path, or None for a built-in kernel."""
    return None if route(recipe) == "builtin" else build(recipe, on_event)


def load(path: Path | str | None, layout_name: str, key_size: int) -> Any:
    """The ``const struct cb_ops *`` of an artifact. Compiles nothing."""
    if path is None:
        ops = lib.cb_builtin(layout_name.encode())
        if ops == ffi.NULL:
            raise CachebenchError(f"no layout {layout_name!r} in this cachebench")
    else:
        ops = _open(Path(path))
    found = (ffi.string(ops.layout).decode(errors="replace"), int(ops.key_size))
    if found != (layout_name, key_size):
        raise CachebenchError(
            f"{path or 'the built-in kernel'} holds the layout {found[0]!r} with {found[1]}-byte "
            f"keys, not {layout_name!r} with {key_size}-byte keys"
        )
    return ops


def open_kernel(recipe: Recipe, on_event: OnEvent | None = None) -> Any:
    """The ``const struct cb_ops *`` of a recipe, compiled first if need be."""
    return load(artifact(recipe, on_event), recipe.layout.name, recipe.key_size)


def build(recipe: Recipe, on_event: OnEvent | None = None) -> Path:
    """The shared object of a recipe: from the cache, or compiled now.

    The compiler preprocesses the source in any case. What is returned was
    loaded once, here, and had the right ABI.
    """
    tell = on_event or (lambda event: None)
    started = time.monotonic()
    toolchain = Toolchain.find()
    folder = _cache_folder()
    stem = f"{recipe.layout.name}-{cache_key(recipe, toolchain)}"
    for cached in sorted(folder.glob(f"{stem}-*.so")):
        if _is_sound(cached):
            tell(BuildEvent("cached", recipe, time.monotonic() - started))
            return cached
        with suppress(OSError):
            cached.unlink()

    tell(BuildEvent("compiling", recipe))
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as scratch:
            part, made = Path(scratch) / "kernel.o", Path(scratch) / "plugin.so"
            output = _run([*_command(recipe, toolchain), "-c", "-o", str(part)])
            if output.status == 0:
                link = _run(
                    [*toolchain.command, *recipe.cflags, *_LINK, "-o", str(made), str(part)]
                )
                output = _Output(link.status, link.stdout, output.stderr + link.stderr)
            if output.status != 0 or not made.is_file():
                raise _failure(recipe, output)
            _try_to_load(made, recipe)
            path = folder / f"{stem}-{_content(made)}.so"
            made.replace(path)
    except OSError as error:
        raise _unusable(folder, error) from None
    _open(path)
    warnings = _as_typed(output.text, recipe).strip()
    tell(BuildEvent("compiled", recipe, time.monotonic() - started, warnings))
    return path


def cache_key(recipe: Recipe, toolchain: Toolchain) -> str:
    """Digest of the preprocessed source, the compiler, its flags and the ABI.

    Paths and line numbers take part, since they are in the debug information: a
    comment that is changed in its place costs nothing, one that moves the lines
    below it makes a new plug-in.
    """
    output = _run([*_command(recipe, toolchain), "-E"], keep_stdout=True)
    if output.status != 0:
        raise _failure(recipe, output)
    digest = hashlib.sha256()
    for fact in (
        str(ABI),
        toolchain.version,
        *toolchain.command[1:],
        *toolchain.resolved_flags(recipe),
        *_LINK,
    ):
        digest.update(fact.encode(errors="surrogateescape") + b"\0")
    for line in output.stdout.splitlines():
        # Left out: the working directory, and the width of comments before code.
        if not re.match(rb'# \d+ ".*//"$', line):
            digest.update(line.strip() + b"\n")
    return digest.hexdigest()[:32]


# ---- Compiler


@dataclass(frozen=True)
class _Output:
    status: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        return os.fsdecode(self.stderr)


def _run(command: Sequence[str], keep_stdout: bool = False) -> _Output:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if keep_stdout else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C", "LANGUAGE": ""},
            start_new_session=True,
        )
    except OSError as error:
        raise CachebenchError(
            f"no C compiler: {command[0]!r} does not run ({error.strerror}); install gcc (Debian "
            "and Ubuntu: apt install gcc libc6-dev; Fedora: dnf install gcc), or set CC"
        ) from None
    try:
        stdout, stderr = process.communicate()
    finally:
        # An interrupt must not leave the processes that a compiler starts.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return _Output(process.returncode, stdout or b"", stderr)


def _try_to_load(path: Path, recipe: Recipe) -> None:
    """Loads a new plug-in in a process of its own: loading runs what it likes."""
    tried = _run([*command("cachebench.tryplugin"), str(path)], keep_stdout=True)
    if not tried.stdout.endswith(b"loaded\n"):
        said = tried.text.strip().splitlines() or ["it ends the process that loads it"]
        raise CachebenchError(f"{recipe.layout.header} does not load: {said[-1]}")


@functools.cache
def _toolchain(text: str) -> Toolchain:
    try:
        command = tuple(shlex.split(text))
    except ValueError as error:
        raise CachebenchError(f"CC is {text!r}: {error}") from None
    output = _run([*command, "--version"], keep_stdout=True)
    lines = os.fsdecode(output.stdout).splitlines()
    if output.status != 0 or not lines:
        raise CachebenchError(
            f"no C compiler: {text!r} --version fails; set CC to a C compiler, gcc or clang"
        )
    return Toolchain(command, lines[0])


def _baseline() -> str:
    machine = platform.machine()
    if machine not in _BASELINE:
        raise CachebenchError(f"cachebench runs on x86-64 and aarch64, not on {machine}")
    return _BASELINE[machine]


def _target_options(command: list[str]) -> list[str]:
    """Of a compiler's inner command, what selects the CPU and its features."""
    options = []
    for option, after in zip(command, [*command[1:], ""], strict=True):
        if option in ("--param", "-target-cpu", "-target-feature", "-tune-cpu"):
            options += [option, after]
        elif option.startswith("-m") and "-cc1" not in command:
            options.append(option)
    return options


def _header(recipe: Recipe) -> str:
    """The header's absolute path: what the compiler is given, and will name."""
    return str(recipe.layout.header.absolute())


def _as_typed(text: str, recipe: Recipe) -> str:
    """The compiler's text, with the header and its neighbours named as the user did."""
    typed = recipe.layout.header
    return text.replace(
        _header(recipe).removesuffix(typed.name), str(typed).removesuffix(typed.name)
    )


def _command(recipe: Recipe, toolchain: Toolchain) -> list[str]:
    header = _header(recipe)
    if '"' in header or "\n" in header or header.endswith("\\"):
        raise CachebenchError(f"{header!r}: the compiler cannot be given this path: rename it")
    csrc = csrc_folder()
    return [
        *toolchain.command,
        *_WARNINGS,
        *toolchain.flags(recipe),
        "-DCB_PLUGIN",
        f"-DCB_LAYOUT={recipe.layout.name}",
        f'-DCB_LAYOUT_NAME="{recipe.layout.name}"',
        f'-DCB_LAYOUT_HEADER="{header}"',
        f"-DCB_KEY={recipe.key_size}",
        f"-DCB_STAGE={recipe.stage.upper()}",
        f"-I{csrc}",
        f"-I{layouts_folder()}",
        str(csrc / "kernel.c"),
    ]


def _failure(recipe: Recipe, output: _Output) -> CachebenchError:
    """One line for what the compiler said; all of it goes to a log in the cache."""
    folder = _cache_folder()
    name = hashlib.sha256(
        repr((recipe, _header(recipe))).encode(errors="surrogateescape")
    ).hexdigest()[:12]
    log = folder / f"{recipe.layout.name}-{name}.log"
    try:
        log.write_bytes(output.stderr)
    except OSError as error:
        raise _unusable(folder, error) from None
    return CachebenchError(f"{_diagnosis(output, recipe)} (all of the compiler's output: {log})")


def _diagnosis(output: _Output, recipe: Recipe) -> str:
    typed = str(recipe.layout.header)
    if output.status < 0:
        return f"{typed}: the compiler was ended by {signal.Signals(-output.status).name}"
    text = _as_typed(output.text, recipe)
    errors: list[tuple[str, str, str, str]] = _ERROR.findall(text)
    if errors:
        file, line, column, message = errors[0]
        place = f"{file}:{line}:{column}: error: {message}"
        if Path(file).parent != csrc_folder():
            # The first error alone: those below it may follow from it.
            missing = _missing(errors[:1])
            about = place if file == typed else f"{typed}: {place}"
        else:
            missing = _missing(errors)
            about = typed if missing else f"{typed}: {place}"
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            contract = layouts_folder() / "README.md"
            about += f": {', '.join(missing)} {verb} missing: see {contract}"
        return about
    for pattern in (_UNDEFINED, _ANY_ERROR):
        if match := pattern.search(text):
            return f"{typed} does not compile: {match[1].strip()}"
    return f"{typed} does not compile: the compiler ended with status {output.status}"


def _missing(errors: list[tuple[str, str, str, str]]) -> list[str]:
    """Names of the contract that the compiler did not find."""
    absent: set[str] = set()
    for *_, message in errors:
        # The first name is what is absent; one more is the compiler's guess.
        if _ABSENT.search(message) and (name := _QUOTED.search(message)):
            absent.add(name[1])
    missing = [name for name in _CONTRACT if name in absent]
    # Without the macro, the driver asks for the function of its other value.
    if "LAYOUT_COPIES_QOS" in missing and "layout_publish" in missing:
        missing.remove("layout_publish")
    return missing


# ---- Cache


def _cache_folder() -> Path:
    named = os.environ.get("CACHEBENCH_CACHE")
    if named:
        root = Path(named)
    else:
        import platformdirs

        root = Path(platformdirs.user_cache_dir("cachebench"))
    folder = root.absolute() / "plugins"
    try:
        # Private: what is in it will be executed.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, error) from None
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise _unusable(folder, PermissionError(0, "Permission denied"))
    return folder


def _unusable(folder: Path, error: OSError) -> CachebenchError:
    return CachebenchError(
        f"cannot use the plug-in cache {folder}: {error.strerror}; "
        "set CACHEBENCH_CACHE to a folder that you can write"
    )


def _content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _is_sound(path: Path) -> bool:
    """Whether a cached plug-in is what was written, and can be loaded.

    The content comes first: the dynamic loader may crash on half a file.
    """
    try:
        if _content(path) != path.stem.rpartition("-")[2]:
            return False
        _open(path)
    except (OSError, CachebenchError):
        return False
    return True


def _open(path: Path) -> Any:
    why = ffi.new("char[]", 512)
    ops = lib.cb_plugin_open(os.fsencode(path), why, len(why))
    if ops == ffi.NULL:
        raise CachebenchError(os.fsdecode(ffi.string(why)))
    return ops
