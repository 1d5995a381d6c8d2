# Unit tests: one file per source file that has logic. UNIT_TESTS is the list.
UNIT_LIBS = core/libcore.la $(CHECK_LIBS) -lm
# of those that name nothing else
LDADD = $(UNIT_LIBS)
AM_CPPFLAGS += $(CHECK_CFLAGS)
EXTRA_DIST += tests/data/topo
noinst_HEADERS += tests/unit/batches.h tests/unit/carriers.h tests/unit/descs.h tests/unit/elements.h \
	tests/unit/folder.h tests/unit/game.h tests/unit/job.h tests/unit/links.h tests/unit/machines.h tests/unit/mappings.h \
	tests/unit/members.h tests/unit/schedule.h tests/unit/seats.h tests/unit/sides.h tests/unit/slurm.h tests/unit/sums.h \
	tests/unit/team.h tests/unit/unit.h

UNIT_TESTS =
# settings, and how ranks start and find each other
UNIT_TESTS += tests/unit/test_parse tests/unit/test_option tests/unit/test_config tests/unit/test_shape \
	tests/unit/test_local tests/unit/test_env_channel tests/unit/test_provide tests/unit/test_store \
	tests/unit/test_address tests/unit/test_card tests/unit/test_roster tests/unit/test_handshake tests/unit/test_budget \
	tests/unit/test_join tests/unit/test_prove tests/unit/test_meet tests/unit/test_door tests/unit/test_part \
	tests/unit/test_ranks tests/unit/test_frame tests/unit/test_link tests/unit/test_tree tests/unit/test_endpoint \
	tests/unit/test_watch tests/unit/test_cores tests/unit/test_network tests/unit/test_nic_settings \
	tests/unit/test_nic_node tests/unit/test_exported
# memory that ranks of a node share
UNIT_TESTS += tests/unit/test_arena tests/unit/test_windows tests/unit/test_allocations tests/unit/test_ring
# what is ready on which rank
UNIT_TESTS += tests/unit/test_wire tests/unit/test_desc tests/unit/test_negotiate tests/unit/test_schedule \
	tests/unit/test_stall tests/unit/test_tune tests/unit/test_fuse tests/unit/test_teams tests/unit/test_queue \
	tests/unit/test_baton tests/unit/test_batch tests/unit/test_sizes tests/unit/test_ask tests/unit/test_stop
# what a job tells of itself
UNIT_TESTS += tests/unit/test_offset tests/unit/test_pad tests/unit/test_trace
# data
UNIT_TESTS += tests/unit/test_names tests/unit/test_reduce tests/unit/test_half tests/unit/test_kernels \
	tests/unit/test_adasum tests/unit/test_adasum_levels tests/unit/test_places tests/unit/test_past_cache \
	tests/unit/test_gait
# planes
UNIT_TESTS += tests/unit/test_set tests/unit/test_plane_local tests/unit/test_slots tests/unit/test_shm \
	tests/unit/test_shm_domains tests/unit/test_shm_direct tests/unit/test_chain tests/unit/test_blocks \
	tests/unit/test_exchange tests/unit/test_doubling tests/unit/test_chords tests/unit/test_mesh tests/unit/test_stream \
	tests/unit/test_tcp tests/unit/test_hier_cut tests/unit/test_hier tests/unit/test_mpi_choice
# placement
UNIT_TESTS += tests/unit/test_bitset tests/unit/test_bind tests/unit/test_nics tests/unit/test_resource_set \
	tests/unit/test_apply tests/unit/test_nic tests/unit/test_visible
# the plug-in
UNIT_TESTS += tests/unit/test_spank_srun tests/unit/test_spank_site tests/unit/test_spank_step \
	tests/unit/test_spank_nics tests/unit/test_spank_place
# tools
UNIT_TESTS += tests/unit/test_hvdrun_options tests/unit/test_rank_count tests/unit/test_hvdrun_lines \
	tests/unit/test_hvdrun_verdict tests/unit/test_hvdrun_environment tests/unit/test_hvdrun_tree \
	tests/unit/test_hvdbench_line tests/unit/test_hvdbench_stats tests/unit/test_hvdbench_model \
	tests/unit/test_hvdbench_load tests/unit/test_hvdbench_options tests/unit/test_hvdbench_bar \
	tests/unit/test_stragglers
# the library as programs see it
UNIT_TESTS += tests/unit/test_api
if HAVE_HWLOC
UNIT_TESTS += tests/unit/test_machine tests/unit/test_plan tests/unit/test_plan_requests tests/unit/test_plan_golden \
	tests/unit/test_place tests/unit/test_erf
endif
if HAVE_JANSSON
UNIT_TESTS += tests/unit/test_timeline
tests_unit_test_timeline_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_test_timeline_LDADD = $(JANSSON_LIBS) $(UNIT_LIBS)
endif

# the public library only
tests_unit_test_api_LDADD = core/libhvd.la $(CHECK_LIBS)
# a program that MPI's functions are looked for in
tests_unit_test_mpi_choice_LDFLAGS = $(AM_LDFLAGS) -export-dynamic

tests_unit_test_spank_srun_LDADD = spank/libsite.la $(UNIT_LIBS)
tests_unit_test_spank_site_LDADD = spank/libsite.la $(UNIT_LIBS)
tests_unit_test_spank_step_LDADD = $(SPANK_STEP_LIBS) $(UNIT_LIBS)
tests_unit_test_spank_nics_LDADD = $(SPANK_STEP_LIBS) $(UNIT_LIBS)
tests_unit_test_spank_place_LDADD = $(SPANK_STEP_LIBS) $(UNIT_LIBS)

HVDRUN_UNIT_LIBS = tools/libhvdrun.la $(CHECK_LIBS)
tests_unit_test_hvdrun_options_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_test_rank_count_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_test_hvdrun_lines_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_test_hvdrun_verdict_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_test_hvdrun_environment_LDADD = $(HVDRUN_UNIT_LIBS)
tests_unit_test_hvdrun_tree_LDADD = $(HVDRUN_UNIT_LIBS)

HVDBENCH_UNIT_LIBS = tools/libhvdbench.la $(UNIT_LIBS)
tests_unit_test_hvdbench_line_LDADD = $(HVDBENCH_UNIT_LIBS)
tests_unit_test_hvdbench_stats_LDADD = $(HVDBENCH_UNIT_LIBS)
tests_unit_test_hvdbench_model_LDADD = $(HVDBENCH_UNIT_LIBS)
tests_unit_test_hvdbench_load_LDADD = $(HVDBENCH_UNIT_LIBS)
tests_unit_test_hvdbench_options_LDADD = $(HVDBENCH_UNIT_LIBS)
tests_unit_test_hvdbench_bar_LDADD = $(HVDBENCH_UNIT_LIBS)
tests_unit_test_stragglers_LDADD = tools/libstragglers.la $(UNIT_LIBS)

# of code without threads, slow under ThreadSanitizer, which has nothing to see there
PURE_UNIT_TESTS = tests/unit/test_adasum tests/unit/test_adasum_levels tests/unit/test_blocks tests/unit/test_chain \
	tests/unit/test_chords tests/unit/test_desc tests/unit/test_doubling tests/unit/test_exchange tests/unit/test_half \
	tests/unit/test_hier_cut tests/unit/test_kernels tests/unit/test_mesh tests/unit/test_negotiate tests/unit/test_plan \
	tests/unit/test_reduce tests/unit/test_schedule tests/unit/test_shape tests/unit/test_stall tests/unit/test_wire

if TESTS_ENABLED
check_PROGRAMS += $(UNIT_TESTS)
TESTS += $(UNIT_TESTS)
endif
