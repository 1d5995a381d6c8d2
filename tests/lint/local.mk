# make lint: the gates of the house style
dist_noinst_SCRIPTS += tests/lint/lint tests/lint/includes
EXTRA_DIST += tests/lint/cppcheck.txt tests/lint/includes.map

lint: config.h $(dist_man_MANS) $(man_MANS)
	LINT_BUILD='$(abs_top_builddir)' LINT_MANS='$(dist_man_MANS) $(man_MANS)' \
	LINT_CFLAGS='$(DEFS) $(HVD_CFLAGS) -fopenmp-simd -I. -Icore -Itests/unit -I$(abs_top_builddir) $(CHECK_CFLAGS) $(SODIUM_CFLAGS) $(CRYPTO_CFLAGS) $(YAML_CFLAGS) $(PMIX_CFLAGS) $(HWLOC_CFLAGS) $(MPI_CFLAGS) $(CUDA_CFLAGS)' \
	bash $(srcdir)/tests/lint/lint
.PHONY: lint
