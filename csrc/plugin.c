/* SPDX-License-Identifier: BSD-3-Clause */

#include "plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define LAYOUT(name) extern const struct cb_ops cb_ops_##name;
#include "builtin.def"
#undef LAYOUT

static const struct cb_ops *const builtins[] = {
#define LAYOUT(name) &cb_ops_##name,
#include "builtin.def"
#undef LAYOUT
};

const struct cb_ops *cb_builtin_at(unsigned number)
{
	return number < sizeof builtins / sizeof *builtins ? builtins[number] : NULL;
}

const struct cb_ops *cb_builtin(const char *layout)
{
	const struct cb_ops *ops;

	for (unsigned i = 0; (ops = cb_builtin_at(i)) != NULL; i++)
		if (strcmp(ops->layout, layout) == 0)
			return ops;
	return NULL;
}

const char *cb_compiler(void)
{
#if defined(__clang__)
	return "clang " __clang_version__ ", " CB_BUILD_FLAGS;
#else
	return "gcc " __VERSION__ ", " CB_BUILD_FLAGS;
#endif
}

const struct cb_ops *cb_plugin_open(const char *path, char *why, size_t why_size)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const struct cb_ops *ops;

	if (handle == NULL) {
		snprintf(why, why_size, "cannot load plug-in: %s", dlerror());
		return NULL;
	}
	ops = dlsym(handle, CB_PLUGIN_SYMBOL);
	if (ops == NULL) {
		snprintf(why, why_size, "%s exports no %s", path, CB_PLUGIN_SYMBOL);
	} else if (ops->abi != CB_ABI || ops->size != sizeof *ops) {
		snprintf(why, why_size, "%s has ABI %u of %u bytes; this cachebench has %u of %zu",
			 path, ops->abi, ops->size, CB_ABI, sizeof *ops);
		ops = NULL;
	}
	if (ops == NULL)
		dlclose(handle);
	return ops;
}
