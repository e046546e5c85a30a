"""``python -m cachebench``."""

from cachebench.cli import entry

entry()
