# tests/double: stand-ins for libraries that need hardware, for tests of what uses them
if TESTS_ENABLED
if HAVE_CUDA
check_LTLIBRARIES += tests/double/cuda/libcuda.la
endif
endif
# found in tests/double/cuda/.libs as libcuda.so.1; libtool makes a shared library only with -rpath
tests_double_cuda_libcuda_la_SOURCES = tests/double/cuda/capture.c tests/double/cuda/device.c tests/double/cuda/double.h \
	tests/double/cuda/inject.c tests/double/cuda/kernel.c tests/double/cuda/memory.c tests/double/cuda/stream.c \
	tests/double/fail.c tests/double/fail.h tests/double/report.c tests/double/report.h
# what threads have of their own lies beside their stacks: the C library frees other places for it where TSan cannot follow
DOUBLE_CFLAGS = -fvisibility=default -ftls-model=initial-exec
tests_double_cuda_libcuda_la_CFLAGS = $(AM_CFLAGS) $(DOUBLE_CFLAGS)
tests_double_cuda_libcuda_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 -rpath /nowhere -export-symbols-regex '^cu[A-Z]' $(HVD_RESOLVED)

if TESTS_ENABLED
if HAVE_NCCL
check_LTLIBRARIES += tests/double/nccl/libdouble.la tests/double/nccl/libnccl.la tests/double/nccl/libnccl218.la
endif
endif
tests_double_nccl_libdouble_la_SOURCES = tests/double/nccl/communicator.c tests/double/nccl/double.h \
	tests/double/nccl/operations.c tests/double/nccl/reduce.c tests/double/nccl/registration.c \
	tests/double/nccl/rules.c tests/double/nccl/split.c tests/double/nccl/work.c \
	tests/double/fail.c tests/double/fail.h tests/double/report.c tests/double/report.h
tests_double_nccl_libdouble_la_CFLAGS = $(AM_CFLAGS) $(DOUBLE_CFLAGS)
tests_double_nccl_libnccl_la_SOURCES =
tests_double_nccl_libnccl_la_LIBADD = tests/double/nccl/libdouble.la
tests_double_nccl_libnccl_la_LDFLAGS = $(AM_LDFLAGS) -version-info 2:0:0 -rpath /nowhere -export-symbols-regex '^nccl[A-Z]' $(HVD_RESOLVED)
# without what came after NCCL 2.18
tests_double_nccl_libnccl218_la_SOURCES =
tests_double_nccl_libnccl218_la_LIBADD = tests/double/nccl/libdouble.la
tests_double_nccl_libnccl218_la_LDFLAGS = $(AM_LDFLAGS) -version-info 2:0:0 -rpath /nowhere \
	-export-symbols-regex '^nccl(All|Broadcast|Comm[AFGIS]|CommDestroy|G|Re|Send)' $(HVD_RESOLVED)
