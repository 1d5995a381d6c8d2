# Programs run as a user runs them, with one .bats file for each. Without bats each is skipped with a reason.
TEST_EXTENSIONS = .bats
BATS_LOG_DRIVER = $(LOG_DRIVER)
BATS_LOG_COMPILER = $(SHELL) $(top_srcdir)/tests/run/tap $(BATS)
dist_noinst_SCRIPTS += tests/run/tap tests/bin/timeout

RUN_TESTS =
RUN_TESTS += tests/run/install.bats tests/run/hvdinfo.bats
RUN_TESTS += tests/run/hvdinfo_trace.bats
RUN_TESTS += tests/run/observe.bats
RUN_TESTS += tests/run/wireup.bats tests/run/mpiexec.bats
RUN_TESTS += tests/run/backend_mpi.bats
RUN_TESTS += tests/run/train.bats
RUN_TESTS += tests/run/manual.bats tests/run/abi.bats tests/run/quickstart.bats
RUN_TESTS += tests/run/plugin.bats
RUN_TESTS += tests/run/hvdrun.bats tests/run/hvdrun_faults.bats tests/run/old_kernel.bats
check_PROGRAMS += tests/run/unflushed
tests_run_unflushed_SOURCES = tests/run/unflushed.c
RUN_TESTS += tests/run/place.bats
RUN_TESTS += tests/run/descriptors.bats

TESTS += $(RUN_TESTS)
EXTRA_DIST += $(RUN_TESTS) tests/run/setup.bash tests/run/hvdrun.bash tests/run/output.bash tests/run/python.bash tests/run/bench.bash
EXTRA_DIST += tests/data/abi/libhvd.so.0
EXTRA_DIST += tests/data/timeline/rank-0.json tests/data/timeline/rank-1.json tests/data/timeline/rank-2.json

check_PROGRAMS += tests/run/wireup_probe
# refuses system calls, as an older kernel or a container does
check_PROGRAMS += tests/run/refuse
tests_run_refuse_SOURCES = tests/run/refuse.c
tests_run_refuse_LDADD =
tests_run_wireup_probe_LDADD = core/libcore.la
if HAVE_MPI
check_PROGRAMS += tests/run/wireup_mpi
tests_run_wireup_mpi_SOURCES = tests/run/wireup_probe.c
tests_run_wireup_mpi_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS) -DHAVE_MPI_PROBE
tests_run_wireup_mpi_LDADD = core/libcore.la $(MPI_LIBS)
endif

RUN_TESTS += tests/run/collectives.bats
check_PROGRAMS += tests/run/collectives
tests_run_collectives_SOURCES = tests/run/collectives.c
tests_run_collectives_LDADD = core/libhvd.la

# messages between two ranks
RUN_TESTS += tests/run/messages.bats
check_PROGRAMS += tests/run/messages
tests_run_messages_SOURCES = tests/run/messages.c tests/run/ranks.h
tests_run_messages_LDADD = core/libhvd.la
EXTRA_DIST += tests/run/backend_mpi.c
if HAVE_MPI
check_PROGRAMS += tests/run/backend_mpi tests/run/backend_mpi_linked
tests_run_backend_mpi_SOURCES = tests/run/backend_mpi.c
tests_run_backend_mpi_LDADD = core/libcore.la -lm
tests_run_backend_mpi_linked_SOURCES = tests/run/backend_mpi.c
tests_run_backend_mpi_linked_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS) -DHAVE_MPI_PROBE
tests_run_backend_mpi_linked_LDADD = core/libcore.la $(MPI_LIBS) -lm
endif

