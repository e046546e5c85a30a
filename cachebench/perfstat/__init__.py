# SPDX-License-Identifier: BSD-3-Clause
"""Counting with ``perf stat``: choosing events, running a worker under perf, reading reports.

``parse`` reads any output of perf; ``events`` says what to count on which CPU;
``command`` runs a worker; ``figures`` turns a report into values by role.
"""
