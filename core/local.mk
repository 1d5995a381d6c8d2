# core: libhvd. Internal functions are named noun_verb; only hvd_* is exported. There is one list of sources for each
# folder; includes.map says which folder may include which.
include_HEADERS += core/hvd.h core/hvd_mpi.h

# ---- libbase: base/ and options/ without what opens files; no dependencies, so that the plug-in may carry it ----
noinst_LTLIBRARIES += core/libbase.la
core_libbase_la_CFLAGS = $(AM_CFLAGS) $(LTO_CFLAGS)
core_libbase_la_SOURCES = core/base/backend_id.c core/base/backend_id.h \
	core/base/clock.h core/base/codec.h core/base/cpu.h core/base/descriptors.c core/base/descriptors.h \
	core/base/drop_report.c core/base/drop_report.h core/base/dtype.c core/base/dtype.h core/base/env.c \
	core/base/env.h core/base/fd_passing.c core/base/fd_passing.h core/base/packet.c core/base/packet.h core/base/narrow.h core/base/hash.h core/base/home.c core/base/home.h core/base/job.h core/base/listener.c core/base/listener.h core/base/kernel.c core/base/kernel.h core/base/news.h \
	core/base/launch_variables.c core/base/launch_variables.h core/base/log.c core/base/log.h \
	core/base/process_end.c core/base/process_end.h core/base/process_signal.h core/base/process_stat.c core/base/process_stat.h core/base/rank_list.c core/base/rank_list.h core/base/round_up.h core/base/status.c core/base/status.h \
	core/base/identity.c core/base/identity.h core/base/secret.c core/base/secret.h core/base/stack.c core/base/stack.h \
	core/base/tree_shape.c core/base/tree_shape.h core/base/ulimit.c core/base/ulimit.h
core_libbase_la_SOURCES += core/options/bind.c core/options/bind.h core/options/nearest.c core/options/nearest.h core/options/config.c core/options/config.h core/options/horovod.c core/options/horovod.h \
	core/options/nic_filter.c core/options/nic_filter.h core/options/option.c core/options/option.h \
	core/options/option_type.c core/options/option_type.h core/options/parse.c core/options/parse.h \
	core/options/resource_set.c core/options/resource_set.h core/options/node_address.c core/options/node_address.h core/options/node_list.c core/options/node_list.h core/options/slurm_step.c core/options/slurm_step.h core/options/token.h core/options/tuned_settings.h

# ---- libconfig: the options in force, with those of a YAML file; for programs, because the plug-in opens no file ----
noinst_LTLIBRARIES += core/libconfig.la
core_libconfig_la_SOURCES = core/options/config_file.c
core_libconfig_la_CFLAGS = $(AM_CFLAGS) $(YAML_CFLAGS)
core_libconfig_la_LIBADD = $(YAML_LIBS)

# ---- libtopo: topo/, with hwloc if configure found it ----
noinst_LTLIBRARIES += core/libtopo.la
core_libtopo_la_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
core_libtopo_la_LIBADD = $(HWLOC_LIBS)
core_libtopo_la_SOURCES = core/topo/apply.c core/topo/apply.h core/topo/bitmap.c core/topo/bitmap.h core/topo/erf.h core/topo/erf_read.c \
	core/topo/erf_state.h core/topo/erf_tasks.c core/topo/erf_write.c core/topo/file.c core/topo/file.h \
	core/topo/machine.c core/topo/machine.h core/topo/nic.c core/topo/nic.h core/topo/nic_env.c core/topo/nic_env.h \
	core/topo/nic_live.c core/topo/nic_node.c core/topo/node_placement.c core/topo/node_placement.h core/topo/path.c \
	core/topo/path.h core/topo/sys_file.c core/topo/sys_file.h core/topo/visible_gpus.c core/topo/visible_gpus.h core/topo/plan/plan.c core/topo/plan/plan.h \
	core/topo/plan/plan_cores.c core/topo/plan/plan_gpus.c core/topo/plan/plan_groups.c core/topo/plan/plan_groups.h \
	core/topo/plan/plan_nics.c core/topo/plan/plan_reasons.c core/topo/plan/plan_sets.c core/topo/plan/plan_share.c \
	core/topo/plan/plan_state.h core/topo/plan/plan_task.c core/topo/plan/plan_units.c