# the collectives against a reference, and their errors
RUN_TESTS += tests/run/property.bats
check_PROGRAMS += tests/run/property
tests_run_property_SOURCES = tests/run/property.c tests/run/op_plan.c tests/run/op_plan.h tests/run/perform.c tests/run/perform.h tests/run/gpu_memory.c tests/run/gpu_memory.h
tests_run_property_SOURCES += tests/run/reference.c tests/run/reference.h
tests_run_property_LDADD = core/libhvd.la -lm
RUN_TESTS += tests/run/errors.bats
check_PROGRAMS += tests/run/disagree
tests_run_disagree_SOURCES = tests/run/disagree.c tests/run/ranks.h
tests_run_disagree_LDADD = core/libhvd.la
check_PROGRAMS += tests/run/errors
tests_run_errors_SOURCES = tests/run/errors.c tests/run/ranks.h
tests_run_errors_LDADD = core/libhvd.la
RUN_TESTS += tests/run/refusals.bats
check_PROGRAMS += tests/run/refusals
tests_run_refusals_SOURCES = tests/run/refusals.c tests/run/ranks.h
tests_run_refusals_LDADD = core/libhvd.la -lm
RUN_TESTS += tests/run/failure.bats
check_PROGRAMS += tests/run/crash
tests_run_crash_SOURCES = tests/run/crash.c
tests_run_crash_LDADD = core/libhvd.la
RUN_TESTS += tests/run/stalled.bats
check_PROGRAMS += tests/run/stalled
tests_run_stalled_SOURCES = tests/run/stalled.c tests/run/ranks.h
tests_run_stalled_LDADD = core/libhvd.la
RUN_TESTS += tests/run/eager.bats
check_PROGRAMS += tests/run/eager
tests_run_eager_SOURCES = tests/run/eager.c tests/run/ranks.h
tests_run_eager_LDADD = core/libhvd.la
RUN_TESTS += tests/run/hvdinfo_ps.bats
check_PROGRAMS += tests/run/standing
tests_run_standing_SOURCES = tests/run/standing.c tests/run/ranks.h
tests_run_standing_LDADD = core/libhvd.la
RUN_TESTS += tests/run/limits.bats
check_PROGRAMS += tests/run/limits
tests_run_limits_SOURCES = tests/run/limits.c tests/run/ranks.h
tests_run_limits_LDADD = core/libhvd.la

# which backends carry which operations
RUN_TESTS += tests/run/backends.bats
check_PROGRAMS += tests/run/backends
tests_run_backends_SOURCES = tests/run/backends.c tests/run/ranks.h
tests_run_backends_LDADD = core/libhvd.la

# how ranks wait for each other
RUN_TESTS += tests/run/lost.bats tests/run/dead_link.bats
check_PROGRAMS += tests/run/lost
tests_run_lost_SOURCES = tests/run/lost.c tests/run/ranks.h
tests_run_lost_LDADD = core/libhvd.la
RUN_TESTS += tests/run/agents.bats tests/run/elastic.bats tests/run/elastic_growth.bats tests/run/events.bats tests/run/python_elastic.bats
check_PROGRAMS += tests/run/elastic
tests_run_elastic_SOURCES = tests/run/elastic.c tests/run/ranks.h
tests_run_elastic_LDADD = core/libhvd.la
check_PROGRAMS += tests/run/elastic_state
tests_run_elastic_state_SOURCES = tests/run/elastic_state.c tests/run/ranks.h
tests_run_elastic_state_LDADD = core/libhvd.la
RUN_TESTS += tests/run/waiting.bats
check_PROGRAMS += tests/run/waiting
tests_run_waiting_SOURCES = tests/run/waiting.c tests/run/ranks.h
tests_run_waiting_LDADD = core/libhvd.la

# the same, and the collectives, on several nodes
RUN_TESTS += tests/run/hier.bats
dist_noinst_SCRIPTS += tests/run/nodes

