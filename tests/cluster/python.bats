#!/usr/bin/env bats
# python.bats: the Python package under srun on several nodes: its tests, and the examples.

# shellcheck disable=SC2030,SC2031 # run sets output and status in the test that reads them
bats_require_minimum_version 1.5.0
load helpers
load ../run/python

setup() {
    cluster_or_skip
    need_python numpy torch pytest
    export HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs HVD_BUILD HVD_SOURCE
    export PYTHONPATH=$HVD_SOURCE/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
}

@test "the calls of hvd, hvd.torch and the backend of torch.distributed on two nodes" {
    run srun_in 150 -N2 -n4 --hvd-start-timeout=100s "$PYTHON" -m pytest -q -x --tb=short --color=no -p no:cacheprovider \
        --rootdir="$HVD_SOURCE/tests/python" "$HVD_SOURCE/tests/python/test_collectives.py" \
        "$HVD_SOURCE/tests/python/test_torch.py" "$HVD_SOURCE/tests/python/test_distributed.py"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^[0-9]* passed' <<<"$output")" -eq 4 ]
}

@test "srun --hvd-fusion=64M python3 train_torch.py learns" {
    run srun_in 100 -N2 -n4 --hvd-fusion=64M "$PYTHON" "$HVD_SOURCE/examples/train_torch.py" --epochs=4
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output =~ done\ loss=[0-9.]+\ accuracy=(0\.[0-9]+)\ ranks=4 ]]
    awk -v accuracy="${BASH_REMATCH[1]}" 'BEGIN { exit !(accuracy >= 0.93) }'
}
