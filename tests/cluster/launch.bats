#!/usr/bin/env bats
# launch.bats: hvdrun in a job of Slurm becomes srun, wherever in the job it is started.
# shellcheck disable=SC2016 # inner shells expand their own variables

load helpers
load ../run/output

setup() {
    cluster_or_skip
    slurm_has_pmix || skip 'this Slurm has no PMIx'
    [ -x "$HVD_BUILD/bin/hvdrun" ] || skip 'hvdrun was not built: configure found no PMIx'
    hvdrun=$HVD_BUILD/bin/hvdrun
    hello=$HVD_BUILD/examples/hello
    export HVD_MODULE_PATH=${HVD_MODULE_PATH:-$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs}
}

# script LINE ...: a batch script of these lines
script() {
    printf '%s\n' '#!/bin/sh' "$@" >"$CLUSTER/script"
    chmod +x "$CLUSTER/script"
}

# Run the batch script with options of sbatch; its output goes to $CLUSTER/out.
batch() {
    sbatch_in 60 -o "$CLUSTER/out" "$@" "$CLUSTER/script"
    cat "$CLUSTER/out"
}

@test "in a batch script of two nodes the ranks are on both, with options of both commands" {
    script "$hvdrun -v -n 4 --hvd-cache=77 sh -c 'echo at \$SLURMD_NODENAME \$SLURM_STEP_NUM_TASKS \$HVD_CLI; exec $hello'"
    batch -N2 -n4 --hvd-fusion=3M
    sums 4 "$CLUSTER/out"
    [ "$(grep -c 'at n1 4 ' "$CLUSTER/out")" = 2 ]
    [ "$(grep -c 'at n2 4 ' "$CLUSTER/out")" = 2 ]
    [ "$(grep -c 'at n. 4 .*fusion=3M' "$CLUSTER/out")" = 4 ]
    [ "$(grep -c 'at n. 4 .*cache=77' "$CLUSTER/out")" = 4 ]
    grep -q 'hvdrun: launcher srun: this is Slurm job .*, which has 2 nodes' "$CLUSTER/out"
}

@test "fewer ranks than nodes, and as many as the job has tasks" {
    script "$hvdrun -n 1 $hello" "$hvdrun $hello"
    batch -N2 -n3
    sums 1 "$CLUSTER/out"
    sums 3 "$CLUSTER/out"
    lacks 'warning' "$CLUSTER/out"
}

@test "a batch script of --export=NONE hands its own variables on" {
    script "HVD_MODULE_PATH=$HVD_MODULE_PATH; COLOUR=red; export HVD_MODULE_PATH COLOUR" \
        "$hvdrun -n 2 -x SHAPE=round sh -c 'echo it is \$COLOUR \$SHAPE; exec $hello'"
    batch -N2 -n2 --export=NONE
    sums 2 "$CLUSTER/out"
    [ "$(grep -c 'it is red round' "$CLUSTER/out")" = 2 ]
}

@test "without the plug-in options and a secret reach the ranks all the same" {
    plugstack_none
    script "$hvdrun -n 2 --hvd-cache=77 sh -c 'echo \$HVD_CLI \$HVD_JOB_KEY; exec $hello'"
    batch -N2 -n2
    sums 2 "$CLUSTER/out"
    [ "$(grep -cE 'cache=77 [0-9a-f]{64}' "$CLUSTER/out")" = 2 ]
}

@test "in the shell of salloc on the login node" {
    salloc_in 60 -N2 -n2 "$hvdrun" "$hello" >"$CLUSTER/out" 2>&1
    sums 2 "$CLUSTER/out"
}

@test "in the shell of salloc that is a step on a node" {
    cp "$CLUSTER/slurm.conf" "$CLUSTER/slurm.conf.before"
    echo 'LaunchParameters=use_interactive_step' >>"$CLUSTER/slurm.conf"
    printf '%s\n' 'hostname' "exec $hvdrun -v -n 2 $hello" |
        login_in 60 env SHELL=/bin/sh salloc -Q -N2 -n2 >"$CLUSTER/out" 2>&1 || true
    mv "$CLUSTER/slurm.conf.before" "$CLUSTER/slurm.conf"
    cat "$CLUSTER/out"
    grep -q '^n1' "$CLUSTER/out"
    grep -q 'launcher srun' "$CLUSTER/out"
    sums 2 "$CLUSTER/out"
}

