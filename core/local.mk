# core: libhvd. Internal functions are noun_verb; only hvd_* is exported.
include_HEADERS += core/hvd.h core/hvd_mpi.h

# ---- libbase: no dependencies, so that the plug-in may carry it ----
noinst_LTLIBRARIES += core/libbase.la
core_libbase_la_CFLAGS = $(AM_CFLAGS) $(LTO_CFLAGS)
core_libbase_la_SOURCES = core/base/status.c core/base/status.h core/base/log.c core/base/log.h core/base/parse.c \
	core/base/parse.h core/base/option.c core/base/option.h core/base/planes.c core/base/planes.h core/base/hash.h \
	core/base/clock.h core/base/word.h core/base/bitset.c core/base/bitset.h
# settings
core_libbase_la_SOURCES += core/base/config_list.c core/base/config.c core/base/config.h
# placement: the words that ask for it, and what one task gets
core_libbase_la_SOURCES += core/base/bind.c core/base/bind.h core/base/resource_set.c core/base/resource_set.h \
	core/base/nics.c core/base/nics.h
core_libbase_la_SOURCES += core/topo/plan_task.c core/topo/plan.h core/topo/apply.c core/topo/apply.h
# network cards: by /sys alone, so that whoever starts a job may look at them
core_libbase_la_SOURCES += core/topo/nic.c core/topo/nic.h core/topo/nic_live.c core/topo/nic_node.c \
	core/topo/nic_settings.c core/topo/nic_settings.h

# ---- libconfig: the options in force, for hvdrun too, which needs nothing else of libcore ----
noinst_LTLIBRARIES += core/libconfig.la
core_libconfig_la_SOURCES = core/base/config_load.c core/base/config_file.c core/base/config_file.h
core_libconfig_la_CFLAGS = $(AM_CFLAGS) $(YAML_CFLAGS)
core_libconfig_la_LIBADD = $(YAML_LIBS)

# ---- libplan: what becomes of the words, for those that place: plans are pure ----
noinst_LTLIBRARIES += core/libplan.la
core_libplan_la_SOURCES = core/topo/machine.c core/topo/machine.h core/topo/file.c core/topo/file.h core/topo/path.c \
	core/topo/path.h core/topo/visible.c core/topo/visible.h core/topo/plan.c core/topo/plan_state.h \
	core/topo/plan_homes.c core/topo/plan_homes.h core/topo/plan_units.c core/topo/plan_share.c core/topo/plan_cores.c \
	core/topo/plan_gpus.c core/topo/plan_sets.c core/topo/plan_nics.c core/topo/plan_words.c core/topo/place.c \
	core/topo/place.h core/topo/erf.h core/topo/erf_state.h core/topo/erf_read.c core/topo/erf_write.c \
	core/topo/erf_tasks.c

# ---- libtopo: reading the machine, for which alone hwloc is needed ----
noinst_LTLIBRARIES += core/libtopo.la
core_libtopo_la_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
core_libtopo_la_LIBADD = core/libplan.la $(HWLOC_LIBS)
if HAVE_HWLOC
core_libtopo_la_SOURCES = core/topo/machine_load.c core/topo/machine_devices.c core/topo/machine_live.c \
	core/topo/machine_hwloc.h
else
core_libtopo_la_SOURCES = core/topo/machine_none.c
endif

# ---- libchain: what planes share, carried by modules too ----
noinst_LTLIBRARIES += core/libchain.la
core_libchain_la_CFLAGS = $(AM_CFLAGS) $(LTO_CFLAGS)
core_libchain_la_SOURCES = core/plane/names.c core/plane/reduce.c core/plane/reduce.h core/plane/kernels.h \
	core/plane/target.c core/plane/chain.c core/plane/chain.h core/plane/blocks.c core/plane/blocks.h \
	core/plane/exchange.c core/plane/exchange.h
core_libchain_la_LIBADD = core/libkernels_plain.la

