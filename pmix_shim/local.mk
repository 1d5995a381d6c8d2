# pmix_shim: the providers of core/control/wireup.h. What needs PMIx is a module.
core_libcore_la_SOURCES += \
	pmix_shim/provide.c pmix_shim/provide.h pmix_shim/solo.c pmix_shim/store.c pmix_shim/store.h \
	pmix_shim/env.c pmix_shim/env_fence.h pmix_shim/env_hub.c pmix_shim/env_spoke.c pmix_shim/env_message.c \
	pmix_shim/env_channel.c pmix_shim/env_channel.h
