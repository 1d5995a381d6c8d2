#!/usr/bin/env bats
# place.bats: the plug-in places tasks on a real cluster, whose nodes share the CPUs of this machine.
# shellcheck disable=SC2016
# shellcheck disable=SC2030,SC2031 # run sets output and status in the test that reads them

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cluster_or_skip
    built_with_hwloc || skip 'the plug-in was built without hwloc'
    mapfile -t cpus < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | while IFS=- read -r first last; do
        seq "$first" "${last:-$first}"
    done)
    if [ "${#cpus[@]}" -ne 2 ] || [ "${cpus[1]}" -gt 30 ]; then
        skip "these tests know what is right for 2 CPUs, and here are ${cpus[*]}"
    fi
    a=${cpus[0]} b=${cpus[1]}
    # if there are as many tasks as cores Slurm binds them itself, and the plug-in would keep that
    export SLURM_CPU_BIND=none
}

built_with_hwloc() {
    readelf -d "$PLUGIN" | grep -q 'NEEDED.*libhwloc'
}

# A task that prints one line: its rank, the CPUs that it may use, and the variables that placement sets.
report='echo "rank $SLURM_PROCID on $(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)" \
    "threads=$OMP_NUM_THREADS places=$OMP_PLACES gpu=$HVD_GPU_PCI device=$HVD_LOCAL_DEVICE" \
    "cuda=$CUDA_VISIBLE_DEVICES placed=$HVD_PLACED"'

# true_map COUNT: $output has COUNT lines "hvd: n1: task R: cpus C, ...", and each is true for rank R.
true_map() {
    local rank on lines=0
    while read -r rank on; do
        expect_text "$output" "rank $rank on $on threads="
        lines=$((lines + 1))
    done < <(sed -nE 's/^hvd: n[0-9]+: task ([0-9]+): cpus ([-0-9,]+),.*/\1 \2/p' <<<"$output")
    [ "$lines" -eq "$1" ]
}

no_node_is_drained() {
    run login_in 10 sinfo -h -N -o %T
    expect_no_text "$output" drain
    expect_no_text "$output" down
}

# fails TEXT -- ARGUMENTS: the step fails, prints TEXT once, and the nodes stay usable for other steps.
fails() {
    local text=$1
    shift 2
    run srun_in 20 "$@"
    echo "$output"
    [ "$status" -ne 0 ]
    expect_text "$output" "$text"
    [ "$(grep -cF "$text" <<<"$output")" -eq 1 ]
    [ "$(grep -cx ran <<<"$output")" -eq 0 ]
    no_node_is_drained
    run srun_in 20 -N3 sh -c 'echo ran'
    [ "$(grep -cx ran <<<"$output")" -eq 3 ]
}

### CPUs

@test "tasks are placed, and the map that they print is true" {
    run srun_in 20 -N3 -n6 --hvd-bind=auto,verbose sh -c "$report"
    echo "$output"
    [ "$status" -eq 0 ]
    true_map 6
    for node in n1 n2 n3; do
        [ "$(grep -c "^hvd: $node: task" <<<"$output")" -eq 2 ]
    done
    [ "$(grep -c " on $a threads=1 places=threads .*placed=srun,OMP_NUM_THREADS,OMP_PLACES$" <<<"$output")" -eq 3 ]
    [ "$(grep -c " on $b threads=1 places=threads .*placed=srun,OMP_NUM_THREADS,OMP_PLACES$" <<<"$output")" -eq 3 ]
}

@test "any option of hvd places a step, without a word" {
    run srun_in 20 -N1 -n2 --hvd-fusion=8M sh -c "$report"
    echo "$output"
    expect_text "$output" "on $a threads=1"
    expect_text "$output" "on $b threads=1"
    expect_no_text "$output" hvd:
}

@test "the user's environment and the site place steps too" {
    run login_in 20 env HVD_BIND=core srun -N1 -n2 sh -c "$report"
    expect_text "$output" "on $b threads=1"
    plugstack bind=core
    run srun_in 20 -N1 -n2 sh -c "$report"
    expect_text "$output" "on $b threads=1"
    run srun_in 20 -N1 -n2 --hvd-bind=none sh -c "$report"
    expect_text "$output" "rank 1 on $a-$b threads= "
}

@test "a plain step is not placed" {
    run srun_in 20 -N1 -n2 sh -c "$report"
    [ "$(grep -c "on $a-$b threads= places= gpu= device= cuda= placed=$" <<<"$output")" -eq 2 ]
}