# the start of jobs from lists of ranks and from communicators
RUN_TESTS += tests/run/start.bats
check_PROGRAMS += tests/run/start
tests_run_start_SOURCES = tests/run/start.c tests/run/ranks.h
tests_run_start_LDADD = core/libhvd.la
check_PROGRAMS += tests/run/unload
tests_run_unload_SOURCES = tests/run/unload.c
tests_run_unload_LDADD =
# the whole interface, by a seed
RUN_TESTS += tests/run/random_api.bats
check_PROGRAMS += tests/run/random_api
tests_run_random_api_SOURCES = tests/run/random_api.c tests/run/ranks.h
tests_run_random_api_LDADD = core/libhvd.la -lm
if HAVE_MPI
check_PROGRAMS += tests/run/comms
endif
tests_run_comms_SOURCES = tests/run/comms.c tests/run/ranks.h
tests_run_comms_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_run_comms_LDADD = core/libhvd.la $(MPI_LIBS)

# hvdrun
EXTRA_DIST += tests/run/leaks.txt
RUN_TESTS += tests/run/launchers.bats
# a stand-in for LSF's jsrun
dist_noinst_SCRIPTS += tests/run/jsrun

# one for the srun that starts hvdrun's agents
dist_noinst_SCRIPTS += tests/run/srun
if HAVE_PMIX
check_PROGRAMS += tests/run/pmixhello
endif
tests_run_pmixhello_SOURCES = tests/run/pmixhello.c
tests_run_pmixhello_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
tests_run_pmixhello_LDADD = $(PMIX_LIBS)
if HAVE_MPI
check_PROGRAMS += tests/run/mpihello
endif
tests_run_mpihello_SOURCES = tests/run/mpihello.c
tests_run_mpihello_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
tests_run_mpihello_LDADD = $(MPI_LIBS)

# hvdbench
RUN_TESTS += tests/run/hvdbench.bats tests/run/bars.bats tests/run/parts.bats
check_LTLIBRARIES += tests/run/wrong_sums.la
tests_run_wrong_sums_la_SOURCES = tests/run/wrong_sums.c
# -rpath makes libtool build a shared module, although it is never installed
tests_run_wrong_sums_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
RUN_TESTS += tests/run/autotune.bats

# placement by hvdrun
RUN_TESTS += tests/run/hvdinfo_map.bats tests/run/hvdinfo_doctor.bats tests/run/completion.bats
EXTRA_DIST += tests/data/map

# several networks on several nodes
RUN_TESTS += tests/run/network.bats
EXTRA_DIST += tests/run/network.sh
check_PROGRAMS += tests/run/network
tests_run_network_SOURCES = tests/run/network.c tests/run/ranks.h
tests_run_network_LDADD = core/libhvd.la

# the Python package, whose tests are in tests/python
RUN_TESTS += tests/run/python.bats tests/run/random_programs.bats

# ranks that no launcher has placed
RUN_TESTS += tests/run/bound.bats
check_PROGRAMS += tests/run/bound
tests_run_bound_SOURCES = tests/run/bound.c
tests_run_bound_LDADD = core/libhvd.la

