# Programs run as a user runs them: one .bats file per program. Without bats each is skipped, and says so.
TEST_EXTENSIONS = .bats
BATS_LOG_DRIVER = $(LOG_DRIVER)
BATS_LOG_COMPILER = $(SHELL) $(top_srcdir)/tests/run/tap $(BATS)
dist_noinst_SCRIPTS += tests/run/tap

RUN_TESTS =
RUN_TESTS += tests/run/hvdinfo.bats
RUN_TESTS += tests/run/wireup.bats
RUN_TESTS += tests/run/plane_mpi.bats

RUN_TESTS += tests/run/train.bats
RUN_TESTS += tests/run/manual.bats
RUN_TESTS += tests/run/plugin.bats
RUN_TESTS += tests/run/hvdrun.bats

TESTS += $(RUN_TESTS)
EXTRA_DIST += $(RUN_TESTS) tests/run/setup.bash

check_PROGRAMS += tests/run/wireup_probe
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
EXTRA_DIST += tests/run/plane_mpi.c
if HAVE_MPI
check_PROGRAMS += tests/run/plane_mpi tests/run/plane_mpi_linked
tests_run_plane_mpi_SOURCES = tests/run/plane_mpi.c
tests_run_plane_mpi_LDADD = core/libcore.la -lm
tests_run_plane_mpi_linked_SOURCES = tests/run/plane_mpi.c
tests_run_plane_mpi_linked_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS) -DHAVE_MPI_PROBE
tests_run_plane_mpi_linked_LDADD = core/libcore.la $(MPI_LIBS) -lm
endif
# hvdrun
EXTRA_DIST += tests/run/leaks.txt
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