# the loops over elements, once for each target. Nobody looks at floating-point exceptions, so that both sides of a
# choice may be computed; a multiplication and an addition are never one operation, so that machines with and
# without it agree. clang says where it does not vectorise, as under sanitizers, and may
KERNEL_CFLAGS = $(AM_CFLAGS) -fopenmp-simd -fno-trapping-math -ffp-contract=off -Wno-pass-failed
KERNEL_SOURCES = core/plane/kernels.c core/plane/kernels.h core/plane/kernels_types.h core/plane/kernels_loops.h \
	core/plane/kernels_integer.h core/plane/kernels_real.h core/plane/kernels_half.h core/plane/kernels_adasum.h
noinst_LTLIBRARIES += core/libkernels_plain.la
core_libkernels_plain_la_SOURCES = $(KERNEL_SOURCES)
core_libkernels_plain_la_CFLAGS = $(KERNEL_CFLAGS)
if TARGET_AVX2
noinst_LTLIBRARIES += core/libkernels_avx2.la
core_libkernels_avx2_la_SOURCES = $(KERNEL_SOURCES)
core_libkernels_avx2_la_CFLAGS = $(KERNEL_CFLAGS) -DTARGET=avx2 $(AVX2_CFLAGS)
core_libchain_la_LIBADD += core/libkernels_avx2.la
endif
if TARGET_AVX512
noinst_LTLIBRARIES += core/libkernels_avx512.la
core_libkernels_avx512_la_SOURCES = $(KERNEL_SOURCES)
core_libkernels_avx512_la_CFLAGS = $(KERNEL_CFLAGS) -DTARGET=avx512 $(AVX512_CFLAGS)
core_libchain_la_LIBADD += core/libkernels_avx512.la
endif

if HAVE_MPI
hvdmodule_LTLIBRARIES += core/plane_mpi.la
core_plane_mpi_la_SOURCES = core/plane/mpi.c
core_plane_mpi_la_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
core_plane_mpi_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -export-symbols-regex '^plane_mpi_module$$' $(HVD_RESOLVED)
core_plane_mpi_la_LIBADD = core/libchain.la core/libbase.la $(MPI_LIBS)
endif

# ---- libcore: everything of libhvd, also linked into the unit tests, which reach below the exported calls ----
noinst_LTLIBRARIES += core/libcore.la
core_libcore_la_CFLAGS = $(AM_CFLAGS) $(LTO_CFLAGS) $(SODIUM_CFLAGS)
core_libcore_la_LIBADD = core/libchain.la core/libtopo.la core/libconfig.la core/libbase.la $(SODIUM_LIBS)
core_libcore_la_SOURCES = core/base/ranks.c core/base/ranks.h core/base/bytes.h core/base/pause.h \
	core/base/prefetch.h core/base/past_cache.h core/base/cache_line.h
core_libcore_la_SOURCES += core/ask.c core/ask.h core/allocations.c core/allocations.h core/exported.c \
	core/exported.h core/placement.c core/placement.h
# the start of a job: who is where, and who can reach whom
core_libcore_la_SOURCES += core/control/wireup.h core/control/control.h core/control/join.c core/control/join.h \
	core/control/shape.c core/control/shape.h core/control/node.h core/control/local.c core/control/local.h \
	core/control/roster.c core/control/roster.h core/control/card.c core/control/card.h core/control/address.c \
	core/control/address.h core/control/handshake.c core/control/handshake.h core/control/greeting.c \
	core/control/greeting.h core/control/report.c core/control/report.h core/control/budget.c core/control/budget.h \
	core/control/part.c core/control/part.h core/control/module.c
# which network joins the nodes
core_libcore_la_SOURCES += core/control/network.c core/control/network.h core/control/network_table.c \
	core/control/setting.c core/control/setting.h core/control/candidates.c core/control/candidates.h \
	core/control/prove.c core/control/prove.h core/control/survey.c core/control/survey.h
# the control tree: shared memory inside a node, sockets between nodes
core_libcore_la_SOURCES += core/control/tree.c core/control/endpoint.c core/control/endpoint.h core/control/frame.c \
	core/control/frame.h core/control/ring.c core/control/ring.h core/control/bell.h core/control/link.c \
	core/control/link.h core/control/watch.c core/control/watch.h core/control/door.c core/control/door.h \
	core/control/cores.c core/control/cores.h core/control/memory.c core/control/memory.h core/control/shared_file.c \
	core/control/shared_file.h core/control/windows.c core/control/windows.h core/control/arena.c core/control/arena.h \
	core/control/meet.c core/control/meet.h core/control/meet_leader.c core/control/meet_member.c
