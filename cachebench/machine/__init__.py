# SPDX-License-Identifier: BSD-3-Clause
"""What the machine is, and what that means for the figures."""