if HAVE_HWLOC
core_libtopo_la_SOURCES += core/topo/machine_load.c core/topo/forked_call.c core/topo/forked_call.h core/topo/machine_devices.c core/topo/machine_live.c \
	core/topo/machine_hwloc.c core/topo/machine_hwloc.h
else
core_libtopo_la_SOURCES += core/topo/machine_none.c
endif

# ---- libgpu: cuda/, what needs CUDA's driver library, which it opens at run time ----
noinst_LTLIBRARIES += core/libgpu.la
core_libgpu_la_SOURCES = core/cuda/device.c core/cuda/device.h core/cuda/driver.c core/cuda/driver.h core/cuda/driver_abi.h \
	core/cuda/driver_calls.h core/cuda/driver_loaded.c core/cuda/pack.c core/cuda/pack.h core/cuda/pack_image.h \
	core/cuda/pack_kernel.h core/cuda/pack_table.c core/cuda/pack_table.h core/cuda/pointer_device.c core/cuda/pointer_device.h
nodist_core_libgpu_la_SOURCES = core/cuda/pack_image.c
if HAVE_NVCC
PACK_COMPILE = $(NVCC) -fatbin $(NVCC_GPUS) -I$(top_srcdir)/core -o $@ $(srcdir)/core/cuda/pack.cu
else
PACK_COMPILE = printf '.version 7.0\n.target sm_80\n.address_size 64\n' >$@
endif
# config.h says with which nvcc
core/cuda/pack.fatbin: core/cuda/pack.cu core/cuda/pack_kernel.h core/base/dtype.h core/base/narrow.h core/hvd.h config.h
	$(AM_V_GEN)$(MKDIR_P) core/cuda && $(PACK_COMPILE)
core/cuda/pack_image.c: core/cuda/pack.fatbin
	$(AM_V_GEN){ echo '#include "cuda/pack_image.h"' && echo 'const unsigned char pack_image[] = {' && \
	  od -An -v -tu1 core/cuda/pack.fatbin | sed 's/[0-9][0-9]*/&,/g' && echo '0};'; } >$@.new && mv $@.new $@
CLEANFILES += core/cuda/pack.fatbin core/cuda/pack_image.c
EXTRA_DIST += core/cuda/pack.cu

# ---- libflight: the flight record, which ranks write and hvdrun reads ----
noinst_LTLIBRARIES += core/libflight.la
core_libflight_la_CFLAGS = $(AM_CFLAGS) $(LTO_CFLAGS)
core_libflight_la_SOURCES = core/trace/flight.c core/trace/flight.h core/trace/flight_memory.c \
	core/trace/flight_memory.h core/trace/flight_sums.c core/trace/flight_sums.h core/trace/sentence.c core/trace/sentence.h core/trace/state_words.c core/trace/state_words.h core/trace/strbuf.c core/trace/strbuf.h

# ---- libverdict: which rank of a job failed first, and why; for hvdrun and the plug-in ----
noinst_LTLIBRARIES += core/libverdict.la
core_libverdict_la_LIBADD = core/libflight.la
core_libverdict_la_SOURCES = core/verdict/signal_name.c core/verdict/signal_name.h core/verdict/verdict.c core/verdict/verdict.h core/verdict/rank_traces.c \
	core/verdict/rank_traces.h core/verdict/node_names.c core/verdict/node_names.h core/verdict/memory_events.c core/verdict/memory_events.h core/verdict/error_file.c \
	core/verdict/error_file.h core/verdict/end_codec.c core/verdict/end_codec.h core/verdict/failure_report.c core/verdict/failure_report.h \
	core/verdict/report_send.c

