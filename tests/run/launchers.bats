#!/usr/bin/env bats
# launchers.bats: hvdrun becomes other launchers, and programs of hvd run under them. Slurm's srun is in
# tests/cluster/launch.bats. LSF's jsrun is the stand-in beside this file.
# Inner shells expand their own variables, and bats sets status:
# shellcheck disable=SC2016,SC2030,SC2031,SC2154

load setup
load hvdrun
load output

setup() {
    unset LSB_JOBID LSB_MCPU_HOSTS LSB_HOSTS
    hvdrun_setup
    hello=$HVD_BUILD/examples/hello
    # ours come first in PATH
    mkdir bin
    PATH=$PWD/bin:$PATH
}

# need_openmpi: mpirun, with mpirun's own limits taken off
need_openmpi() {
    command -v mpirun >/dev/null || skip 'mpirun is not installed'
    mpirun --version | grep -q 'Open MPI' || skip "mpirun is not Open MPI's"
    # Open MPI 5 has PRRTE's variables
    export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    export ASAN_OPTIONS=detect_leaks=0 # of Open MPI
}

# in_lsf: from now on this is the launch node of an LSF job with two compute hosts, and jsrun is there
in_lsf() {
    command -v python3 >/dev/null || skip 'the stand-in for jsrun needs python3'
    export LSB_JOBID=7 LSB_MCPU_HOSTS='batch5 1 h1 4 h2 4' HVD_BUILD
    ln -s "$HVD_SOURCE/tests/run/jsrun" bin/jsrun
}

# stub NAME: a launcher that prints its arguments, a line each, and some variables
stub() {
    cat >"bin/$1" <<'END'
#!/bin/sh
[ "$1" != --version ] || { echo 'stub 1.0'; exit; }
[ "$1" != --mpi=list ] || { echo 'none pmix'; exit; }
printf '%s\n' "$@"
env | grep '^HVD_[CJR]' | sort
END
    chmod +x "bin/$1"
}

# --- mpirun and prterun ---------------------------------------------------------------------------

@test "mpirun starts programs of hvd" {
    need_openmpi
    timeout 60 mpirun -n 3 "$hello" >out
    sums 3 out
}

@test "prterun starts programs of hvd" {
    command -v prterun >/dev/null || skip 'prterun is not installed'
    timeout 60 prterun --allow-run-as-root --map-by :oversubscribe -n 3 "$hello" >out
    sums 3 out
}

@test "hvdrun becomes mpirun, and options and a secret reach the ranks" {
    need_openmpi
    hvd --launcher=mpirun -n 2 --hvd-cache=77 -x COLOUR=red sh -c 'echo $HVD_CLI $COLOUR $TEAM $HVD_JOB_KEY; exec "$0"' "$hello"
    [ "$status" = 0 ]
    sums 2 out
    [ "$(grep -cE 'cache=77 red [0-9a-f]{64}$' out)" = 2 ]
    [ "$(grep -oE '[0-9a-f]{64}$' out | sort -u | wc -l)" = 1 ]
}

@test "no command line holds the secret" {
    need_openmpi
    hvd --launcher=mpirun -n 1 sh -c 'printenv HVD_JOB_KEY >key; ! grep -lsaFf key /proc/[0-9]*/cmdline'
    [ "$status" = 0 ]
    [ "$(wc -c <key)" = 65 ]
}

@test "ranks on the hosts of -H are one job, and find the user's variables there" {
    need_openmpi
    unshare -u true 2>/dev/null || skip 'hosts of this test are namespaces, which only root may make here'
    # in place of ssh: a host is this machine by another name
    cat >bin/rsh <<'END'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
exec unshare -u env -i PATH="$PATH" HOME="$HOME" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 sh -c \
    'hostname "node${0##*.}"; exec sh -c "$*"' "$@"
END
    chmod +x bin/rsh
    printf '127.0.0.2 slots=2\n127.0.0.3 slots=2 # two\n' >hosts
    TEAM=blue OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent=$PWD/bin/rsh PRTE_MCA_plm=ssh PRTE_MCA_plm_ssh_agent=$PWD/bin/rsh \
        hvd -v --hostfile=hosts --hvd-cache=77 -x TEAM sh -c 'echo at $(hostname) $HVD_CLI $TEAM; exec "$0"' "$hello"
    [ "$status" = 0 ]
    sums 4 out
    [ "$(grep -c 'at node2 cache=77 blue$' out)" = 2 ]
    [ "$(grep -c 'at node3 cache=77 blue$' out)" = 2 ]
    grep -q '^hvdrun: launcher .*: 127.0.0.2 is another machine$' err
}

