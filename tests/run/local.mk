# Programs run as a user runs them: one .bats file per program. Without bats each is skipped, and says so.
TEST_EXTENSIONS = .bats
BATS_LOG_DRIVER = $(LOG_DRIVER)
BATS_LOG_COMPILER = $(SHELL) $(top_srcdir)/tests/run/tap $(BATS)
dist_noinst_SCRIPTS += tests/run/tap

RUN_TESTS =

TESTS += $(RUN_TESTS)
EXTRA_DIST += $(RUN_TESTS)