@test "bind=none binds nothing" {
    run srun_in 20 -N1 -n2 --hvd-bind=none,verbose sh -c "$report"
    echo "$output"
    true_map 2
    [ "$(grep -c "on $a-$b threads= places= .*placed=srun$" <<<"$output")" -eq 2 ]
    expect_text "$output" 'not bound'
}

@test "more tasks than cores share them, which is said once a node" {
    run salloc_in 20 -N1 -n2 srun -n4 -O --hvd-bind=core,verbose sh -c "$report"
    echo "$output"
    true_map 4
    [ "$(grep -c " on $a threads=1 places= " <<<"$output")" -eq 2 ]
    [ "$(grep -c " on $b threads=1 places= " <<<"$output")" -eq 2 ]
    [ "$(grep -c '^hvd: n1: 4 tasks share 2 cores' <<<"$output")" -eq 1 ]
}

@test "what the user has set of threads stays" {
    run login_in 20 env OMP_NUM_THREADS=7 srun -N1 -n2 --hvd-bind=core sh -c "$report"
    [ "$(grep -c 'threads=7 places=threads .*placed=srun,OMP_PLACES$' <<<"$output")" -eq 2 ]
}

@test "a step that starts in a placed task is placed anew" {
    run salloc_in 20 -N1 -n2 env OMP_NUM_THREADS=9 HVD_PLACED=srun,OMP_NUM_THREADS srun --hvd-bind=core sh -c "$report"
    echo "$output"
    [ "$(grep -c 'threads=1 .*placed=srun,OMP_NUM_THREADS' <<<"$output")" -eq 2 ]
}

### tasks that Slurm has bound

@test "what --cpu-bind says is kept, and force overrides it" {
    for how in "map_cpu:$b,$b" "$(printf 'mask_cpu:0x%x,0x%x' $((1 << b)) $((1 << b)))"; do
        run srun_in 20 -N1 -n2 --cpu-bind="$how" --hvd-bind=auto,verbose sh -c "$report"
        echo "$output"
        true_map 2
        [ "$(grep -c " on $b threads= places= .*placed=srun$" <<<"$output")" -eq 2 ]
        [ "$(grep -c ': kept as Slurm bound it$' <<<"$output")" -eq 2 ]
        run srun_in 20 -N1 -n2 --cpu-bind="$how" --hvd-bind=auto,force,verbose sh -c "$report"
        echo "$output"
        true_map 2
        expect_text "$output" "on $a threads=1"
        expect_text "$output" "on $b threads=1"
        expect_no_text "$output" kept
    done
}

### the site's topology

@test "GPUs of the site's topology are told, near each task's cores" {
    write_topology "$CLUSTER/node.xml" "$a" "$b"
    plugstack "topology=$CLUSTER/node.xml"
    run srun_in 20 -N1 -n2 --hvd-bind=gpu,verbose sh -c "$report"
    echo "$output"
    [ "$status" -eq 0 ]
    true_map 2
    expect_text "$output" 'gpu=0000:17:00.0 device=0 cuda= placed=srun,HVD_GPU_PCI,HVD_LOCAL_DEVICE,CUDA_DEVICE_ORDER,'
    expect_text "$output" 'gpu=0000:2a:00.0 device=1 cuda='
    run srun_in 20 -N1 -n2 --hvd-bind=none sh -c "$report"
    [ "$(grep -c "on $a-$b .*gpu=0000:.*placed=srun,HVD_GPU_PCI" <<<"$output")" -eq 2 ]
}

@test "gpu-visible=one shows each task its own" {
    write_topology "$CLUSTER/node.xml" "$a" "$b"
    plugstack "topology=$CLUSTER/node.xml"
    run srun_in 20 -N1 -n2 --hvd-gpu-visible=one sh -c "$report"
    echo "$output"
    expect_text "$output" 'gpu=0000:17:00.0 device=0 cuda=0 '
    expect_text "$output" 'gpu=0000:2a:00.0 device=0 cuda=1 '
}

@test "of the GPUs only those count that the user's variables show" {
    write_topology "$CLUSTER/node.xml" "$a" "$b"
    plugstack "topology=$CLUSTER/node.xml"
    run srun_in 20 -N1 -n2 --export=ALL,CUDA_VISIBLE_DEVICES=1 --hvd-bind=auto sh -c "$report"
    echo "$output"
    [ "$(grep -c 'gpu=0000:2a:00.0 device=0 cuda=1 ' <<<"$output")" -eq 2 ]
}

