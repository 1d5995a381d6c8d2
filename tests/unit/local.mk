# Unit tests: one file for each source file that has logic. UNIT_TESTS is the list.
UNIT_LIBS = core/libcore.la $(CHECK_LIBS) -lm
# for tests that do not name others
LDADD = $(UNIT_LIBS)
AM_CPPFLAGS += -I$(top_srcdir)/tests/unit $(CHECK_CFLAGS)
EXTRA_DIST += tests/data/topo
noinst_HEADERS += tests/unit/batches.h tests/unit/batch_driver.h tests/unit/waits.h tests/unit/descs.h tests/unit/elements.h tests/unit/narrowing.h \
	tests/unit/temp_folder.h tests/unit/negotiation_sim.h tests/unit/forked_job.h tests/unit/link_sim.h tests/unit/erf_format.h tests/unit/allocated_bytes.h tests/unit/made_nics.h tests/unit/open_descriptors.h tests/unit/recorded_machines.h tests/unit/mappings.h \
	tests/unit/endpoint_threads.h tests/unit/sleeping_thread.h tests/unit/traced_rank.h tests/unit/own_network.h tests/unit/random_schedule.h tests/unit/shm_world.h tests/unit/batch_world.h tests/unit/fake_slurm.h tests/unit/full_report.h tests/unit/reference_sums.h \
	tests/unit/forked_ranks.h tests/unit/node/attach_by_hand.h tests/unit/unit.h

UNIT_TESTS =
# what all folders use
UNIT_TESTS += tests/unit/base/test_drop_report tests/unit/base/test_listener tests/unit/options/test_node_address tests/unit/base/test_descriptors tests/unit/base/test_stack tests/unit/base/test_module tests/unit/base/test_ulimit
# settings, and how ranks start and find each other
UNIT_TESTS += tests/unit/p2p/test_matching tests/unit/p2p/test_p2p tests/unit/p2p/test_p2p_frame tests/unit/p2p/test_ring_pair tests/unit/net/test_establishment tests/unit/net/test_establishment_steps tests/unit/net/test_accept tests/unit/net/test_connection
UNIT_TESTS += tests/unit/options/test_parse tests/unit/options/test_node_list tests/unit/options/test_option tests/unit/options/test_config tests/unit/options/test_horovod tests/unit/base/test_tree_shape \
	tests/unit/control/test_mailbox tests/unit/pmix_shim/test_secure_channel tests/unit/pmix_shim/test_provider tests/unit/pmix_shim/test_store tests/unit/pmix_shim/test_timed_call tests/unit/pmix_shim/test_env_fence tests/unit/pmix_shim/test_node_ranks tests/unit/pmix_shim/test_pmi \
	tests/unit/net/test_address tests/unit/bootstrap/test_peer_info tests/unit/net/test_peer_table tests/unit/auth/test_handshake tests/unit/options/test_nearest tests/unit/base/test_secret tests/unit/bootstrap/test_job_key tests/unit/bootstrap/test_memory_budget tests/unit/bootstrap/test_start_scale tests/unit/bootstrap/test_node_card tests/unit/bootstrap/test_card_exchange \
	tests/unit/bootstrap/test_join tests/unit/bootstrap/test_nic_discovery tests/unit/net/test_probe tests/unit/node/test_attach tests/unit/node/test_attach_refusal tests/unit/node/test_doorbell tests/unit/node/test_deputy tests/unit/node/test_outcome tests/unit/bootstrap/test_sub_job \
	tests/unit/base/test_rank_list tests/unit/base/test_process_signal tests/unit/base/test_fd_passing tests/unit/base/test_packet tests/unit/base/test_kernel tests/unit/net/test_frame tests/unit/net/test_seal tests/unit/control/test_link tests/unit/control/test_tree tests/unit/control/test_tree_wake tests/unit/net/test_dial \
	tests/unit/node/test_process_watch tests/unit/node/test_cores tests/unit/net/test_network tests/unit/topo/test_nic_env \
	tests/unit/topo/test_nic_node tests/unit/net/test_env_export
