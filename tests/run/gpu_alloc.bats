#!/usr/bin/env bats
# gpu_alloc.bats: memory of hvd_alloc_on, over the doubles of CUDA's driver and of NCCL: real ranks and libhvd, and no
# GPU. The double of NCCL complains where one rank passes memory that it has registered and another does not.

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    double=$HVD_BUILD/tests/double/cuda/.libs
    nccl=$HVD_BUILD/tests/double/nccl/.libs/libnccl.so.2
    need_hvdrun
    [ -e "$double/libcuda.so.1" ] || skip 'hvd was configured --with-cuda=no'
    [ -e "$nccl" ] || skip 'the double of libnccl is not built: it needs nccl.h'
}

# alloc N CASE VARIABLE=VALUE...: N ranks with a GPU for each, of which rank 1 has these variables, do what the CASE
# promises; NCCL's double has no complaint, and no memory of a GPU is left
alloc() {
    local count=$1 case=$2
    shift 2
    # shellcheck disable=SC2016 # the ranks' shells expand it
    run timeout -k 5 100 env LD_LIBRARY_PATH="$double:$LD_LIBRARY_PATH" HVD_NCCL_LIBRARY="${HVD_NCCL_LIBRARY:-$nccl}" \
        GPU_OF_EACH=1 HVD_DOUBLE_NCCL_COUNTS=1 "$hvdrun" --no-prefix -n "$count" bash -c \
        'case=$1; program=$2; shift 2; [ "$LOCAL_RANK" != 1 ] || export "$@"; exec "$program" "$case"' \
        - "$case" "$HVD_BUILD/tests/run/gpu_alloc" "${@:-NONE=1}"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output != *'double of libnccl'* ]]
    [[ $output != *'were not freed'* ]]
}

# registered SIZE COUNT: so many ranks have a communicator of SIZE ranks that carried COUNT operations in registered
# memory
registered() {
    [ "$(grep -c "of $1: [0-9]* launches, $2 operations in registered memory" <<<"$output")" -eq "$1" ]
}

@test "tensors at the same offset in it are registered on all ranks" {
    alloc 3 same
    registered 3 11 # a reducescatter of uneven shares is three of NCCL's
    alloc 2 same
    registered 2 9
}

@test "it is ordinary memory where ranks differ" {
    alloc 3 apart
    registered 3 0
    alloc 3 elsewhere
    registered 3 0
}

@test "registered memory is not passed where one rank's NCCL did not register it" {
    alloc 3 same NCCL_LOCAL_REGISTER=0
    registered 3 0
    alloc 3 same HVD_DOUBLE_NCCL_FAIL=ncclCommRegister:2 # the first is that of the fusion buffer
    registered 3 0
    alloc 3 same HVD_DOUBLE_NCCL_FAIL=ncclMemAlloc:1
    registered 3 0
    alloc 3 same HVD_NCCL_LIBRARY="${nccl%/*}/libnccl218.so.2" # knows nothing of it
    registered 3 0
}

@test "registered memory is not passed where another rank passes other memory, or has joined" {
    alloc 3 mixed
    registered 3 5
    alloc 3 join
    registered 3 8
}

@test "tensors that lie end to end in it are not packed" {
    alloc 3 together HVD_DOUBLE_NCCL_FAIL=ncclMemAlloc:2 # the fusion buffer is not registered
    registered 3 4
}

@test "it is freed when NCCL has given it up, while the ranks go on" {
    alloc 3 freed
    registered 3 20
    alloc 2 returned
    registered 2 2
}

@test "each process set registers it" {
    alloc 3 sets
    registered 3 5
    [ "$(grep -c 'of 2: 3 launches, 3 operations in registered memory' <<<"$output")" -eq 2 ]
    [ "$(grep -c 'of 2: 1 launches, 1 operations in registered memory' <<<"$output")" -eq 2 ]
}

@test "it outlives communicators that are aborted, and the next job registers its own" {
    alloc 3 again HVD_DOUBLE_NCCL_FAIL=ncclAllReduce:4
    registered 3 1
    alloc 3 again HVD_DOUBLE_NCCL_FAIL=work:4
}

@test "to free it while an operation uses it ends the job with a sentence" {
    alloc 3 'too early'
}

@test "without NCCL it is memory of the GPU" {
    local case
    for case in same mixed together freed; do
        HVD_NCCL_LIBRARY=/none alloc 2 "$case"
        [[ $output != *'operations in registered memory'* ]]
    done
}

@test "ranks with one GPU go through the host" {
    local case
    for case in same mixed together; do
        alloc 2 "$case" LOCAL_RANK=0 # rank 1 takes the GPU of rank 0
        [[ $output != *'operations in registered memory'* ]]
    done
}

@test "wrong calls of hvd_alloc_on and hvd_free are told what is wrong" {
    alloc 2 refused
}
