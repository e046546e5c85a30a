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

/* What is wrong with the arenas of a layout, or NULL. */
static const char *arena_fault(const struct cb_ops *ops)
{
	if (ops->layout_arena_count > CB_MAX_ARENAS)
		return "too many arenas";
	for (uint32_t i = 0; i < ops->layout_arena_count; i++) {
		const struct cb_arena_spec *spec = &ops->layout_arenas[i];

		if (spec->name == NULL || spec->type == NULL)
			return "an arena without a name or a type";
		for (const char *c = spec->name; *c != '\0'; c++)
			if (*c < ' ' || *c > '~')
				return "an arena whose name is not printable";
		if (spec->stride == 0)
			return "an arena of elements without a size";
		if (spec->kind != CB_POOL && spec->kind != CB_COLUMN && spec->kind != CB_PROFILES &&
		    spec->kind != CB_RULES)
			return "an arena of a kind that is not a layout's";
	}
	return NULL;
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
	} else if (ops->abi != CB_ABI || ops->size != CB_ABI_SIZE) {
		snprintf(why, why_size, "%s has ABI %u.%u; this cachebench has %u.%u", path,
			 ops->abi, ops->size, (unsigned)CB_ABI, (unsigned)CB_ABI_SIZE);
		ops = NULL;
	} else if (arena_fault(ops) != NULL) {
		snprintf(why, why_size, "layout %s has %s: see layouts/README.md", ops->layout,
			 arena_fault(ops));
		ops = NULL;
	}
	if (ops == NULL)
		dlclose(handle);
	return ops;
}
