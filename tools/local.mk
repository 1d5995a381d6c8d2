# tools: the programs

# the parts of hvdrun that do not need PMIx, which its unit tests link too
noinst_LTLIBRARIES += tools/libhvdrun.la
tools_libhvdrun_la_SOURCES = \
	tools/hvdrun/options.c tools/hvdrun/options.h \
	tools/hvdrun/foreign_options.c tools/hvdrun/foreign_options.h \
	tools/hvdrun/rank_count.c tools/hvdrun/rank_count.h \
	tools/common/command.c tools/common/command.h \
	tools/common/ask.c tools/common/ask.h \
	tools/common/option_reader.c tools/common/option_reader.h \
	tools/common/master_port.c tools/common/master_port.h \
	tools/common/outer_tasks.c tools/common/outer_tasks.h \
	tools/hvdrun/rank_environment.c tools/hvdrun/rank_environment.h \
	tools/hvdrun/place_variables.c tools/hvdrun/place_variables.h \
	tools/hvdrun/scratch.c tools/hvdrun/scratch.h \
	tools/hvdrun/process_tree.c tools/hvdrun/process_tree.h \
	tools/hvdrun/reaper.c tools/hvdrun/reaper.h \
	tools/hvdrun/reaper_process.c tools/hvdrun/reaper_process.h \
	tools/hvdrun/line_prefix.c tools/hvdrun/line_prefix.h \
	tools/hvdrun/lines.c tools/hvdrun/lines.h \
	tools/hvdrun/output.c tools/hvdrun/output.h \
	tools/hvdrun/pseudo_terminal.c tools/hvdrun/pseudo_terminal.h \
	tools/hvdrun/rank_files.c tools/hvdrun/rank_files.h \
	tools/hvdrun/traceback.c tools/hvdrun/traceback.h \
	tools/hvdrun/input.c tools/hvdrun/input.h \
	tools/hvdrun/job_signals.c tools/hvdrun/job_signals.h \
	tools/hvdrun/restarts.c tools/hvdrun/restarts.h \
	tools/hvdrun/cooldown.c tools/hvdrun/cooldown.h \
	tools/hvdrun/launcher/launcher.c tools/hvdrun/launcher/launcher.h \
	tools/hvdrun/launcher/facts.c tools/hvdrun/launcher/facts.h \
	tools/hvdrun/launcher/hosts.c tools/hvdrun/launcher/hosts.h tools/hvdrun/launcher/slurm_hosts.c \
	tools/hvdrun/agent/messages.c tools/hvdrun/agent/messages.h \
	tools/hvdrun/agent/seats.c tools/hvdrun/agent/seats.h \
	tools/hvdrun/agent/streams.c tools/hvdrun/agent/streams.h \
	tools/hvdrun/agent/agent_steps.c tools/hvdrun/agent/agent_steps.h \
	tools/hvdrun/launcher/request.c tools/hvdrun/launcher/request.h \
	tools/hvdrun/launcher/line.c tools/hvdrun/launcher/line.h \
	tools/hvdrun/launcher/srun.c tools/hvdrun/launcher/jsrun.c tools/hvdrun/launcher/mpirun.c \
	tools/hvdrun/launcher/foreign.c tools/hvdrun/launcher/foreign.h \
	tools/hvdrun/post_mortem.c tools/hvdrun/post_mortem.h \
	tools/common/launch_events.c tools/common/launch_events.h tools/common/json.c tools/common/json.h \
	tools/hvdrun/events/events.c tools/hvdrun/events/events.h \
	tools/hvdrun/events/line_sink.c tools/hvdrun/events/line_sink.h \
	tools/common/metrics.c tools/common/metrics.h tools/common/metrics_file.c tools/common/metrics_file.h \
	core/elastic/epoch_driver.c core/elastic/epoch_driver.h \
	pmix_shim/epoch_server.c pmix_shim/epoch_server.h \
	pmix_shim/event_channel.c pmix_shim/event_channel.h
# links with libverdict, libtopo and libbase