# memory that ranks of a node share
UNIT_TESTS += tests/unit/node/test_arena tests/unit/node/test_windows tests/unit/api/test_allocations tests/unit/node/test_byte_ring
# negotiation
UNIT_TESTS += tests/unit/negotiate/test_wire tests/unit/negotiate/test_desc tests/unit/negotiate/test_response_cache tests/unit/negotiate/test_negotiate tests/unit/negotiate/test_negotiate_random \
	tests/unit/negotiate/test_stall_query tests/unit/negotiate/test_eager tests/unit/flow/test_autotune tests/unit/flow/test_fuse tests/unit/flow/test_set_registry tests/unit/flow/test_tensor_queue \
	tests/unit/flow/test_progress tests/unit/flow/test_stall_inspector tests/unit/flow/test_stall_watch tests/unit/flow/test_batch tests/unit/flow/test_batch_queue tests/unit/flow/test_eager_sum tests/unit/flow/test_finish tests/unit/flow/test_failure tests/unit/flow/test_backend_choice tests/unit/flow/test_row_counts tests/unit/flow/test_staging tests/unit/api/test_arguments tests/unit/trace/test_stop
# traces
UNIT_TESTS += tests/unit/trace/test_clock_offset tests/unit/trace/test_strbuf tests/unit/trace/test_flight_memory tests/unit/trace/test_flight_sums tests/unit/trace/test_trace
# the path of tensors
UNIT_TESTS += tests/unit/base/test_dtype tests/unit/backend/test_reduce tests/unit/backend/test_half tests/unit/backend/test_float8 tests/unit/backend/test_kernels \
	tests/unit/backend/test_adasum tests/unit/flow/test_adasum_levels tests/unit/backend/test_spans tests/unit/base/test_cpu tests/unit/base/test_clock \
	tests/unit/backend/test_store_policy
# backends
UNIT_TESTS += tests/unit/backend/test_backends tests/unit/backend/test_local tests/unit/node/test_slots tests/unit/backend/test_shm \
	tests/unit/backend/test_shm_direct tests/unit/backend/test_chain tests/unit/backend/test_blocks \
	tests/unit/backend/test_pairwise tests/unit/backend/test_bruck tests/unit/backend/test_tcp_bruck tests/unit/backend/test_tcp_pairwise tests/unit/backend/test_tcp_chain \
	tests/unit/backend/test_tcp tests/unit/backend/test_hier_split tests/unit/backend/test_hier tests/unit/backend/test_mpi_choice tests/unit/backend/test_start_watch \
	tests/unit/backend/test_nccl_choice
# GPUs
UNIT_TESTS += tests/unit/cuda/test_abi tests/unit/cuda/test_pack_kernel
tests_unit_cuda_test_abi_CFLAGS = $(AM_CFLAGS) $(CUDA_CFLAGS)
noinst_HEADERS += tests/unit/cuda/cuda_double.h tests/unit/cuda/pack_samples.h
if HAVE_CUDA
# these open the double of libcuda
UNIT_TESTS += tests/unit/cuda/test_driver tests/unit/cuda/test_pack tests/unit/cuda/test_gpu tests/unit/flow/test_gpu_find \
	tests/unit/flow/test_gpu_open tests/unit/flow/test_host_block tests/unit/flow/test_message_staging
EXTRA_tests_unit_flow_test_gpu_find_DEPENDENCIES = tests/double/cuda/libcuda.la
EXTRA_tests_unit_flow_test_gpu_open_DEPENDENCIES = tests/double/cuda/libcuda.la
EXTRA_tests_unit_flow_test_host_block_DEPENDENCIES = tests/double/cuda/libcuda.la
EXTRA_tests_unit_flow_test_message_staging_DEPENDENCIES = tests/double/cuda/libcuda.la
EXTRA_tests_unit_cuda_test_gpu_DEPENDENCIES = tests/double/cuda/libcuda.la
EXTRA_tests_unit_cuda_test_driver_DEPENDENCIES = tests/double/cuda/libcuda.la
EXTRA_tests_unit_cuda_test_pack_DEPENDENCIES = tests/double/cuda/libcuda.la
endif
if HAVE_NCCL
UNIT_TESTS += tests/unit/cuda/test_nccl_double tests/unit/backend/test_nccl_search
EXTRA_tests_unit_backend_test_nccl_search_DEPENDENCIES = tests/double/nccl/libnccl.la tests/double/nccl/libnccl218.la
EXTRA_tests_unit_cuda_test_nccl_double_DEPENDENCIES = tests/double/cuda/libcuda.la tests/double/nccl/libnccl.la
endif
# placement
UNIT_TESTS += tests/unit/topo/test_bitmap tests/unit/options/test_bind tests/unit/options/test_nic_filter tests/unit/options/test_resource_set \
	tests/unit/topo/test_apply tests/unit/topo/test_nic tests/unit/topo/test_visible_gpus
