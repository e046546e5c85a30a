/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_PLUGIN_H
#define CB_PLUGIN_H

#include <stddef.h>

#include "cb.h"

/* Loads a kernel that was built as a shared object and checks its ABI. It stays
 * loaded until the process ends. NULL with a line in `why` on failure. */
const struct cb_ops *cb_plugin_open(const char *path, char *why, size_t why_size);

/* The built-in kernel of that name (16-byte key), or NULL. */
const struct cb_ops *cb_builtin(const char *layout);

/* Built-in layouts by number; NULL after the last one. */
const struct cb_ops *cb_builtin_at(unsigned number);

/* What compiled the built-in kernels, and with which flags. */
const char *cb_compiler(void);

#endif
