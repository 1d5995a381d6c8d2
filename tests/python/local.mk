# Tests of the Python package: pytest on all ranks of a job at once, which tests/run/python.bats starts.
EXTRA_DIST += tests/python/conftest.py tests/python/test_abi.py tests/python/test_collectives.py tests/python/test_job.py
EXTRA_DIST += tests/python/test_torch.py tests/python/test_distributed.py \
	tests/python/test_devices.py tests/python/test_gpu.py tests/python/test_memory.py tests/python/test_source.py tests/python/horovod_digits.py tests/python/launching.py