# ---- libsched: arithmetic and schedules, which all backends use; linked into the modules too ----
noinst_LTLIBRARIES += core/libsched.la
core_libsched_la_CFLAGS = $(AM_CFLAGS) $(LTO_CFLAGS)
core_libsched_la_LIBADD = core/libkernels_plain.la
core_libsched_la_SOURCES = core/backend/arith/kernels.h core/backend/arith/reduce.c \
	core/backend/arith/reduce.h core/backend/arith/target.c core/backend/sched/blocks.c core/backend/sched/blocks.h \
	core/backend/sched/bruck.c core/backend/sched/bruck.h core/backend/sched/chain.c core/backend/sched/chain.h \
	core/backend/sched/pairwise.c core/backend/sched/pairwise.h core/backend/spans.c core/backend/spans.h

# the loops over elements, compiled once for each target. -fno-trapping-math: no code reads floating-point exceptions, so
# the compiler may compute both sides of a condition. -ffp-contract=off: no fused multiply-add, so that machines with and
# without it give the same results. -Wno-pass-failed: clang may leave loops scalar, as under sanitizers, without a warning
KERNEL_CFLAGS = $(AM_CFLAGS) -fopenmp-simd -fno-trapping-math -ffp-contract=off -Wno-pass-failed
KERNEL_SOURCES = core/backend/arith/kernels.c core/backend/arith/kernels.h core/backend/arith/kernels_adasum.h \
	core/backend/arith/kernels_f16c.h core/backend/arith/kernels_integer.h core/backend/arith/kernels_loops.h core/backend/arith/kernels_narrow.h \
	core/backend/arith/kernels_real.h core/backend/arith/kernels_types.h
noinst_LTLIBRARIES += core/libkernels_plain.la
core_libkernels_plain_la_SOURCES = $(KERNEL_SOURCES)
core_libkernels_plain_la_CFLAGS = $(KERNEL_CFLAGS)
if TARGET_AVX2
noinst_LTLIBRARIES += core/libkernels_avx2.la
core_libkernels_avx2_la_SOURCES = $(KERNEL_SOURCES)
core_libkernels_avx2_la_CFLAGS = $(KERNEL_CFLAGS) -DTARGET=avx2 $(AVX2_CFLAGS)
core_libsched_la_LIBADD += core/libkernels_avx2.la
endif
if TARGET_AVX512
noinst_LTLIBRARIES += core/libkernels_avx512.la
core_libkernels_avx512_la_SOURCES = $(KERNEL_SOURCES)
core_libkernels_avx512_la_CFLAGS = $(KERNEL_CFLAGS) -DTARGET=avx512 $(AVX512_CFLAGS)
core_libsched_la_LIBADD += core/libkernels_avx512.la
endif

if HAVE_MPI
hvdmodule_LTLIBRARIES += core/backend_mpi.la
core_backend_mpi_la_SOURCES = core/backend/mpi/mpi.c
core_backend_mpi_la_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
core_backend_mpi_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -export-symbols-regex '^backend_mpi_module$$' $(HVD_RESOLVED)
core_backend_mpi_la_LIBADD = core/libsched.la core/libbase.la $(MPI_LIBS)
endif

# ---- libcore: all of libhvd except the public calls; also linked into unit tests, which test internal functions ----
noinst_LTLIBRARIES += core/libcore.la
core_libcore_la_CFLAGS = $(AM_CFLAGS) $(LTO_CFLAGS) $(SODIUM_CFLAGS) $(CRYPTO_CFLAGS)
core_libcore_la_LIBADD = core/libsched.la core/libflight.la core/libgpu.la core/libtopo.la core/libconfig.la core/libbase.la $(SODIUM_LIBS) $(CRYPTO_LIBS)
core_libcore_la_SOURCES = core/base/module.c core/base/module.h core/base/mpi_symbols.c core/base/mpi_symbols.h core/api/allocations.c core/api/allocations.h core/api/arguments.c \
	core/api/arguments.h
