# Tests of the Python package: pytest on all ranks of a job at once, which tests/run/python.bats starts.
EXTRA_DIST += tests/python/conftest.py tests/python/test_abi.py tests/python/test_collectives.py tests/python/test_job.py
EXTRA_DIST += tests/python/test_torch.py tests/python/test_optimizer.py tests/python/test_distributed.py \
	tests/python/test_distributed_messages.py tests/python/test_distributed_recipes.py tests/python/test_distributed_stated.py tests/python/test_distributed_waits.py tests/python/test_distributed_whole.py \
	tests/python/test_devices.py tests/python/test_gpu.py tests/python/test_memory.py tests/python/test_messages.py tests/python/test_source.py tests/python/elastic_ddp.py tests/python/elastic_killed.py tests/python/elastic_launching.py tests/python/elastic_loop.py tests/python/elastic_torch.py tests/python/elastic_training.py tests/python/test_elastic.py \
	tests/python/horovod_digits.py tests/python/launching.py tests/python/test_names.py
# on a real GPU, by tests/gpu/gpu-check
EXTRA_DIST += tests/python/test_torch_gpu.py

# random programs, of which tests/run/random_programs.bats runs some
dist_noinst_SCRIPTS += tests/python/random_programs/run
EXTRA_DIST += tests/python/random_programs/__init__.py tests/python/random_programs/adasum.py tests/python/random_programs/cases.py
EXTRA_DIST += tests/python/random_programs/checks.py tests/python/random_programs/data_parallel.py
EXTRA_DIST += tests/python/random_programs/disorder.py tests/python/random_programs/elements.py tests/python/random_programs/embeddings.py
EXTRA_DIST += tests/python/random_programs/face_distributed.py tests/python/random_programs/face_numpy.py
EXTRA_DIST += tests/python/random_programs/face_torch.py tests/python/random_programs/gradients.py
EXTRA_DIST += tests/python/random_programs/layouts.py tests/python/random_programs/normalization.py
EXTRA_DIST += tests/python/random_programs/plan.py
EXTRA_DIST += tests/python/random_programs/reference.py
EXTRA_DIST += tests/python/random_programs/steps.py tests/python/random_programs/training.py
EXTRA_DIST += tests/python/random_programs/watchdog.py tests/python/random_programs/worker.py
EXTRA_DIST += tests/python/random_programs/world.py