@test "a rank that fails ends mpirun's job with its status" {
    need_openmpi
    hvd --launcher=mpirun -n 2 sh -c '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 7; exec sleep 50'
    [ "$status" = 7 ]
}

@test "programs of one job share it under mpirun" {
    need_openmpi
    TMPDIR=$BATS_TEST_TMPDIR mpirun -n 1 true : -n 1 true 2>err || skip 'this mpirun cannot start two programs'
    hvd --launcher=mpirun -n 2 "$hello" : -n 1 sh -c 'echo second $OMPI_COMM_WORLD_RANK; exec "$0"' "$hello"
    [ "$status" = 0 ]
    sums 3 out
    grep -q 'second 2$' out
}

@test "an mpirun that is not Open MPI's is refused" {
    stub mpirun
    hvd --launcher=mpirun -n 2 true
    [ "$status" = 2 ]
    [[ $(cat err) == "hvdrun: mpirun in PATH is not Open MPI's: --version says stub 1.0"* ]]
}

@test "prterun goes before mpirun, and gets words of its own" {
    stub prterun
    stub mpirun
    hvd -H n1:2,n2 --timestamps --hvd-cache=77 prog 'a b'
    [ "$status" = 0 ]
    [ "$(sed '/^-x$/,+1d; /^HVD_/d' out | tr '\n' ' ')" = \
        '--bind-to none --output tag,timestamp -n 3 --host n1:2,n2:1 prog a b ' ]
    grep -q '^HVD_CLI=cache=77$' out
}

# --- Slurm, without one ---------------------------------------------------------------------------

@test "in a Slurm job hvdrun becomes srun, with the ranks on all nodes" {
    stub srun
    export SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=2 SLURM_NTASKS=8
    hvd -n 4 --no-prefix prog
    [ "$status" = 0 ]
    [ "$(sed '/^HVD_/d' out | tr '\n' ' ')" = \
        '--ntasks=4 --nodes=2 --export=ALL --kill-on-bad-exit=1 --mpi=pmix prog ' ]
    # and not in a task of a step, where the outer srun has done it
    SLURM_STEP_ID=0 SLURM_PROCID=0 hvd -v -n 1 echo here
    [ "$(cat out)" = '[0] here' ]
    grep -q 'launcher local: hvdrun runs inside a task that srun started' err
}

@test "a dry run prints what a shell can run, without the secret, and starts nothing" {
    stub srun
    export SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=2
    hvd --dry-run -n 2 --hvd-cache=77 -x "A=it's" prog "it's" '$HOME' ''
    [ "$status" = 0 ]
    cp out dry
    grep -q '^# and HVD_JOB_KEY' dry
    lacks '[0-9a-f]\{64\}' dry
    hvd -n 2 --hvd-cache=77 -x "A=it's" prog "it's" '$HOME' ''
    grep -v '^HVD_JOB_KEY=' out >ran
    sh dry | diff - ran
    hvd --launcher=local --dry-run -n 2 sh -c 'echo ran >ran-now'
    [ "$status" = 0 ]
    grep -q '^# 2 x: sh -c .echo ran >ran-now.$' out
    [ ! -e ran-now ]
}

@test "what a launcher cannot honour is refused before anything starts" {
    stub srun
    export SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=2
    local options
    for options in --grace=1s --timestamps --output-dir=logs --only-rank=0,1 --erf_input=f; do
        hvd "$options" prog
        [ "$status" = 2 ]
        [[ $(cat err) == "hvdrun: srun cannot honour ${options%%=*}"*--launcher=local* ]] || { cat err; return 1; }
        [ ! -s out ]
    done
    hvd --timestamps prog
    grep -q 'or --launcher=agents with --min-np=N on the nodes of the job$' err
    hvd -H n1:1 -n 2 prog
    [ "$status" = 2 ]
    [[ $(cat err) == "hvdrun: 2 ranks are asked for, but the hosts have 1 slot"* ]]
}