core_libcore_la_SOURCES += core/bootstrap/bootstrap.c core/bootstrap/bootstrap.h core/bootstrap/card_exchange.c core/bootstrap/card_exchange.h core/bootstrap/startup.c core/bootstrap/startup.h core/bootstrap/startup_leader.c core/bootstrap/startup_member.c core/bootstrap/startup_reunion.c core/bootstrap/startup_tree.c core/bootstrap/memory_budget.c \
	core/bootstrap/job_key.c core/bootstrap/job_key.h core/bootstrap/leader_exchange.c core/bootstrap/leader_exchange.h core/bootstrap/memory_budget.h core/bootstrap/nic_discovery.c core/bootstrap/nic_discovery.h \
	core/bootstrap/node_card.c core/bootstrap/node_card.h core/bootstrap/peer_exchange.c core/bootstrap/peer_exchange.h \
	core/bootstrap/peers_file.c core/bootstrap/peers_file.h core/bootstrap/peer_info.c core/bootstrap/peer_info.h core/bootstrap/placement.c core/bootstrap/placement.h core/bootstrap/rank_claim.c core/bootstrap/rank_claim.h \
	core/bootstrap/start_report.c core/bootstrap/start_report.h core/bootstrap/sub_job.c core/bootstrap/sub_job.h \
	core/bootstrap/wireup.h
core_libcore_la_SOURCES += core/auth/handshake.c core/auth/handshake.h core/auth/munge.c core/auth/munge.h core/auth/record.c core/auth/record.h \
	core/auth/secret_key.c core/auth/secret_key.h
core_libcore_la_SOURCES += core/net/address.c core/net/address.h core/net/connection.c core/net/connection.h core/net/accept.c core/net/accept.h \
	core/net/dial.c core/net/dial.h core/net/endpoint.c core/net/endpoint.h core/net/establishment.c core/net/establishment.h \
	core/net/establishment_state.h core/net/handshake_table.c core/net/handshake_table.h \
	core/net/env_export.c core/net/env_export.h core/net/frame.c core/net/frame.h core/net/network.c core/net/network.h \
	core/net/network_env.c core/net/network_env.h core/net/network_table.c core/net/nic_offer.c core/net/nic_offer.h \
	core/net/peer_table.c core/net/peer_table.h core/net/probe.c core/net/probe.h core/net/seal.c core/net/seal.h
core_libcore_la_SOURCES += core/p2p/arrivals.c core/p2p/channel.c core/p2p/channel.h core/p2p/connect.c core/p2p/direct.c core/p2p/matching.c \
	core/p2p/matching.h core/p2p/op_watch.c core/p2p/p2p.c core/p2p/p2p.h core/p2p/p2p_frame.c core/p2p/p2p_frame.h core/p2p/p2p_state.h \
	core/p2p/ring_pair.c core/p2p/ring_pair.h
core_libcore_la_SOURCES += core/node/arena.c core/node/arena.h core/node/attach.c core/node/attach.h \
	core/node/attach_leader.c core/node/attach_member.c core/node/byte_ring.c core/node/byte_ring.h core/node/cores.c \
	core/node/cores.h core/node/counters.h core/node/deputy.c core/node/deputy.h core/node/doorbell.c core/node/doorbell.h core/node/node.h core/node/node_memory.c \
	core/node/node_memory.h core/node/process_watch.c core/node/process_watch.h core/node/shared_file.c \
	core/node/shared_file.h core/node/slots.c core/node/slots.h core/node/outcome.c core/node/outcome.h core/node/windows.c \
	core/node/windows.h
core_libcore_la_SOURCES += core/control/control.h core/control/link.c core/control/link.h core/control/mailbox.c \
	core/control/mailbox.h core/control/tree.c core/control/tree.h core/control/tree_beat.c core/control/tree_end.c core/control/tree_state.h
