# python: the package hvd, over libhvd by ctypes. make install puts it where the Python of configure looks; pip install
# ./python takes it anywhere else.
PYTHON_PACKAGE = python/hvd/__init__.py python/hvd/_abi.py python/hvd/_arrays.py \
	python/hvd/_buckets.py python/hvd/_calls.py python/hvd/_commits.py python/hvd/_flight.py python/hvd/_hosts.py python/hvd/_job.py \
	python/hvd/_library.py python/hvd/_memory.py python/hvd/_messages.py python/hvd/_names.py python/hvd/_objects.py python/hvd/_operations.py \
	python/hvd/_device.py python/hvd/_persistent.py python/hvd/_plans.py python/hvd/_programs.py python/hvd/_room.py python/hvd/_worker.py python/hvd/launch.py python/hvd/_launch_events.py \
	python/hvd/bench.py python/hvd/elastic.py python/hvd/errors.py \
	python/hvd/distributed.py python/hvd/_collectives.py python/hvd/_group.py python/hvd/_monitored.py python/hvd/_rendezvous.py python/hvd/_stated.py python/hvd/_untraced.py python/hvd/_work.py
PYTHON_TORCH = python/hvd/torch/__init__.py python/hvd/torch/_gradient.py python/hvd/torch/_reducer.py \
	python/hvd/torch/_window.py python/hvd/torch/compression.py python/hvd/torch/functions.py \
	python/hvd/torch/mpi_ops.py python/hvd/torch/optimizer.py python/hvd/torch/sync_batch_norm.py
PYTHON_TORCH_ELASTIC = python/hvd/torch/elastic/__init__.py python/hvd/torch/elastic/constant_batch.py python/hvd/torch/elastic/sampler.py \
	python/hvd/torch/elastic/state.py
EXTRA_DIST += python/make_reference.py python/pyproject.toml python/build_wheel.py python/hvd_torch_backend/__init__.py \
	$(PYTHON_PACKAGE) $(PYTHON_TORCH) $(PYTHON_TORCH_ELASTIC)
docpythondir = $(docdir)/python
dist_docpython_DATA = python/REFERENCE.md
if HAVE_PYTHON
hvdpythondir = $(pythondir)/hvd
hvdpython_DATA = $(PYTHON_PACKAGE)
hvdpythontorchdir = $(pythondir)/hvd/torch
hvdpythontorch_DATA = $(PYTHON_TORCH)
hvdpythontorchelasticdir = $(pythondir)/hvd/torch/elastic
hvdpythontorchelastic_DATA = $(PYTHON_TORCH_ELASTIC)
nodist_hvdpython_DATA = python/_place.py
endif

# the names horovod and horovodrun, which pip or a package of their own installs: a distribution of its own, as Horovod itself may be there
EXTRA_DIST += python/compat/pyproject.toml python/compat/build_wheel.py python/compat/horovodrun python/compat/horovod/__init__.py \
	python/compat/horovod/common/__init__.py python/compat/horovod/common/elastic.py \
	python/compat/horovod/common/exceptions.py \
	python/compat/horovod/common/process_sets.py python/compat/horovod/common/util.py python/compat/horovod/runner/__init__.py \
	python/compat/horovod/runner/config_file.py python/compat/horovod/runner/elastic/__init__.py \
	python/compat/horovod/runner/elastic/worker.py \
	python/compat/horovod/runner/launch.py python/compat/horovod/torch/__init__.py

# where the installed package finds libhvd
python/_place.py: Makefile
	$(AM_V_GEN)$(MKDIR_P) python && printf '"""Written by make install."""\nLIBRARY_FOLDER = "%s"\nPROGRAM_FOLDER = "%s"\n' '$(libdir)' '$(bindir)' >$@
CLEANFILES += python/_place.py