if HAVE_PMIX
bin_PROGRAMS += bin/hvdrun
endif
# linked statically with hvd's own libraries: it starts quickly, and libtool makes no wrapper script
bin_hvdrun_SOURCES = tools/hvdrun/hvdrun.c \
	tools/hvdrun/local_job.c tools/hvdrun/local_job.h \
	tools/hvdrun/print_error.h \
	tools/hvdrun/supervisor.c tools/hvdrun/supervisor.h \
	tools/hvdrun/starter.h tools/hvdrun/local_starter.c tools/hvdrun/local_starter.h \
	tools/hvdrun/last_line.c tools/hvdrun/last_line.h tools/hvdrun/apps.c tools/hvdrun/apps.h \
	tools/hvdrun/agent/agent.c tools/hvdrun/agent/agent.h \
	tools/hvdrun/agent/agents.c tools/hvdrun/agent/agents.h \
	tools/hvdrun/agent/agent_hosts.c tools/hvdrun/agent/agent_hosts.h \
	tools/hvdrun/agent/agents_job.c tools/hvdrun/agent/agents_job.h \
	tools/hvdrun/survivors.c tools/hvdrun/survivors.h \
	tools/hvdrun/capacity.c tools/hvdrun/capacity.h \
	tools/hvdrun/site/host_script.c tools/hvdrun/site/host_script.h \
	tools/hvdrun/site/health_check.c tools/hvdrun/site/health_check.h \
	tools/hvdrun/rank_places.c tools/hvdrun/rank_places.h \
	pmix_shim/server.c pmix_shim/server.h \
	pmix_shim/server_process.c pmix_shim/server_process.h \
	pmix_shim/server_accept.c pmix_shim/server_accept.h \
	pmix_shim/server_crash.c pmix_shim/server_crash.h \
	pmix_shim/upcall.c pmix_shim/upcall.h
bin_hvdrun_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
bin_hvdrun_LDFLAGS = $(INSTALLED_LDFLAGS)
bin_hvdrun_LDADD = tools/libhvdrun.la core/libcore.la core/libconfig.la core/libverdict.la core/libtopo.la core/libbase.la $(PMIX_LIBS)

# the driver of elastic steps, which the plug-in starts beside srun
if HAVE_SLURM
pkglibexec_PROGRAMS = bin/hvdepochs
endif
bin_hvdepochs_SOURCES = tools/hvdepochs/hvdepochs.c
bin_hvdepochs_LDFLAGS = $(INSTALLED_LDFLAGS)
bin_hvdepochs_LDADD = spank/libsite.la tools/libhvdrun.la core/libcore.la core/libconfig.la core/libverdict.la core/libtopo.la core/libbase.la

bin_PROGRAMS += bin/hvdinfo
bin_hvdinfo_SOURCES = tools/hvdinfo/hvdinfo.c tools/hvdinfo/commands.h
bin_hvdinfo_SOURCES += tools/hvdinfo/nics.c tools/hvdinfo/options.c
bin_hvdinfo_SOURCES += tools/common/launch_events.c tools/common/launch_events.h
bin_hvdinfo_SOURCES += tools/hvdinfo/env.c tools/common/master_port.c tools/common/master_port.h
bin_hvdinfo_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
bin_hvdinfo_LDFLAGS = $(INSTALLED_LDFLAGS)
bin_hvdinfo_LDADD = tools/libdoctor.la tools/libps.la tools/libjson.la core/libapi.la core/libcore.la $(JANSSON_LIBS)

# what writes JSON; its texts are escaped as those of timelines are
noinst_LTLIBRARIES += tools/libjson.la
tools_libjson_la_SOURCES = tools/common/json.c tools/common/json.h

# hvdinfo doctor: what keeps jobs from starting; a library, which its unit tests link too
noinst_LTLIBRARIES += tools/libdoctor.la
tools_libdoctor_la_SOURCES = \
	tools/common/outer_tasks.c tools/common/outer_tasks.h \
	tools/hvdinfo/doctor/doctor.c tools/hvdinfo/doctor/doctor.h \
	tools/hvdinfo/doctor/checks.c tools/hvdinfo/doctor/checks.h \
	tools/hvdinfo/doctor/elastic.c tools/hvdinfo/doctor/launch.c tools/hvdinfo/doctor/names.c tools/hvdinfo/doctor/outer.c tools/hvdinfo/doctor/outer.h tools/hvdinfo/doctor/plugin.c tools/hvdinfo/doctor/srun.c \
	tools/hvdinfo/doctor/libraries.c tools/hvdinfo/doctor/hardware.c tools/hvdinfo/doctor/limits.c \
	tools/hvdinfo/doctor/job.c tools/hvdinfo/doctor/job.h \
	tools/hvdinfo/doctor/report.c tools/hvdinfo/doctor/report.h core/verdict/node_names.c core/verdict/node_names.h

