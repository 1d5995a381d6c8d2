# pmix_shim: the providers of core/bootstrap/wireup.h. Code that needs PMIx is in a module.
core_libcore_la_SOURCES += \
	pmix_shim/nested.c pmix_shim/nested.h pmix_shim/provider.c pmix_shim/provider.h pmix_shim/singleton.c pmix_shim/store.c pmix_shim/store.h \
	pmix_shim/pmi.c pmix_shim/pmi_client.c pmix_shim/pmi_client.h pmix_shim/pmi_text.c pmix_shim/pmi_text.h \
	pmix_shim/env.c pmix_shim/reunion.c pmix_shim/epochs.c pmix_shim/fence_wireup.c pmix_shim/fence_wireup.h pmix_shim/env_fence.h pmix_shim/env_fence_server.c pmix_shim/env_fence_server.h pmix_shim/env_fence_accept.c pmix_shim/env_fence_client.c pmix_shim/node_ranks.c pmix_shim/node_ranks.h pmix_shim/env_fence_message.c \
	pmix_shim/secure_channel.c pmix_shim/secure_channel.h pmix_shim/timed_call.c pmix_shim/timed_call.h

if HAVE_PMIX
hvdmodule_LTLIBRARIES += pmix_shim/wireup_pmix.la
pmix_shim_wireup_pmix_la_SOURCES = pmix_shim/pmix.c pmix_shim/timed_call.c pmix_shim/timed_call.h
pmix_shim_wireup_pmix_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
pmix_shim_wireup_pmix_la_LIBADD = core/libbase.la $(PMIX_LIBS)
pmix_shim_wireup_pmix_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -export-symbols-regex '^wireup_pmix_ops$$'
endif
