# programs that are built by make check and make bars, and not installed
BENCH_BUILT =
check_PROGRAMS += $(BENCH_BUILT)

# make bars: measures hvd's performance goals, and says which are met; BARS='--runs=1 --only=small' are its arguments
dist_noinst_SCRIPTS += tests/bench/bars.py tests/bench/test_bars.py
bars: all $(BENCH_BUILT)
	HVD_BUILD='$(abs_top_builddir)' $(PYTHON) $(srcdir)/tests/bench/bars.py $(BARS)
.PHONY: bars

# starts ranks on two nodes that are namespaces of one machine
dist_noinst_SCRIPTS += tests/bench/two-nodes

# asks a running job all the time
dist_noinst_SCRIPTS += tests/bench/asked

# measures MPI without hvd, to check hvdbench's measurements of MPI
if HAVE_MPI
BENCH_BUILT += tests/bench/hvdbench_plain
endif
tests_bench_hvdbench_plain_SOURCES = tests/bench/hvdbench_plain.c
tests_bench_hvdbench_plain_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
tests_bench_hvdbench_plain_LDADD = tools/libhvdbench.la $(MPI_LIBS)

# measures single parts of hvd by themselves; libcore gives it the negotiation and the kernels, libhvd the job of a timeline
BENCH_BUILT += tests/bench/parts
tests_bench_parts_SOURCES = tests/bench/parts.c tests/bench/parts.h tests/bench/trace.c tests/bench/kernels.c \
	tests/bench/negotiate.c tests/bench/simulation.c tests/bench/simulation.h tests/bench/pack.c tests/bench/split.c \
	tests/bench/epochs.c
tests_bench_parts_CFLAGS = $(AM_CFLAGS)
tests_bench_parts_LDADD = tools/libhvdrun.la tools/libbenchjob.la tools/libhvdbench.la core/libhvd.la

EXTRA_DIST += tests/bench/README.md
