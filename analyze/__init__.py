"""Numbers in; statistics, pictures and documents out. Starts no process."""
