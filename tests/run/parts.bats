#!/usr/bin/env bats
# parts.bats: tests/bench/parts: every case, with the smallest possible load. Times are not tested.

bats_require_minimum_version 1.5.0

load bench

setup() {
    load setup
    hvdrun=$HVD_BUILD/bin/hvdrun hvdbench=$HVD_BUILD/tests/bench/parts model=$BATS_TEST_TMPDIR/model
    setup_bench
}

@test "trace: with and without a timeline, of which nothing is left" {
    bench 2 trace --model="$model" --rounds=2 --steps=2 --json
    [ "$(objects case tensors steps | xargs)" = "trace 3 2 trace 1000 2" ]
    positive off_us on_us on_per_off timeline_bytes
    bench 2 trace --model="$model" --rounds=1 --steps=1
    [ "$(grep -c '^  with a timeline ' <<<"$output")" -eq 2 ]
}

@test "what measures in one process refuses to be several" {
    need_hvdrun
    for case in negotiate epochs kernels; do
        run timeout -k 5 60 "$hvdrun" -n 2 --no-prefix "$hvdbench" $case
        [ "$status" -eq 1 ]
        has "parts $case measures in one process, but hvdrun started 2 of them, which slow each other down; start one"
    done
}

# Messages and bytes of 64, 1024 and 16384 ranks are counted; nothing is timed.
@test "negotiate: what ranks say and hear does not grow with their number" {
    local ranks first=
    for ranks in 64 1024 16384; do
        alone negotiate --ranks=$ranks --tensors=5 --rounds=2 --json
        [ "$status" -eq 0 ]
        [ "$(objects case ranks node_ranks tensors rounds)" = "negotiate $ranks 8 5 2" ]
        positive first_messages first_rank_us first_root_us root_bytes rank_us root_us one_bytes
        # a rank receives one message from each child and one from its parent, and sends as many
        objects messages received sent one_messages first_messages radix |
            awk '{ for (i = 1; i < NF; i++) if ($i > $NF + 1) { print "more than the radix and one: " $0; exit 1 } }'
        # a message passes up the tree and down again, without another exchange
        objects depth steps one_steps first_steps | awk '{ for (i = 2; i <= NF; i++) if ($i != 2 * $1) exit 1 }'
        first=${first:-$(objects first_root_bytes)}
        [ "$(objects first_root_bytes)" = "$first" ]
        echo "$ranks $(objects depth state_bytes)" >>"$BATS_TEST_TMPDIR/found"
    done
    # a level of the tree for every factor of eight in the number of nodes
    [ "$(cut -d' ' -f1,2 "$BATS_TEST_TMPDIR/found" | xargs)" = "64 2 1024 4 16384 5" ]
    awk 'NR == 1 { least = $3 } $3 > least * 1.1 { print "a rank of " $1 " keeps " $3; exit 1 }' "$BATS_TEST_TMPDIR/found"
    # a sanitizer's malloc does not count its memory
    ldd "$HVD_BUILD/bin/.libs/hvdbench" | grep -q 'lib[at]san' || positive state_bytes
}

@test "negotiate: a table of any ranks on any nodes" {
    alone negotiate --ranks=7 --node-ranks=3 --tensors=1 --rounds=1
    [ "$status" -eq 0 ]
    has "negotiate: 7 simulated ranks, 3 a node; 1 tensor, 1 round"
    has "the tree's radix is 4, its depth 2; each rank keeps "
    [[ "${lines[3]}" =~ ^\ *first\ round\ +4\ +4\ +4\  ]]
    # a node with more than 32 ranks has sub-leaders
    alone negotiate --ranks=100 --node-ranks=100 --tensors=1 --rounds=1 --json
    [ "$(objects radix depth received sent steps)" = "32 2 33 33 4" ]
}

# Messages and bytes are counted; nothing is timed.
@test "epochs: the driver hears each process once, and answers it, however many there are" {
    local ranks
    for ranks in 12 300; do
        alone epochs --ranks=$ranks --node-ranks=2 --rounds=3 --json
        [ "$status" -eq 0 ]
        positive us driver_us
        [ "$(objects case epoch ranks received | xargs)" = "epochs start $ranks $ranks epochs loss $ranks $((ranks - 3)) epochs node_loss $ranks $((ranks - 9))" ]
        # beside its place a process may be told once that others wait, so that a cut connection is found
        objects received sent bytes | awk '{ if ($2 < $1 || $2 > 2 * $1 || $3 > 150 * $1) { print "too much: " $0; exit 1 } }'
    done
    alone epochs --ranks=4 --node-ranks=2 --rounds=1
    [ "$status" -eq 0 ]
    has "epochs: the driver of 4 simulated processes; 1 of them lost, one after the other, and then as many nodes of 2"
    alone epochs --ranks=10 --rounds=2 --node-ranks=4
    [ "$status" -eq 1 ]
    has "parts: each of --rounds=2 loses 5 ranks; give fewer, or more than --ranks=10"
}