# hvdinfo ps: what running ranks do; a library, which its unit tests link too
noinst_LTLIBRARIES += tools/libps.la
tools_libps_la_SOURCES = tools/hvdinfo/ps/rank.h \
	tools/hvdinfo/ps/find.c tools/hvdinfo/ps/find.h \
	tools/hvdinfo/ps/dumps.c tools/hvdinfo/ps/dumps.h \
	tools/hvdinfo/ps/process.c tools/hvdinfo/ps/process.h \
	tools/hvdinfo/ps/records.c tools/hvdinfo/ps/records.h \
	tools/hvdinfo/ps/rank_codec.c tools/hvdinfo/ps/rank_codec.h tools/hvdinfo/ps/merge.c tools/hvdinfo/ps/merge.h \
	tools/hvdinfo/ps/nodes.c tools/hvdinfo/ps/nodes.h tools/common/ask.c tools/common/ask.h \
	tools/hvdinfo/ps/frames.c tools/hvdinfo/ps/frames.h tools/common/command.c tools/common/command.h \
	tools/hvdinfo/ps/pace.c tools/hvdinfo/ps/pace.h \
	tools/hvdinfo/ps/awaited.c tools/hvdinfo/ps/awaited.h \
	tools/hvdinfo/ps/judge.c tools/hvdinfo/ps/judge.h \
	tools/hvdinfo/ps/words.c tools/hvdinfo/ps/words.h \
	tools/hvdinfo/ps/rank_metrics.c tools/hvdinfo/ps/rank_metrics.h \
	tools/common/metrics.c tools/common/metrics.h tools/common/metrics_file.c tools/common/metrics_file.h \
	tools/hvdinfo/ps/scrape.c tools/hvdinfo/ps/scrape.h \
	tools/hvdinfo/ps/top.c tools/hvdinfo/ps/top.h \
	tools/hvdinfo/ps/sockets.c tools/hvdinfo/ps/sockets.h \
	tools/hvdinfo/ps/torch_records.c tools/hvdinfo/ps/torch_records.h \
	tools/hvdinfo/ps/show.c tools/hvdinfo/ps/show.h
bin_hvdinfo_SOURCES += tools/hvdinfo/ps/ps.c

# hvdinfo trace: which ranks the others waited for
noinst_LTLIBRARIES += tools/libstragglers.la
tools_libstragglers_la_SOURCES = tools/hvdinfo/stragglers.c tools/hvdinfo/stragglers.h
if HAVE_JANSSON
tools_libstragglers_la_SOURCES += tools/hvdinfo/trace_file.c tools/hvdinfo/trace_file.h
tools_libstragglers_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tools_libstragglers_la_LIBADD = $(JANSSON_LIBS)
bin_hvdinfo_SOURCES += tools/hvdinfo/trace.c
bin_hvdinfo_LDADD += tools/libstragglers.la
else
bin_hvdinfo_SOURCES += tools/hvdinfo/trace_none.c
endif

# hvdinfo map: which task gets which cores, memory, GPUs and NICs
bin_hvdinfo_SOURCES += tools/common/option_reader.c tools/common/option_reader.h
bin_hvdinfo_SOURCES += tools/hvdinfo/map.c tools/hvdinfo/map_text.c tools/hvdinfo/map_text.h
bin_hvdinfo_SOURCES += tools/hvdinfo/map_svg.c tools/hvdinfo/map_svg.h
bin_hvdinfo_LDADD += core/libtopo.la

