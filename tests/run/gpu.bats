#!/usr/bin/env bats
# gpu.bats: tensors on GPUs, over the double of CUDA's driver in tests/double: real ranks and libhvd, and no GPU.

bats_require_minimum_version 1.5.0

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    double=$HVD_BUILD/tests/double/cuda/.libs
    [ -x "$hvdrun" ] || skip 'hvdrun is not built: it needs PMIx'
    [ -e "$double/libcuda.so.1" ] || skip 'the double of libcuda is not built: it needs cuda.h and nvcc'
}

# ranks N PROGRAM...: run it on N ranks with the double, which must exit with 0
ranks() {
    local count=$1
    shift
    run timeout -k 5 100 env LD_LIBRARY_PATH="$double:$LD_LIBRARY_PATH" "$hvdrun" --no-prefix -n "$count" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "random operations on tensors in device memory, through the host" {
    export PROPERTY_GPU=1
    ranks 1 "$HVD_BUILD/tests/run/property" 1 100 1
    ranks 2 "$HVD_BUILD/tests/run/property" 2 100 2
    ranks 4 "$HVD_BUILD/tests/run/property" 4 60 4
}

@test "a stream waits for an operation, and the host does not" {
    ranks 2 "$HVD_BUILD/tests/run/gpu" streams
}

@test "host memory on one rank and a GPU on another is a mismatch that names both" {
    ranks 3 "$HVD_BUILD/tests/run/gpu" mismatch
}

@test "a second GPU, results from malloc and tensors half on the GPU are refused" {
    ranks 2 "$HVD_BUILD/tests/run/gpu" refused
}

@test "ranks that have joined take part with zeros, without a GPU" {
    ranks 3 "$HVD_BUILD/tests/run/gpu" join
}
