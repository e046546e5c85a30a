"""Statistics, figures and documents from numbers; starts no process."""
