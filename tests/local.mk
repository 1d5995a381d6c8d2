# tests: unit/ (Check, TAP), cluster/ (bats, a real Slurm cluster), fuzz/
include tests/unit/local.mk