core_libcore_la_SOURCES += core/elastic/commits.c core/elastic/commits.h core/elastic/part_list.c core/elastic/part_list.h \
	core/elastic/commit_file.c core/elastic/commit_file.h core/elastic/commit_folder.c core/elastic/commit_folder.h \
	core/elastic/commit_writer.c core/elastic/commit_writer.h
core_libcore_la_SOURCES += core/negotiate/decide.c core/negotiate/delivery.c core/negotiate/desc.c core/negotiate/desc.h core/negotiate/down.c \
	core/negotiate/eager.c core/negotiate/eager.h \
	core/negotiate/name_table.c core/negotiate/name_table.h core/negotiate/negotiate.c core/negotiate/negotiate.h core/negotiate/response_cache.c \
	core/negotiate/parent_watch.c core/negotiate/response_cache.h core/negotiate/stall_query.c core/negotiate/stall_report.h core/negotiate/stages.h core/negotiate/state.h \
	core/negotiate/submit.c \
	core/negotiate/subtree_sets.c core/negotiate/up.c core/negotiate/wire.c core/negotiate/wire.h \
	core/negotiate/wire_decode.c
core_libcore_la_SOURCES += core/flow/autotuner.c core/flow/autotuner.h core/flow/backend_choice.c \
	core/flow/backend_choice.h core/flow/failure.c core/flow/failure.h core/flow/finish.c core/flow/finish.h \
	core/flow/loop.c core/flow/loop.h core/flow/messages.c core/flow/messages.h core/flow/negotiation.c core/flow/negotiation.h core/flow/progress.c \
	core/flow/progress.h core/flow/request.c core/flow/request.h core/flow/set_change.c core/flow/set_change.h \
	core/flow/set_registry.c core/flow/set_registry.h core/flow/stall_inspector.c core/flow/stall_inspector.h core/flow/stall_watch.c core/flow/stall_watch.h \
	core/flow/tensor_queue.c core/flow/tensor_queue.h core/flow/trials.c core/flow/trials.h core/flow/gpu.c core/flow/gpu.h core/flow/gpu_blocks.c core/flow/gpu_nccl.c core/flow/gpu_queue.c core/flow/gpu_state.h core/flow/gpu_wait.c core/flow/gpu_memory.c core/flow/gpu_memory.h core/flow/gpu_memory_registry.h core/flow/host_block.c core/flow/host_block.h core/flow/message.h core/flow/message_direct.c core/flow/message_direct.h core/flow/message_pair.c core/flow/message_pair.h core/flow/message_staging.c core/flow/message_staging.h
core_libcore_la_SOURCES += core/flow/batch/adasum.c core/flow/batch/adasum.h core/flow/batch/batch.c \
	core/flow/batch/batch.h core/flow/batch/batch_queue.c core/flow/batch/batch_queue.h \
	core/flow/batch/communicator.c core/flow/batch/communicator.h core/flow/batch/direct.c core/flow/batch/eager_sum.c core/flow/batch/eager_sum.h \
	core/flow/batch/direct.h core/flow/batch/direct_steps.c core/flow/batch/direct_steps.h \
	core/flow/batch/form.c core/flow/batch/form.h core/flow/batch/fuse.c \
	core/flow/batch/fuse.h core/flow/batch/host_steps.c core/flow/batch/host_steps.h core/flow/batch/layout.c \
	core/flow/batch/layout.h core/flow/batch/persistent.c core/flow/batch/persistent.h \
	core/flow/batch/row_counts.c core/flow/batch/row_counts.h core/flow/batch/run.c core/flow/batch/run.h \
	core/flow/batch/staging.c core/flow/batch/staging.h
core_libcore_la_SOURCES += core/backend/backend.h core/backend/backend_env.h core/backend/backends.c core/backend/backends.h \
	core/backend/local.c core/backend/range.h core/backend/table.c core/backend/team.c core/backend/team.h
core_libcore_la_SOURCES += core/backend/shm/shm.c core/backend/shm/shm.h core/backend/shm/shm_batch.c core/backend/shm/shm_direct.c \
	core/backend/shm/shm_direct.h core/backend/shm/shm_pipeline.c core/backend/shm/shm_segments.c \
	core/backend/shm/shm_team.h core/backend/shm/store_policy.c core/backend/shm/store_policy.h
