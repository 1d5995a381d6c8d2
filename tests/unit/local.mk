# Unit tests: one file per source file that has logic. UNIT_TESTS is the list.
UNIT_TESTS =
UNIT_LIBS = core/libcore.la $(CHECK_LIBS)
AM_CPPFLAGS += $(CHECK_CFLAGS)
noinst_HEADERS += tests/unit/unit.h

UNIT_TESTS += tests/unit/test_parse
tests_unit_test_parse_LDADD = $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_option
tests_unit_test_option_LDADD = $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_shape
tests_unit_test_shape_LDADD = $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_local
tests_unit_test_local_LDADD = $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_wire
tests_unit_test_wire_LDADD = $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_negotiate
tests_unit_test_negotiate_LDADD = $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_fuse
tests_unit_test_fuse_LDADD = $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_queue
tests_unit_test_queue_LDADD = $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_batch
tests_unit_test_batch_LDADD = $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_config
tests_unit_test_config_LDADD = $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_frame
tests_unit_test_frame_LDADD = $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_ring
tests_unit_test_ring_LDADD = $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_spank_srun
tests_unit_test_spank_srun_LDADD = spank/libsite.la $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_spank_site
tests_unit_test_spank_site_LDADD = spank/libsite.la $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_spank_step
tests_unit_test_spank_step_LDADD = $(SPANK_STEP_LIBS) $(UNIT_LIBS)
noinst_HEADERS += tests/unit/team.h
UNIT_TESTS += tests/unit/test_tree
tests_unit_test_tree_LDADD = $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_meet
tests_unit_test_meet_LDADD = $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_provide
tests_unit_test_provide_LDADD = $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_store
tests_unit_test_store_LDADD = $(UNIT_LIBS)
UNIT_TESTS += tests/unit/test_env_channel
tests_unit_test_env_channel_LDADD = $(UNIT_LIBS)

if TESTS_ENABLED
check_PROGRAMS += $(UNIT_TESTS)
TESTS += $(UNIT_TESTS)
endif
