# tests: unit/ (Check, TAP), run/ (bats, programs on this machine), cluster/ (bats, a real Slurm cluster), fuzz/, chaos/,
# gpu/ (on a real GPU), bench/ (measurements for developers)
include tests/lint/local.mk
include tests/unit/local.mk
include tests/double/local.mk
include tests/run/local.mk
include tests/python/local.mk
include tests/gpu/local.mk
include tests/chaos/local.mk
include tests/fuzz/local.mk
include tests/cluster/local.mk
include tests/bench/local.mk

# one: runs the unit tests of one source file. break: breaks core at random places and prints what no unit test notices
dist_noinst_SCRIPTS += tests/one tests/break