@test "a signal to hvdrun reaches the launcher, whose status is hvdrun's" {
    export SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=1
    printf '#!/bin/sh\n[ "$1" != --mpi=list ] || exit 0\ntrap "echo told; exit 9" TERM\necho up\nwhile :; do sleep 0.05; done\n' >bin/srun
    chmod +x bin/srun
    timeout -k 1 40 "$hvdrun" --max-restarts=5 -n 1 prog >out 2>err 3>&- &
    await_lines out 1
    kill -TERM $!
    status=0
    wait $! || status=$?
    [ "$status" = 9 ]
    grep -q told out
    lacks again err
}

@test "hvdrun that is killed takes the launcher along" {
    export SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=1
    printf '#!/bin/sh\n[ "$1" != --mpi=list ] || exit 0\ntrap "echo told; exit 9" TERM\necho up\nwhile :; do sleep 0.05; done\n' >bin/srun
    chmod +x bin/srun
    "$hvdrun" -n 1 prog >out 2>err 3>&- &
    await_lines out 1
    kill -KILL $!
    await_lines out 2
    grep -q told out
}

@test "a launcher that dies of a signal is named" {
    export SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=1
    printf '#!/bin/sh\n[ "$1" != --mpi=list ] || exit 0\nkill -SEGV $$\n' >bin/srun
    chmod +x bin/srun
    hvd -n 1 prog
    [ "$status" = 139 ]
    [ "$(cat err)" = 'hvdrun: srun was killed by SIGSEGV, itself and not a rank' ]
}

# --- LSF ------------------------------------------------------------------------------------------

@test "in an LSF job hvdrun writes the resource file and becomes jsrun" {
    in_lsf
    hvd -v -n 4 --hvd-cache=77 sh -c \
        'echo $JSM_NAMESPACE_RANK/$JSM_NAMESPACE_SIZE $JSM_NAMESPACE_LOCAL_RANK [$RANK] $HVD_CLI $HVD_JOB_KEY; exec "$0"' "$hello"
    [ "$status" = 0 ]
    sums 4 out
    local place
    for place in '0/4 0' '1/4 1' '2/4 0' '3/4 1'; do
        grep -qE "$place \[\] cache=77 [0-9a-f]{64}\$" out
    done
    grep -q '^hvdrun: launcher jsrun: this is LSF job 7 with jsrun$' err
}

@test "options of jsrun and its resource files are passed on to it" {
    in_lsf
    hvd --nrs=2 --tasks_per_rs 2 --cpu_per_rs=4 --bind=rs -n 4 sh -c 'echo $JSM_NAMESPACE_LOCAL_RANK $HVD_CLI'
    [ "$status" = 0 ]
    [ "$(sort out | tr '\n' ' ')" = '[0] 0 [1] 1 [2] 0 [3] 1 ' ]
    printf 'rank: 0-1: { host: 2; cpu: {0}, {1} }\n' >file
    hvd --erf_input=file "$hello"
    sums 2 out
    hvd --nrs=9 true
    [ "$status" = 1 ]
    grep -q 'Error: 9 resource sets do not fit' err
}

@test "jsrun's files and programs of one job" {
    in_lsf
    hvd -n 2 --output-dir=logs/new --only-rank=none sh -c 'echo one $0' "it's" : -n 1 sh -c 'echo two; echo bad >&2'
    [ "$status" = 0 ]
    [ "$(cat logs/new/rank.0.out)" = "one it's" ]
    [ "$(cat logs/new/rank.1.out)" = "one it's" ]
    [ "$(cat logs/new/rank.2.out)" = two ]
    [ "$(cat logs/new/rank.2.err)" = bad ]
}