# the plug-in
UNIT_TESTS += tests/unit/spank/test_srun tests/unit/spank/test_site tests/unit/spank/test_step \
	tests/unit/spank/test_task_network tests/unit/spank/test_task_place tests/unit/spank/test_placement \
	tests/unit/spank/test_failure
# elastic jobs
UNIT_TESTS += tests/unit/elastic/test_epoch_driver tests/unit/elastic/test_commits tests/unit/elastic/test_part_list \
	tests/unit/elastic/test_commit_file tests/unit/elastic/test_commit_folder tests/unit/elastic/test_commit_writer tests/unit/api/test_elastic
tests_unit_api_test_elastic_LDADD = core/libhvd.la $(CHECK_LIBS)
tests_unit_elastic_test_epoch_driver_LDADD = tools/libhvdrun.la $(UNIT_LIBS)
# which rank failed first
UNIT_TESTS += tests/unit/verdict/test_node_names tests/unit/verdict/test_verdict tests/unit/verdict/test_error_file tests/unit/verdict/test_failure_report tests/unit/verdict/test_rank_traces
tests_unit_verdict_test_verdict_LDADD = core/libverdict.la $(UNIT_LIBS)
tests_unit_verdict_test_node_names_LDADD = core/libverdict.la $(UNIT_LIBS)
tests_unit_verdict_test_failure_report_LDADD = core/libverdict.la $(UNIT_LIBS)
tests_unit_verdict_test_error_file_LDADD = core/libverdict.la $(UNIT_LIBS)
tests_unit_verdict_test_rank_traces_LDADD = core/libverdict.la $(UNIT_LIBS)
# tools
UNIT_TESTS += tests/unit/tools/test_hvdrun_options tests/unit/tools/test_rank_count tests/unit/tools/test_hvdrun_lines tests/unit/tools/test_hvdrun_cooldown \
	tests/unit/tools/test_hvdrun_launcher tests/unit/tools/test_hvdrun_hosts tests/unit/tools/test_hvdrun_line \
	tests/unit/tools/test_hvdrun_environment tests/unit/tools/test_hvdrun_process_tree tests/unit/tools/test_hvdrun_seats tests/unit/tools/test_hvdrun_agent \
	tests/unit/tools/test_hvdrun_scratch tests/unit/tools/test_hvdrun_traceback \
	tests/unit/tools/test_launch_events tests/unit/tools/test_line_sink \
	tests/unit/tools/test_hvdbench_cache_line tests/unit/tools/test_hvdbench_stats tests/unit/tools/test_hvdbench_model \
	tests/unit/tools/test_hvdbench_load tests/unit/tools/test_hvdbench_options \
	tests/unit/tools/test_doctor tests/unit/tools/test_option_reader tests/unit/tools/test_json tests/unit/tools/test_stragglers tests/unit/tools/test_ps_judge tests/unit/tools/test_ps_records tests/unit/tools/test_ps_pace \
	tests/unit/tools/test_ps_find
# the library as programs use it
UNIT_TESTS += tests/unit/api/test_api
if HAVE_HWLOC
UNIT_TESTS += tests/unit/topo/test_machine tests/unit/topo/test_machine_small tests/unit/topo/test_plan tests/unit/topo/test_plan_requests tests/unit/topo/test_plan_small \
	tests/unit/topo/test_plan_golden \
	tests/unit/topo/test_node_placement tests/unit/topo/test_erf tests/unit/topo/test_forked_call
tests_unit_topo_test_machine_small_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
tests_unit_topo_test_machine_small_LDADD = $(UNIT_LIBS) $(HWLOC_LIBS)
endif
if HAVE_JANSSON
UNIT_TESTS += tests/unit/trace/test_timeline
tests_unit_trace_test_timeline_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_trace_test_timeline_LDADD = $(JANSSON_LIBS) $(UNIT_LIBS)
endif

# links the public library only
tests_unit_api_test_api_LDADD = core/libhvd.la $(CHECK_LIBS)
# exports the functions of a mock MPI, because the test looks them up in its own program
tests_unit_backend_test_mpi_choice_LDFLAGS = $(AM_LDFLAGS) -export-dynamic

