# tools: the programs

# what of hvdrun does not need PMIx, for its unit tests too
noinst_LTLIBRARIES += tools/libhvdrun.la
tools_libhvdrun_la_SOURCES = \
	tools/hvdrun_options.c tools/hvdrun_options.h \
	tools/command.c tools/command.h \
	tools/rank_environment.c tools/rank_environment.h \
	tools/scratch.c tools/scratch.h \
	tools/tree.c tools/tree.h \
	tools/keeper.c tools/keeper.h \
	tools/keeper_process.c tools/keeper_process.h \
	tools/lines.c tools/lines.h \
	tools/output.c tools/output.h \
	tools/input.c tools/input.h \
	tools/verdict.c tools/verdict.h \
	pmix_shim/channel.c pmix_shim/channel.h
tools_libhvdrun_la_LIBADD = core/libbase.la

if HAVE_PMIX
bin_PROGRAMS += tools/hvdrun
endif
# nothing of the build tree is linked at run time: start-up is short, and there is no wrapper in front
tools_hvdrun_SOURCES = tools/hvdrun.c \
	tools/supervisor.c tools/supervisor.h \
	pmix_shim/server.c pmix_shim/server.h \
	pmix_shim/server_process.c pmix_shim/server_process.h \
	pmix_shim/upcall_client.c pmix_shim/upcall_fence.c pmix_shim/upcall_event.c \
	pmix_shim/upcall_control.c pmix_shim/upcall.h
tools_hvdrun_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
tools_hvdrun_LDADD = tools/libhvdrun.la $(PMIX_LIBS)

bin_PROGRAMS += tools/hvdinfo
tools_hvdinfo_SOURCES = tools/hvdinfo.c tools/hvdinfo_trace.h
tools_hvdinfo_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tools_hvdinfo_LDADD = core/libcore.la $(JANSSON_LIBS)

# who kept the others waiting
noinst_LTLIBRARIES += tools/libstragglers.la
tools_libstragglers_la_SOURCES = tools/stragglers.c tools/stragglers.h
if HAVE_JANSSON
tools_hvdinfo_SOURCES += tools/hvdinfo_trace.c tools/trace_file.c tools/trace_file.h
tools_hvdinfo_LDADD += tools/libstragglers.la
else
tools_hvdinfo_SOURCES += tools/hvdinfo_trace_none.c
endif