@test "ranks of jsrun without PMIx meet at MASTER_ADDR" {
    in_lsf
    MASTER_PORT=$(free_port)
    export MASTER_PORT MASTER_ADDR=127.0.0.1 HVD_JOB_KEY=0123456789abcdef0123456789abcdef
    local rank pids=()
    for rank in 0 1; do
        JSM_NAMESPACE_RANK=$rank JSM_NAMESPACE_SIZE=2 timeout 60 "$hello" >"$rank.out" 2>&1 &
        pids+=($!)
    done
    await_ranks "${pids[@]}"
    [ "$status" = 0 ]
    cat ./*.out >out
    sums 2 out
}

@test "a forgotten jsrun is told" {
    in_lsf
    run timeout 30 "$hello"
    has 'the LSF job has 3 hosts'
    has 'rank 0 of 1: the sum is 1'
}

@test "the stand-in for jsrun refuses what jsrun refuses" {
    in_lsf
    while IFS='|' read -r file sentence; do
        printf '%b' "$file" >file
        run bin/jsrun --erf_input file true
        [ "$status" = 1 ]
        has "jsrun: Error: "
        has "$sentence"
    done <<'TABLE'
rank: 0: { host: 1; cpu: {0} }|does not end in a newline
rank: 0: { hostname: batch5; cpu: {0} }\n|no compute host
rank: 0: { host: 3; cpu: {0} }\n|there is no host 3
rank: 0: { host: 1; cpu: {999} }\n|there is no CPU 999
rank: 0: { host: 1; cpu: {0} }\nrank: 1: { host: 1; cpu: {0} }\n|in the sets of ranks 0 and 1
rank: 1: { host: 1; cpu: {0} }\n|are not 0 to 0
rank: 0: { host: 1 }\n|needs a host and cpu
overlapping: allow\n|is not understood
TABLE
    printf 'rank: 0: { host: 1; cpu: {0} }\n' >file
    run bin/jsrun --erf_input file --nrs 2 true
    has 'does not go with --erf_input'
    unset LSB_JOBID
    run bin/jsrun --nrs 2 true
    has 'no LSF job'
}

# --- Here -----------------------------------------------------------------------------------------

@test "hosts that are this machine need no other launcher" {
    hvd -H "localhost:2,$(hostname):1" sh -c 'echo $WORLD_SIZE'
    [ "$status" = 0 ]
    [ "$(sort out | tr '\n' ' ')" = '[0] 3 [1] 3 [2] 3 ' ]
    hvd -H localhost:2 -n 3 true
    [ "$status" = 2 ]
}

@test "several programs are one job" {
    hvd -n 2 "$hello" : sh -c 'echo "alone $RANK"; exec "$0"' "$hello" : -n 2 "$hello"
    [ "$status" = 0 ]
    sums 5 out
    grep -q '^\[2\] alone 2$' out
    hvd -n 1 true : -n 1 ./missing
    [ "$status" = 127 ]
    hvd -n 1 sleep 50 : -n 1 sh -c 'exit 4'
    [ "$status" = 4 ]
}

@test "a job that fails is started again, and the last lines say so" {
    hvd --max-restarts=3 -n 2 sh -c 'echo attempt $HVD_RESTART; [ $HVD_RESTART = 1 ] || exit 5'
    [ "$status" = 0 ]
    [ "$(grep -c 'attempt 1$' out)" = 2 ]
    grep -q '^hvdrun: starting all ranks again in 1 s: restart 1 of 3$' err
    [ "$(last_line)" = 'hvdrun: the job succeeded after restart 1 of 3' ]
    hvd --max-restarts=1 -n 1 sh -c 'exit 5'
    [ "$status" = 5 ]
    [ "$(last_line)" = 'hvdrun: the job failed 2 times, and no restart is left of --max-restarts=1' ]
}

@test "each attempt has a secret of its own" {
    hvd --max-restarts=1 -n 1 sh -c 'echo $HVD_JOB_KEY; exit 1'
    [ "$(sort -u out | wc -l)" = 2 ]
}

@test "a job that cannot start, or that was interrupted, is not started again" {
    hvd --max-restarts=3 -n 1 ./missing
    [ "$status" = 127 ]
    lacks again err
    printf '#!/no/such/shell\n' >script && chmod +x script
    hvd --max-restarts=3 -n 1 ./script
    [ "$status" = 127 ]
    lacks again err
    timeout -k 1 40 "$hvdrun" --max-restarts=3 -n 1 sh -c 'echo up; exec sleep 50' >out 2>err 3>&- &
    await_lines out 1
    kill -TERM $!
    status=0
    wait $! || status=$?
    [ "$status" = 143 ]
    lacks again err
}

@test "a signal ends the wait for the next attempt" {
    timeout -k 1 40 "$hvdrun" --max-restarts=100 -n 1 sh -c 'exit 5' >out 2>err 3>&- &
    await_lines err 4 # of two failures, with what comes next
    kill -TERM $!
    status=0
    wait $! || status=$?
    [ "$status" = 143 ]
    [[ $(last_line) == 'hvdrun: interrupted by signal 15 (Terminated) before restart '*' of 100' ]]
}