# other users of the node
RUN_TESTS += tests/run/trust.bats
if HAVE_PMIX
check_PROGRAMS += tests/run/stranger
endif
tests_run_stranger_SOURCES = tests/run/stranger.c
tests_run_stranger_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
tests_run_stranger_LDADD = core/libcore.la $(PMIX_LIBS)
RUN_TESTS += tests/run/encrypt.bats
check_PROGRAMS += tests/run/plain_tensor
tests_run_plain_tensor_SOURCES = tests/run/plain_tensor.c
tests_run_plain_tensor_LDADD = core/libhvd.la
check_LTLIBRARIES += tests/run/clock_set.la
tests_run_clock_set_la_SOURCES = tests/run/clock_set.c
tests_run_clock_set_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
check_LTLIBRARIES += tests/run/flip_byte.la
tests_run_flip_byte_la_SOURCES = tests/run/flip_byte.c
tests_run_flip_byte_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
if HAVE_MPI
check_LTLIBRARIES += tests/run/stop_in_mpi.la
endif
tests_run_stop_in_mpi_la_SOURCES = tests/run/stop_in_mpi.c
tests_run_stop_in_mpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_run_stop_in_mpi_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
tests_run_stop_in_mpi_la_LIBADD = $(MPI_LIBS)
if HAVE_PMIX
check_LTLIBRARIES += tests/run/stop_in_fence.la
endif
tests_run_stop_in_fence_la_SOURCES = tests/run/stop_in_fence.c
tests_run_stop_in_fence_la_CPPFLAGS = $(AM_CPPFLAGS) $(PMIX_CFLAGS)
tests_run_stop_in_fence_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
check_LTLIBRARIES += tests/run/no_finalize.la
tests_run_no_finalize_la_SOURCES = tests/run/no_finalize.c
tests_run_no_finalize_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
RUN_TESTS += tests/run/gpu.bats
check_LTLIBRARIES += tests/run/cuda_aware.la
tests_run_cuda_aware_la_SOURCES = tests/run/cuda_aware.c
tests_run_cuda_aware_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
if HAVE_MPI
check_LTLIBRARIES += tests/run/mpi_cancel.la
endif
tests_run_mpi_cancel_la_SOURCES = tests/run/mpi_cancel.c
tests_run_mpi_cancel_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_run_mpi_cancel_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
tests_run_mpi_cancel_la_LIBADD = $(MPI_LIBS)
check_PROGRAMS += tests/run/gpu tests/run/gpu_large tests/run/gpu_messages tests/run/gpu_mpi tests/run/gpu_state
tests_run_gpu_state_SOURCES = tests/run/gpu_state.c tests/run/gpu_memory.c tests/run/gpu_memory.h tests/run/gpu_tensor.h tests/run/ranks.h
tests_run_gpu_state_LDADD = core/libhvd.la
tests_run_gpu_SOURCES = tests/run/gpu.c tests/run/gpu_memory.c tests/run/gpu_memory.h tests/run/gpu_tensor.h tests/run/ranks.h
tests_run_gpu_messages_SOURCES = tests/run/gpu_messages.c tests/run/gpu_memory.c tests/run/gpu_memory.h tests/run/gpu_tensor.h tests/run/ranks.h
tests_run_gpu_large_SOURCES = tests/run/gpu_large.c tests/run/gpu_memory.c tests/run/gpu_memory.h tests/run/gpu_tensor.h tests/run/ranks.h
tests_run_gpu_mpi_SOURCES = tests/run/gpu_mpi.c tests/run/gpu_memory.c tests/run/gpu_memory.h tests/run/gpu_tensor.h tests/run/ranks.h
tests_run_gpu_mpi_LDADD = core/libhvd.la
tests_run_gpu_LDADD = core/libhvd.la
tests_run_gpu_messages_LDADD = core/libhvd.la
tests_run_gpu_large_LDADD = core/libhvd.la
RUN_TESTS += tests/run/gpu_persistent.bats
check_PROGRAMS += tests/run/gpu_persistent
tests_run_gpu_persistent_SOURCES = tests/run/gpu_persistent.c tests/run/gpu_memory.c tests/run/gpu_memory.h tests/run/gpu_tensor.h tests/run/ranks.h
tests_run_gpu_persistent_LDADD = core/libhvd.la
RUN_TESTS += tests/run/gpu_faults.bats
check_PROGRAMS += tests/run/gpu_faults
tests_run_gpu_faults_SOURCES = tests/run/gpu_faults.c tests/run/gpu_memory.c tests/run/gpu_memory.h tests/run/gpu_tensor.h tests/run/ranks.h
tests_run_gpu_faults_LDADD = core/libhvd.la
RUN_TESTS += tests/run/gpu_alloc.bats
check_PROGRAMS += tests/run/gpu_alloc
tests_run_gpu_alloc_SOURCES = tests/run/gpu_alloc.c tests/run/gpu_memory.c tests/run/gpu_memory.h tests/run/gpu_tensor.h tests/run/ranks.h
tests_run_gpu_alloc_LDADD = core/libhvd.la
