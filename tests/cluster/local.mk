# Tests on a real Slurm cluster. Each file starts its own cluster in namespaces, so that files may run at the same time.
# make check runs them too; make check-cluster runs only them. Without root, Slurm or the plug-in every case is skipped
# with a reason.
CLUSTER_TESTS = tests/cluster/cluster.bats
CLUSTER_TESTS += tests/cluster/spank.bats
CLUSTER_TESTS += tests/cluster/places.bats
CLUSTER_TESTS += tests/cluster/steps.bats
CLUSTER_TESTS += tests/cluster/place.bats
CLUSTER_TESTS += tests/cluster/failures.bats tests/cluster/wrong_node.bats
CLUSTER_TESTS += tests/cluster/job.bats tests/cluster/launch.bats
CLUSTER_TESTS += tests/cluster/network.bats tests/cluster/ipv6.bats tests/cluster/administrators.bats
CLUSTER_TESTS += tests/cluster/hier.bats tests/cluster/elastic.bats tests/cluster/agents.bats
CLUSTER_TESTS += tests/cluster/python.bats
CLUSTER_TESTS += tests/cluster/trust.bats
CLUSTER_TESTS += tests/cluster/nested.bats
CLUSTER_TESTS += tests/cluster/ask.bats
CLUSTER_TESTS += tests/cluster/chaos.bats
# the Debian package of the plug-in, by dpkg, while Slurm runs
CLUSTER_TESTS += tests/package/life.bats

# the plug-in of another version
if HAVE_SLURM
check_LTLIBRARIES += tests/cluster/spank_hvd_other.la
endif
tests_cluster_spank_hvd_other_la_SOURCES = spank/plugin.c tests/cluster/other_version.c
tests_cluster_spank_hvd_other_la_LIBADD = spank/libstep.la
tests_cluster_spank_hvd_other_la_LDFLAGS = $(spank_spank_hvd_la_LDFLAGS) -rpath /nowhere -Wl,--wrap=failure_report_encode

dist_noinst_SCRIPTS += tests/cluster/cluster.sh tests/cluster/srun_times.sh
EXTRA_DIST += $(CLUSTER_TESTS) tests/cluster/helpers.bash
TESTS += $(CLUSTER_TESTS)

check-cluster:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(CLUSTER_TESTS)'
.PHONY: check-cluster
