# SPDX-License-Identifier: BSD-3-Clause
"""Numbers in; statistics, pictures and documents out. Starts no process."""