# what is ready on which rank
core_libcore_la_SOURCES += core/flow/desc.c core/flow/desc.h core/flow/wire.c core/flow/wire.h core/flow/wire_get.c \
	core/flow/ledger.c core/flow/ledger.h core/flow/negotiate.c core/flow/negotiate.h core/flow/negotiate_state.h \
	core/flow/negotiate_up.c core/flow/negotiate_decide.c core/flow/negotiate_down.c core/flow/negotiate_sets.c \
	core/flow/negotiate_stall.c core/flow/stall.h core/flow/stalled.c
# from the program to the planes and back
core_libcore_la_SOURCES += core/flow/request.c core/flow/request.h core/flow/queue.c core/flow/queue.h \
	core/flow/teams.c core/flow/teams.h core/flow/sets.c core/flow/fuse.c core/flow/fuse.h core/flow/batch.c \
	core/flow/batch.h core/flow/sizes.c core/flow/sizes.h core/flow/adasum.c core/flow/adasum.h core/flow/baton.c \
	core/flow/baton.h core/flow/finish.c core/flow/finish.h core/flow/loop.c core/flow/loop.h core/flow/stages.h \
	core/flow/decide.c core/flow/run.c core/flow/fail.c core/flow/tune.c core/flow/tune.h core/flow/tuning.c
# how tensors travel: all planes, then inside a node, between nodes, and both
core_libcore_la_SOURCES += core/plane/plane.h core/plane/table.c core/plane/set.c core/plane/set.h \
	core/plane/places.c core/plane/places.h core/plane/local.c
core_libcore_la_SOURCES += core/plane/shm.c core/plane/shm.h core/plane/shm_team.h core/plane/shm_course.c \
	core/plane/shm_kinds.c core/plane/shm_direct.c core/plane/shm_direct.h core/plane/shm_domains.c \
	core/plane/shm_domains.h core/plane/slots.c core/plane/slots.h core/plane/gait.c core/plane/gait.h \
	core/plane/relay.c core/plane/relay.h
core_libcore_la_SOURCES += core/plane/tcp.c core/plane/stream.c core/plane/stream.h core/plane/parcel.c \
	core/plane/parcel.h core/plane/mesh.c core/plane/mesh.h core/plane/doubling.c core/plane/doubling.h \
	core/plane/chords.c core/plane/chords.h core/plane/mpi_stub.c core/plane/mpi_choice.c core/plane/mpi_choice.h
core_libcore_la_SOURCES += core/plane/hier.c core/plane/hier.h core/plane/hier_team.c core/plane/hier_team.h \
	core/plane/hier_cut.c core/plane/hier_cut.h core/plane/hier_stage.c core/plane/hier_stage.h \
	core/plane/hier_alltoall.c core/plane/hier_alltoall.h
# what became of operations
core_libcore_la_SOURCES += core/trace/trace.c core/trace/trace.h core/trace/record.c core/trace/record.h \
	core/trace/flight.c core/trace/flight.h core/trace/timeline.c core/trace/timeline.h core/trace/signals.c \
	core/trace/signals.h core/trace/pad.c core/trace/pad.h core/trace/offset.c core/trace/offset.h core/trace/stop.c \
	core/trace/stop.h

# ---- libhvd ----
lib_LTLIBRARIES += core/libhvd.la
core_libhvd_la_SOURCES = core/hvd.c core/context.h core/collectives.c core/operation.c core/operation.h core/sets.c \
	core/sets.h core/alloc.c core/clocks.c core/clocks.h core/seeing.c
core_libhvd_la_CFLAGS = $(AM_CFLAGS) $(LTO_CFLAGS)
core_libhvd_la_LIBADD = core/libcore.la
core_libhvd_la_LDFLAGS = $(HVD_LDFLAGS) $(LTO_LDFLAGS) -version-info $(HVD_LT_VERSION) -export-symbols-regex '^hvd_' $(HVD_RESOLVED)