tests_unit_spank_test_srun_LDADD = spank/libsite.la $(UNIT_LIBS)
tests_unit_spank_test_site_LDADD = spank/libsite.la $(UNIT_LIBS)
tests_unit_spank_test_step_LDADD = $(SPANK_STEP_LIBS) $(UNIT_LIBS)
tests_unit_spank_test_task_network_LDADD = $(SPANK_STEP_LIBS) $(UNIT_LIBS)
tests_unit_spank_test_task_place_LDADD = $(SPANK_STEP_LIBS) $(UNIT_LIBS)
tests_unit_spank_test_placement_LDADD = $(SPANK_STEP_LIBS) $(UNIT_LIBS)
tests_unit_spank_test_failure_LDADD = $(SPANK_STEP_LIBS) $(UNIT_LIBS)
tests_unit_spank_test_failure_LDFLAGS = $(AM_LDFLAGS) -export-dynamic

HVDRUN_UNIT_LIBS = tools/libhvdrun.la core/libverdict.la core/libtopo.la core/libbase.la $(CHECK_LIBS)
tests_unit_tools_test_hvdrun_options_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_tools_test_rank_count_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_tools_test_hvdrun_launcher_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_tools_test_hvdrun_hosts_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_tools_test_hvdrun_seats_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_tools_test_hvdrun_agent_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_tools_test_hvdrun_line_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_tools_test_hvdrun_lines_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_tools_test_hvdrun_cooldown_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_tools_test_hvdrun_environment_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_tools_test_hvdrun_process_tree_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_tools_test_hvdrun_scratch_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_tools_test_hvdrun_traceback_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_tools_test_launch_events_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_tools_test_line_sink_LDADD = $(HVDRUN_UNIT_LIBS)

HVDBENCH_UNIT_LIBS = tools/libhvdbench.la $(UNIT_LIBS)
tests_unit_tools_test_hvdbench_cache_line_LDADD = $(HVDBENCH_UNIT_LIBS)
tests_unit_tools_test_hvdbench_stats_LDADD = $(HVDBENCH_UNIT_LIBS)
tests_unit_tools_test_hvdbench_model_LDADD = $(HVDBENCH_UNIT_LIBS)
tests_unit_tools_test_hvdbench_load_LDADD = $(HVDBENCH_UNIT_LIBS)
tests_unit_tools_test_hvdbench_options_LDADD = $(HVDBENCH_UNIT_LIBS)
tests_unit_tools_test_option_reader_LDADD = $(HVDBENCH_UNIT_LIBS)
tests_unit_tools_test_json_LDADD = tools/libjson.la $(UNIT_LIBS)
tests_unit_tools_test_doctor_LDADD = tools/libdoctor.la tools/libjson.la core/libapi.la $(UNIT_LIBS)
tests_unit_tools_test_stragglers_LDADD = tools/libstragglers.la $(UNIT_LIBS)
tests_unit_tools_test_ps_judge_LDADD = tools/libps.la tools/libjson.la $(UNIT_LIBS)
tests_unit_tools_test_ps_records_LDADD = tools/libps.la tools/libjson.la $(UNIT_LIBS)
tests_unit_tools_test_ps_pace_LDADD = tools/libps.la $(UNIT_LIBS)
tests_unit_tools_test_ps_find_LDADD = tools/libps.la $(UNIT_LIBS)

# tests of code without threads; they are slow under ThreadSanitizer, which cannot find anything in them
PURE_UNIT_TESTS = tests/unit/cuda/test_pack_kernel tests/unit/backend/test_adasum tests/unit/flow/test_adasum_levels tests/unit/backend/test_blocks tests/unit/backend/test_chain \
	tests/unit/backend/test_tcp_bruck tests/unit/negotiate/test_desc tests/unit/backend/test_bruck tests/unit/backend/test_pairwise tests/unit/backend/test_half tests/unit/backend/test_float8 \
	tests/unit/backend/test_hier_split tests/unit/backend/test_kernels tests/unit/backend/test_tcp_pairwise tests/unit/negotiate/test_negotiate tests/unit/topo/test_plan \
	tests/unit/backend/test_reduce tests/unit/backend/test_shm tests/unit/backend/test_tcp_chain \
	tests/unit/negotiate/test_negotiate_random tests/unit/base/test_tree_shape tests/unit/negotiate/test_stall_query tests/unit/negotiate/test_wire tests/unit/negotiate/test_eager
# what TSan looks at
THREADED_UNIT_TESTS = $(filter-out $(PURE_UNIT_TESTS),$(UNIT_TESTS))

if TESTS_ENABLED
check_PROGRAMS += $(UNIT_TESTS)
TESTS += $(UNIT_TESTS)
endif