@test "inside a task of a step hvdrun starts ranks beside it" {
    srun_in 60 -N2 -n2 "$hvdrun" -v -n 2 sh -c 'echo $SLURMD_NODENAME $WORLD_SIZE' >"$CLUSTER/out" 2>&1
    cat "$CLUSTER/out"
    [ "$(grep -c '\] n1 2$' "$CLUSTER/out")" = 2 ]
    [ "$(grep -c '\] n2 2$' "$CLUSTER/out")" = 2 ]
    grep -q 'launcher local: hvdrun runs inside a task that srun started' "$CLUSTER/out"
    [ "$(grep -c 'hvdrun: srun has started 2 tasks, and each hvdrun among them starts a job of its own' "$CLUSTER/out")" = 1 ]
}

@test "inside a task --launcher=srun starts a step beside the one of that task" {
    srun_in 60 -N2 -n2 sh -c "[ \$SLURM_PROCID = 1 ] || exec $hvdrun --launcher=srun -n 2 $hello" >"$CLUSTER/out" 2>&1
    sums 2 "$CLUSTER/out"
}

@test "-H says which nodes have how many ranks" {
    script "$hvdrun -H n2:1,n1:2 sh -c 'echo \$SLURM_PROCID at \$SLURMD_NODENAME; exec $hello'"
    batch -N2 -n4
    sums 3 "$CLUSTER/out"
    [ "$(grep -c 'at n2$' "$CLUSTER/out")" = 1 ]
    [ "$(grep -c 'at n1$' "$CLUSTER/out")" = 2 ]
}

@test "several programs, output in files, one rank's output" {
    script "cd $CLUSTER/tmp/user" "$hvdrun -n 2 --output-dir=logs --only-rank=none $hello : -n 1 sh -c 'echo second >&2; exec $hello'" \
        "$hvdrun -n 2 --only-rank=1 sh -c 'echo only \$SLURM_PROCID'"
    batch -N2 -n3
    cat "$CLUSTER"/tmp/user/logs/rank.*.out >"$CLUSTER/files"
    sums 3 "$CLUSTER/files"
    lacks $'\r' "$CLUSTER/files"
    [ "$(cat "$CLUSTER/tmp/user/logs/rank.2.err")" = second ]
    grep -q 'only 1$' "$CLUSTER/out"
    lacks 'only 0$' "$CLUSTER/out"
}

@test "a rank that fails ends the others, and the job is started again" {
    script "$hvdrun --max-restarts=1 -n 2 sh -c 'echo attempt \$HVD_RESTART; [ \$SLURM_PROCID.\$HVD_RESTART != 1.0 ] || exit 7; [ \$HVD_RESTART = 1 ] || exec sleep 50; exec $hello'"
    batch -N2 -n2
    sums 2 "$CLUSTER/out"
    grep -q 'hvdrun: the job succeeded after restart 1 of 1' "$CLUSTER/out"
}

@test "mpirun and mpiexec start ranks on the nodes of a job, and so does hvdrun by mpirun" {
    command -v mpirun >/dev/null && mpirun --version | grep -q 'Open MPI' || skip "Open MPI's mpirun is not installed"
    script 'export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1' \
        "echo mpirun; mpirun -n 4 $hello" \
        "! command -v mpiexec.hydra || mpiexec.hydra -n 4 -ppn 2 $hello" \
        "echo hvdrun; $hvdrun --launcher=mpirun -H n2:2,n1:1 --hvd-cache=77 sh -c 'echo at \$(hostname) \$HVD_CLI; exec $hello'"
    batch -N2 -n4
    sed '/mpiexec.hydra$/,$d; /^hvdrun/,$d' "$CLUSTER/out" >"$CLUSTER/mpirun"
    sums 4 "$CLUSTER/mpirun"
    if command -v mpiexec.hydra >/dev/null; then
        sed '1,/mpiexec.hydra$/d; /^hvdrun/,$d' "$CLUSTER/out" >"$CLUSTER/mpiexec"
        sums 4 "$CLUSTER/mpiexec"
    fi
    sed '1,/^hvdrun/d' "$CLUSTER/out" >"$CLUSTER/hvdrun"
    sums 3 "$CLUSTER/hvdrun"
    [ "$(grep -c 'at n2 cache=77$' "$CLUSTER/hvdrun")" = 2 ]
    [ "$(grep -c 'at n1 cache=77$' "$CLUSTER/hvdrun")" = 1 ]
}