@test "a topology that is none fails the step with a sentence" {
    echo 'no topology' >"$CLUSTER/node.xml"
    plugstack "topology=$CLUSTER/node.xml"
    fails "$CLUSTER/node.xml" -- -N1 -n2 --hvd-bind=core echo ran
    plugstack "topology=$CLUSTER/missing.xml"
    fails "topology=$CLUSTER/missing.xml cannot be read: No such file or directory" -- -N1 -n2 --hvd-bind=core echo ran
    write_topology "$CLUSTER/node.xml" "$a" "$b"
    chmod 666 "$CLUSTER/node.xml"
    plugstack "topology=$CLUSTER/node.xml"
    fails 'may be written by others than root' -- -N1 -n2 --hvd-bind=core echo ran
    # a step that did not ask for placement runs without it
    run srun_in 20 -N1 -n2 --hvd-fusion=8M sh -c "$report"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'placed=$' <<<"$output")" -eq 2 ]
    expect_no_text "$output" hvd:
    run srun_in 20 --slurmd-debug=verbose -N1 -n2 --hvd-fusion=8M true
    [ "$(grep -c 'hvd: tasks are not placed: .*others than root' <<<"$output")" -eq 1 ]
}

@test "who looks at the node is the user, not root" {
    command -v setpriv >/dev/null || skip 'it needs setpriv'
    write_topology "$CLUSTER/node.xml" "$a" "$b"
    plugstack "topology=$CLUSTER/node.xml"
    as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups srun -D / -N1 -n2 '--hvd-bind=gpu,verbose')
    run login_in 20 "${as_nobody[@]}" sh -c "$report"
    echo "$output"
    [ "$status" -eq 0 ]
    true_map 2
    expect_text "$output" 'gpu=0000:2a:00.0 device=1'
    chmod 600 "$CLUSTER/node.xml"
    run srun_in 20 -N1 -n2 --hvd-bind=gpu true
    [ "$status" -eq 0 ]
    run login_in 20 "${as_nobody[@]}" true
    echo "$output"
    [ "$status" -ne 0 ]
    expect_text "$output" 'Permission denied'
    no_node_is_drained
}

### bad input

@test "a bad value in the environment fails the step with a sentence" {
    export HVD_BIND=zap
    run srun_in 20 -N1 -n2 echo the task ran
    unset HVD_BIND
    echo "$output"
    [ "$status" -ne 0 ]
    [ "$(grep -c 'hvd: HVD_BIND=zap: the value has an unknown word' <<<"$output")" -eq 1 ]
    expect_no_text "$output" 'the task ran'
    no_node_is_drained
}

@test "what cannot be met fails the step with a sentence" {
    fails 'GPU' -- -N1 -n2 --hvd-bind=gpu echo ran
    fails 'reserve' -- -N1 -n2 --hvd-bind=core,reserve:2 echo ran
}

@test "a configuration file of the user is not opened for placement" {
    mkfifo -m 666 "$CLUSTER/tmp/user/config"
    run srun_in 20 -N1 -n2 --hvd-config="$CLUSTER/tmp/user/config" sh -c "$report"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'placed=srun' <<<"$output")" -eq 2 ]
}

### slurmstepd

@test "scripts of sbatch and shells of salloc are not placed" {
    sbatch_in 20 -o "$CLUSTER/job.out" --hvd-bind=core --wrap="$report"
    run cat "$CLUSTER/job.out"
    expect_text "$output" 'threads= places= gpu= device= cuda= placed='
    run salloc_in 20 --hvd-bind=core sh -c "$report"
    expect_text "$output" 'threads= places= gpu= device= cuda= placed='
}

@test "slurmstepd of a placed step maps no library of GPUs or windows, and leaves no process" {
    run srun_in 20 -N1 -n1 --mpi=none --hvd-bind=core,verbose sh -c '
        grep -q slurmstepd /proc/$PPID/comm && cat /proc/$PPID/maps; echo "children $(cat /proc/$PPID/task/*/children | wc -w)"'
    [ "$status" -eq 0 ]
    expect_text "$output" spank_hvd.so
    expect_text "$output" libhwloc
    expect_text "$output" 'children 1'
    run grep -iE 'opencl|libX|cuda|nccl|nvidia|pmix|libmpi' <<<"$output"
    [ "$status" -eq 1 ]
}
