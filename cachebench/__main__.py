"""``python -m cachebench``."""

from cachebench.entry import entry

entry()
