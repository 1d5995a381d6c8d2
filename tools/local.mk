# tools: the programs

if HAVE_PMIX
bin_PROGRAMS += tools/hvdrun
endif
# only libpmix and the part of libhvd that is linked in: start-up is short, and the build tree's needs no wrapper
tools_hvdrun_SOURCES = tools/hvdrun.c \
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
	tools/supervisor.c tools/supervisor.h \
	pmix_shim/server.c pmix_shim/server.h \
	pmix_shim/channel.c pmix_shim/channel.h \
	pmix_shim/upcall_client.c pmix_shim/upcall_fence.c pmix_shim/upcall_event.c pmix_shim/upcall.h
tools_hvdrun_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
tools_hvdrun_LDADD = core/libbase.la $(PMIX_LIBS)

bin_PROGRAMS += tools/hvdinfo
tools_hvdinfo_SOURCES = tools/hvdinfo.c
tools_hvdinfo_LDADD = core/libcore.la