@test "kernels: every type, on every target that the processor has" {
    alone kernels --bytes=1024 --rounds=2 --json
    [ "$status" -eq 0 ]
    positive gbs memcpy_gbs
    targets=$(objects target | sort -u | wc -l)
    [ "$(objects target | tail -n 1)" = plain ]
    [ "$(objects type | sort -u | wc -l)" -eq 13 ]
    [ "$(objects type op | grep -c '^float32 sum$')" -eq "$targets" ]
    alone kernels --bytes=4 --rounds=1
    [ "$status" -eq 0 ]
    has "kernels: vectors of 4 B, 1 round; 10^9 bytes a second"
    [ "$(grep -cE '^  float16 +(widen|narrow)  ' <<<"$output")" -eq 2 ]
}

@test "pack: on a double of a GPU it is right, and has no figures" {
    double=$HVD_BUILD/tests/double/cuda/.libs
    [ -e "$double/libcuda.so.1" ] || skip 'hvd was configured --with-cuda=no'
    local -x HVD_DOUBLE_REPORT=$BATS_TEST_TMPDIR/report
    LD_LIBRARY_PATH=$double alone pack --gpu --model="$model" --rounds=2
    [ "$status" -eq 0 ]
    has "pack: $model, 3 tensors, 48.51 KiB, on double of GPU 0, 2 rounds; 10^9 bytes a second read and written"
    has "  right in all ways; no figures, because this is no GPU"
    LD_LIBRARY_PATH=$double alone pack --gpu --model="$model" --rounds=1 --json
    [ "$(objects case way gbs)" = "$(printf 'pack %s -\n' copy pack unpack 'pack to bfloat16, scaled' 'unpack from bfloat16, scaled')" ]
    HVD_DOUBLE_CUDA_FAIL=cuMemAlloc:2:2 LD_LIBRARY_PATH=$double alone pack --gpu --model="$model"
    [ "$status" -eq 1 ]
    has "parts: no memory for the buffer: CUDA: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"
    HVD_DOUBLE_CUDA_FAIL=work:5:719 LD_LIBRARY_PATH=$double alone pack --gpu --model="$model"
    [ "$status" -eq 1 ]
    [[ $output == *"CUDA_ERROR_LAUNCH_FAILED"* ]]
    [ ! -e "$HVD_DOUBLE_REPORT" ] || { cat "$HVD_DOUBLE_REPORT"; return 1; }
}

@test "pack: says what it needs" {
    alone pack
    [ "$status" -eq 1 ]
    [[ $output == "parts: pack measures GPUs: give --gpu"* ]]
}

@test "split: on the doubles it runs, and has no figures" {
    local nccl=$HVD_BUILD/tests/double/nccl/.libs/libnccl.so.2
    [ -e "$nccl" ] || skip 'hvd was configured --with-nccl=no'
    HVD_NCCL_LIBRARY=$nccl LD_LIBRARY_PATH=$HVD_BUILD/tests/double/cuda/.libs:$LD_LIBRARY_PATH bench 2 split --rounds=2
    [[ $output == *"split: a communicator of all ranks, 2 ranks on 1 node, on double of GPU "*", NCCL 2"* ]]
    has "  no figures, because this is no GPU"
}

@test "trace: a wrong sum is not timed" {
    need_hvdrun
    ldd "$HVD_BUILD/bin/.libs/hvdbench" | grep -q libasan && skip 'nothing is preloaded before ASan'
    for after in 0 1; do
        spoiled conv.weight $after trace --model="$model" --steps=1 --rounds=1 --json
        [ "$status" -eq 1 ]
        [ "$(grep -c "parts: hvd_allreduce gave rank 2 a wrong sum: element 0 of conv.weight is not what 3 ranks put in" <<<"$output")" -eq 1 ]
        [ "$(grep -c '^{' <<<"$output")" -eq 0 ]
    done
}

@test "parts: its cases have defaults, and others are refused" {
    alone --help
    [ "$status" -eq 0 ]
    has "Usage: parts CASE [options]"
    [ "$(grep -oE '^  [a-z]+:|--(ranks|node-ranks|tensors|rounds|bytes|model|steps)=.*default: [^)]*' <<<"$output" |
        sed -E 's/=.* /=/; s/^ +//' | xargs)" = "trace: --model=resnet50 --rounds=9 --steps=5 \
negotiate: --ranks=1024 --node-ranks=8 --tensors=161 --rounds=200 epochs: --ranks=1024 --node-ranks=8 --rounds=5 kernels: --bytes=64K --rounds=20 pack: --rounds=50 split: --rounds=10" ]
    alone allreduce
    [ "$status" -eq 2 ]
    [ "$output" = "parts: allreduce is no case; expected trace, negotiate, epochs, kernels, pack or split" ]
}