core_libcore_la_SOURCES += core/backend/tcp/fragment.c core/backend/tcp/fragment.h core/backend/tcp/tcp.c \
	core/backend/tcp/tcp_bruck.c core/backend/tcp/tcp_bruck.h core/backend/tcp/tcp_connect.c core/backend/tcp/tcp_connect.h core/backend/tcp/tcp_watch.c core/backend/tcp/tcp_watch.h core/backend/tcp/tcp_chain.c core/backend/tcp/tcp_chain.h core/backend/tcp/tcp_failure.h \
	core/backend/tcp/tcp_pairwise.c core/backend/tcp/tcp_pairwise.h
core_libcore_la_SOURCES += core/backend/nccl/nccl.h core/backend/nccl/nccl_abi.h core/backend/nccl/nccl_calls.h \
	core/backend/nccl/nccl_cards.c core/backend/nccl/nccl_choice.c core/backend/nccl/nccl_library.c core/backend/nccl/nccl_memory.c \
	core/backend/nccl/nccl_put.c core/backend/nccl/nccl_search.c core/backend/nccl/nccl_team.c core/backend/nccl/nccl_team.h
core_libcore_la_SOURCES += core/backend/mpi/mpi_choice.c core/backend/mpi/mpi_choice.h core/backend/mpi/mpi_stub.c core/backend/mpi/start_watch.c core/backend/mpi/start_watch.h
core_libcore_la_SOURCES += core/backend/hier/hier.c core/backend/hier/hier_alltoall.c \
	core/backend/hier/hier_alltoall.h core/backend/hier/hier_node.c core/backend/hier/hier_node.h \
	core/backend/hier/hier_split.c core/backend/hier/hier_split.h core/backend/hier/hier_team.c \
	core/backend/hier/hier_team.h
core_libcore_la_SOURCES += core/trace/clock_offset.c core/trace/clock_offset.h core/trace/crash.c core/trace/crash.h \
	core/trace/flight_file.c core/trace/flight_file.h core/trace/signals.c core/trace/signals.h \
	core/trace/stop.c core/trace/stop.h core/trace/timeline.c core/trace/timeline.h core/trace/trace.c \
	core/trace/trace.h

# ---- libapi: the public calls; also linked into hvdinfo ----
noinst_LTLIBRARIES += core/libapi.la
core_libapi_la_CFLAGS = $(AM_CFLAGS) $(LTO_CFLAGS)
core_libapi_la_SOURCES = core/api/clocks.c core/api/clocks.h core/api/collectives.c \
	core/api/context.c core/api/context.h core/api/elastic.c core/api/hvd.c core/api/messages.c core/api/observe.c core/api/operation.c core/api/operation.h \
	core/api/plugin_check.c core/api/plugin_check.h core/api/process_sets.c core/api/process_sets.h core/api/set_meeting.c core/api/set_meeting.h core/api/start_notice.c core/api/start_notice.h core/api/task_report.c core/api/task_report.h core/api/state_disk.c core/api/state_disk.h \
	core/api/state_memory.c core/api/state_memory.h core/api/states.c core/api/states.h
core_libapi_la_SOURCES += core/verdict/end_codec.c core/verdict/failure_report.c core/verdict/report_send.c

# ---- libhvd: both ----
lib_LTLIBRARIES += core/libhvd.la
core_libhvd_la_SOURCES =
core_libhvd_la_CFLAGS = $(AM_CFLAGS) $(LTO_CFLAGS)
core_libhvd_la_LIBADD = core/libapi.la core/libcore.la
core_libhvd_la_LDFLAGS = $(HVD_LDFLAGS) $(LTO_LDFLAGS) -version-info $(HVD_LT_VERSION) -Wl,-z,nodelete -export-symbols-regex '^hvd_' $(HVD_RESOLVED)
