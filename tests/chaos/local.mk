# run: faults that a seed chooses, in jobs whose results are checked. elastic: the same in elastic jobs. abuse: strangers at the sockets of a job. soak: a job that runs for a while
check_PROGRAMS += tests/chaos/worker
tests_chaos_worker_SOURCES = tests/chaos/worker.c tests/run/op_plan.c tests/run/op_plan.h tests/run/perform.c tests/run/gpu_memory.c tests/run/perform.h
tests_chaos_worker_SOURCES += tests/run/reference.c tests/run/reference.h
tests_chaos_worker_LDADD = core/libhvd.la -lm
TESTS += tests/chaos/chaos.bats
EXTRA_DIST += tests/chaos/chaos.bats tests/chaos/case.py tests/chaos/isolation.py tests/chaos/job.py tests/chaos/judge.py tests/chaos/network.py tests/chaos/strike.py
EXTRA_DIST += tests/chaos/cases
dist_noinst_SCRIPTS += tests/chaos/run tests/chaos/elastic tests/chaos/abuse tests/chaos/soak
