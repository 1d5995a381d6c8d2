# tools: the programs

# what of hvdrun does not need PMIx, for its unit tests too
noinst_LTLIBRARIES += tools/libhvdrun.la
tools_libhvdrun_la_SOURCES = \
	tools/hvdrun_options.c tools/hvdrun_options.h \
	tools/rank_count.c tools/rank_count.h \
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
	tools/rank_places.c tools/rank_places.h \
	pmix_shim/server.c pmix_shim/server.h \
	pmix_shim/server_process.c pmix_shim/server_process.h \
	pmix_shim/upcall_client.c pmix_shim/upcall_fence.c pmix_shim/upcall_event.c \
	pmix_shim/upcall_control.c pmix_shim/upcall.h
tools_hvdrun_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
tools_hvdrun_LDADD = tools/libhvdrun.la core/libconfig.la core/libtopo.la core/libbase.la $(PMIX_LIBS)

bin_PROGRAMS += tools/hvdinfo
tools_hvdinfo_SOURCES = tools/hvdinfo.c tools/hvdinfo_trace.h
tools_hvdinfo_SOURCES += tools/hvdinfo_nics.c tools/hvdinfo_nics.h
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

# which task gets what
tools_hvdinfo_SOURCES += tools/hvdinfo_map.c tools/hvdinfo_map.h tools/map_words.c tools/map_words.h
tools_hvdinfo_SOURCES += tools/map_svg.c tools/map_svg.h tools/map_picture.h
tools_hvdinfo_SOURCES += tools/map_paint.c tools/map_boxes.c tools/map_chips.c
tools_hvdinfo_LDADD += core/libtopo.la

# what of hvdbench needs no job, for its unit tests too
noinst_LTLIBRARIES += tools/libhvdbench.la
tools_libhvdbench_la_SOURCES = \
	tools/hvdbench_options.c tools/hvdbench_options.h \
	tools/hvdbench_stats.c tools/hvdbench_stats.h \
	tools/hvdbench_line.c tools/hvdbench_line.h \
	tools/hvdbench_bar.c tools/hvdbench_bar.h tools/hvdbench_bar_table.c \
	tools/hvdbench_record.h \
	tools/hvdbench_json.c tools/hvdbench_json.h \
	tools/hvdbench_model.c tools/hvdbench_model.h tools/hvdbench_architectures.c \
	tools/hvdbench_pattern.c tools/hvdbench_pattern.h \
	tools/hvdbench_load.c tools/hvdbench_load.h
tools_libhvdbench_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tools_libhvdbench_la_LIBADD = core/libcore.la $(JANSSON_LIBS)
if HAVE_JANSSON
tools_libhvdbench_la_SOURCES += tools/hvdbench_record.c
else
tools_libhvdbench_la_SOURCES += tools/hvdbench_record_none.c
endif

# what it measures is the libhvd that users have; from libcore it takes the parsers, and the agreement for itself
bin_PROGRAMS += tools/hvdbench
tools_hvdbench_SOURCES = tools/hvdbench.c \
	tools/hvdbench_job.c tools/hvdbench_job.h tools/hvdbench_mpi.h \
	tools/hvdbench_turns.c tools/hvdbench_turns.h \
	tools/hvdbench_ways.c tools/hvdbench_ways.h \
	tools/hvdbench_exchange.c tools/hvdbench_exchange.h \
	tools/hvdbench_report.c tools/hvdbench_report.h \
	tools/hvdbench_spawn.c tools/hvdbench_spawn.h \
	tools/hvdbench_programs.c tools/hvdbench_programs.h \
	tools/hvdbench_cores.c tools/hvdbench_cores.h \
	tools/hvdbench_bar_run.c tools/hvdbench_bar_run.h \
	tools/hvdbench_bars.c \
	tools/hvdbench_cases.h tools/hvdbench_allreduce.c tools/hvdbench_latency.c tools/hvdbench_idle.c \
	tools/hvdbench_trace.c tools/hvdbench_launch.c tools/hvdbench_negotiate.c \
	tools/hvdbench_simulation.c tools/hvdbench_simulation.h
tools_hvdbench_SOURCES += tools/hvdbench_kernels.c
tools_hvdbench_CFLAGS = $(AM_CFLAGS) -fopenmp-simd -Wno-pass-failed
tools_hvdbench_LDADD = tools/libhvdbench.la core/libhvd.la

# MPI beside hvd: a module, as the plane mpi is, and in its folder, where HVD_MODULE_PATH finds it in a build tree
if HAVE_MPI
hvdmodule_LTLIBRARIES += core/bench_mpi.la
core_bench_mpi_la_SOURCES = tools/hvdbench_mpi.c
core_bench_mpi_la_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
core_bench_mpi_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -export-symbols-regex '^bench_mpi_module$$' $(HVD_RESOLVED)
core_bench_mpi_la_LIBADD = core/libbase.la $(MPI_LIBS)

# what its word of MPI is compared with
hvdmodule_PROGRAMS += tools/hvdbench_plain
tools_hvdbench_plain_SOURCES = tools/hvdbench_plain.c
tools_hvdbench_plain_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
tools_hvdbench_plain_LDADD = tools/libhvdbench.la $(MPI_LIBS)
endif

# ranks of two nodes on one machine
dist_hvdmodule_SCRIPTS += tools/two-nodes
