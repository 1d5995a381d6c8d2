# make check-gpu: does hvd work on the GPU of this machine? tests/gpu/bundle makes a folder that asks the same elsewhere
dist_noinst_SCRIPTS += tests/gpu/gpu-check tests/gpu/bundle tests/gpu/ends tests/gpu/bare-root
if TESTS_ENABLED
check_PROGRAMS += tests/gpu/probe
endif
tests_gpu_probe_SOURCES = tests/gpu/probe.c
tests_gpu_probe_LDADD = core/libcore.la

# what its steps run; in tests/unit/cuda only where CUDA is not left out
CHECK_GPU = tests/gpu/probe tests/run/gpu tests/run/gpu_large tests/run/gpu_messages tests/run/gpu_persistent tests/run/gpu_alloc tests/run/property \
	tests/bench/parts
if HAVE_CUDA
CHECK_GPU += tests/unit/cuda/test_gpu
endif
# one after the other: `all` is a make of its own
gpu-programs: all
	@$(MAKE) $(AM_MAKEFLAGS) $(CHECK_GPU)
check-gpu: gpu-programs
	HVD_BUILD='$(abs_top_builddir)' HVD_SOURCE='$(abs_top_srcdir)' PYTHON='$(PYTHON)' \
	  bash $(srcdir)/tests/gpu/gpu-check --again --results=tests/gpu/results
.PHONY: gpu-programs check-gpu