# the parts of hvdbench that need no job, which its unit tests link too
noinst_LTLIBRARIES += tools/libhvdbench.la
tools_libhvdbench_la_SOURCES = \
	tools/hvdbench/options.c tools/hvdbench/options.h \
	tools/common/option_reader.c tools/common/option_reader.h \
	tools/hvdbench/cases/cases.c tools/hvdbench/cases/cases.h \
	tools/hvdbench/stats.c tools/hvdbench/stats.h \
	tools/hvdbench/cache_line_latency.c tools/hvdbench/cache_line_latency.h \
	tools/hvdbench/model.c tools/hvdbench/model.h tools/hvdbench/architectures.c \
	tools/hvdbench/pattern.c tools/hvdbench/pattern.h \
	tools/hvdbench/load.c tools/hvdbench/load.h
tools_libhvdbench_la_LIBADD = tools/libjson.la core/libcore.la

# what hvdbench and tests/bench/parts measure with
noinst_LTLIBRARIES += tools/libbenchjob.la
tools_libbenchjob_la_SOURCES = tools/hvdbench/run.c tools/hvdbench/run.h \
	tools/common/outer_tasks.c tools/common/outer_tasks.h \
	tools/hvdbench/job.c tools/hvdbench/job.h tools/hvdbench/mpi.h \
	tools/hvdbench/turns.c tools/hvdbench/turns.h \
	tools/hvdbench/ways.c tools/hvdbench/ways.h \
	tools/hvdbench/exchange.c tools/hvdbench/exchange.h \
	tools/hvdbench/report.c tools/hvdbench/report.h \
	tools/hvdbench/gpu.c tools/hvdbench/gpu.h \
	tools/hvdbench/gpu_tensors.c tools/hvdbench/gpu_tensors.h \
	tools/hvdbench/bare_nccl.c tools/hvdbench/bare_nccl.h
tools_libbenchjob_la_CFLAGS = $(AM_CFLAGS) -fopenmp-simd -Wno-pass-failed

# it measures the same libhvd that users link; libcore only gives it parsers
bin_PROGRAMS += bin/hvdbench
bin_hvdbench_SOURCES = tools/hvdbench/hvdbench.c \
	tools/hvdbench/spawn.c tools/hvdbench/spawn.h \
	tools/hvdbench/cases/allreduce.c tools/hvdbench/cases/latency.c tools/hvdbench/cases/idle.c \
	tools/hvdbench/cases/launch.c tools/hvdbench/cases/overhead.c tools/hvdbench/cases/p2p.c tools/hvdbench/cases/staging.c
bin_hvdbench_CFLAGS = $(AM_CFLAGS)
bin_hvdbench_LDFLAGS = $(INSTALLED_LDFLAGS)
bin_hvdbench_LDADD = tools/libbenchjob.la tools/libhvdbench.la core/libhvd.la

# MPI beside hvd: a module like the backend mpi, in the same folder, so that HVD_MODULE_PATH finds it in a build tree
if HAVE_MPI
hvdmodule_LTLIBRARIES += core/bench_mpi.la
core_bench_mpi_la_SOURCES = tools/hvdbench/mpi.c
core_bench_mpi_la_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
core_bench_mpi_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -export-symbols-regex '^bench_mpi_module$$' $(HVD_RESOLVED)
core_bench_mpi_la_LIBADD = core/libbase.la $(MPI_LIBS)
endif

# completion for shells, from what the programs say of their options
if HAVE_PMIX
bashcompletiondir = $(datadir)/bash-completion/completions
nodist_bashcompletion_DATA = tools/completion/hvdrun tools/completion/hvdinfo
zshcompletiondir = $(datadir)/zsh/site-functions
nodist_zshcompletion_DATA = tools/completion/_hvdrun
CLEANFILES += $(nodist_bashcompletion_DATA) $(nodist_zshcompletion_DATA)
tools/completion/hvdrun tools/completion/hvdinfo tools/completion/_hvdrun: tools/completion/make \
		bin/hvdrun$(EXEEXT) bin/hvdinfo$(EXEEXT)
	$(AM_V_at)$(MKDIR_P) tools/completion
	$(AM_V_GEN)bin/hvdrun --help >$@.help && bin/hvdinfo --options >$@.options && bin/hvdinfo --help >$@.info && \
	$(srcdir)/tools/completion/make $(@F) $@.help $@.options $@.info >$@.made && \
	rm -f $@.help $@.options $@.info && mv $@.made $@
endif
EXTRA_DIST += tools/completion/make
