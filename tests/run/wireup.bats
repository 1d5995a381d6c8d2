#!/usr/bin/env bats
# wireup.bats: ranks that wire up by mpirun's PMIx server, and by the environment.
# Every test runs in its own process, and the inner shells expand their own variables:
# shellcheck disable=SC2030,SC2031,SC2016

setup() {
    load setup
    probe=$HVD_BUILD/tests/run/wireup_probe
    export HVD_START_TIMEOUT=20s
}

# End what a failed test has left.
teardown() {
    local job
    for job in $(jobs -p); do
        kill -KILL "$job" 2>/dev/null || true
    done
}

# --- PMIx -----------------------------------------------------------------------------------------

need_mpirun() {
    command -v mpirun >/dev/null || skip "mpirun is not installed"
    [ -e "$HVD_BUILD/pmix_shim/.libs/wireup_pmix.so" ] || skip "built without PMIx"
    mpirun --version | grep -q 'Open MPI' || skip "mpirun is not Open MPI's"
    # leaks of libpmix and Open MPI are not hvd's
    export ASAN_OPTIONS=detect_leaks=0
}

ranks() {
    timeout 60 mpirun --allow-run-as-root --oversubscribe "$@"
}

# said N PROVIDER: each of N ranks has printed once that it wired up by this provider
said() {
    for ((rank = 0; rank < $1; rank++)); do
        has "ok rank=$rank size=$1 "
        [ "$(grep -c "^ok rank=$rank " <<<"$output")" -eq 1 ]
    done
    [ "$(grep -c "provider=$2" <<<"$output")" -eq "$1" ]
}

@test "four ranks of mpirun find each other by PMIx" {
    need_mpirun
    run ranks -np 4 "$probe"
    [ "$status" -eq 0 ]
    said 4 pmix
    has "rank=3 size=4 local=3/4"
}

@test "one rank of mpirun is a job of one rank" {
    need_mpirun
    run ranks -np 1 "$probe"
    [ "$status" -eq 0 ]
    said 1 pmix
}

@test "the epoch is that of HVD_EPOCH" {
    HVD_EPOCH=7 run "$probe"
    has "epoch=7"
    HVD_EPOCH=4294967296 run "$probe"
    [ "$status" -eq 1 ]
    has "HVD_EPOCH=4294967296: the value is too large"
}

@test "wire-up after the program's own MPI_Init" {
    need_mpirun
    [ -x "${probe%probe}mpi" ] || skip "built without MPI"
    run ranks -np 4 "${probe%probe}mpi" before
    [ "$status" -eq 0 ]
    said 4 pmix
}

@test "wire-up before the program's own MPI_Init" {
    need_mpirun
    [ -x "${probe%probe}mpi" ] || skip "built without MPI"
    run ranks -np 4 "${probe%probe}mpi" after
    [ "$status" -eq 0 ]
    said 4 pmix
}

@test "a rank that does not join PMIx is waited for only so long" {
    need_mpirun
    HVD_START_TIMEOUT=1s run ranks -np 3 sh -c '[ "$PMIX_RANK" != 2 ] || exec sleep 10; exec "$0"' "$probe"
    [ "$status" -ne 0 ]
    has "not all ranks joined in time"
    has "--hvd-start-timeout"
}

@test "PMIx variables without their server are an error" {
    [ -e "$HVD_BUILD/pmix_shim/.libs/wireup_pmix.so" ] || skip "built without PMIx"
    PMIX_NAMESPACE=x PMIX_RANK=0 run timeout 20 "$probe"
    [ "$status" -eq 1 ]
    has "the launcher's PMIx server cannot be reached"
}

@test "PMIx without its module is an error" {
    PMIX_NAMESPACE=x PMIX_RANK=0 HVD_MODULE_PATH=/nowhere run "$probe"
    [ "$status" -eq 1 ]
    has "PMIX_NAMESPACE says that PMIx started this job"
    has "wireup_pmix.so is not in /nowhere"
}

@test "a PMIx server that stands still is waited for only so long" {
    [ -x "$HVD_BUILD/bin/hvdrun" ] || skip 'hvdrun is not built: it needs PMIx'
    # the parent of a rank is the reaper, whose parent is hvdrun, whose other child is the server
    HVD_START_TIMEOUT=2s run timeout 30 "$HVD_BUILD/bin/hvdrun" -n 1 sh -c \
        'kill -STOP "$(pgrep -P "$(ps -o ppid= -p $PPID | tr -d " ")" -x hvdrun-pmix)"; exec "$0"' "$probe"
    echo "$output"
    [ "$status" -eq 1 ]
    has "the launcher's PMIx server on this node does not answer"
    has "--hvd-start-timeout"
}

@test "a PMIx server that stops amid a fence is what is named" {
    [ -x "$HVD_BUILD/bin/hvdrun" ] || skip 'hvdrun is not built: it needs PMIx'
    HVD_START_TIMEOUT=3s run timeout 30 "$HVD_BUILD/bin/hvdrun" -n 2 sh -c '[ "$PMIX_RANK" = 1 ] || exec "$0"
        server=$(pgrep -P "$(ps -o ppid= -p $PPID | tr -d " ")" -x hvdrun-pmix)
        (sleep 1; kill -STOP "$server") & exec "$0" stay' "$probe"
    echo "$output"
    [ "$status" -eq 1 ]
    has "the launcher's PMIx server on this node does not answer (PMIx Fence)"
}

@test "the rank that never calls hvd_init is named" {
    [ -x "$HVD_BUILD/bin/hvdrun" ] || skip 'hvdrun is not built: it needs PMIx'
    local late
    for late in 0 1 2; do
        SECONDS=0
        run timeout 30 "$HVD_BUILD/bin/hvdrun" -n 3 --hvd-start-timeout=3s sh -c \
            '[ "$PMIX_RANK" != "$1" ] || exec sleep 100; exec "$0"' "$probe" "$late"
        echo "$output"
        [ "$status" -eq 1 ]
        [ "$SECONDS" -le $((10 * PATIENCE)) ]
        has "rank $late is missing, and may never have called hvd_init"
    done
}

@test "a rank that wired up and comes no further is named" {
    [ -x "$HVD_BUILD/bin/hvdrun" ] || skip 'hvdrun is not built: it needs PMIx'
    run timeout 30 "$HVD_BUILD/bin/hvdrun" -n 3 --hvd-start-timeout=1s sh -c \
        '[ "$PMIX_RANK" != 1 ] || exec "$0" stay; exec "$0"' "$probe"
    echo "$output"
    [ "$status" -eq 1 ]
    has "rank 1 is missing"
}

@test "a rank that is stopped where it calls the fence is named" {
    local library=$HVD_BUILD/tests/run/.libs/stop_in_fence.so stopped
    [ -x "$HVD_BUILD/bin/hvdrun" ] || skip 'hvdrun is not built: it needs PMIx'
    [ -z "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] || skip 'sanitizers come first among preloaded libraries'
    for stopped in 0 1; do
        run timeout 30 "$HVD_BUILD/bin/hvdrun" -n 2 --hvd-start-timeout=2s sh -c \
            '[ "$PMIX_RANK" != "$1" ] || export LD_PRELOAD=$2; exec "$0"' "$probe" "$stopped" "$library"
        echo "$output"
        [ "$status" -eq 1 ]
        has "not all ranks joined in time: rank $stopped called hvd_init, and is late or stopped"
    done
}

@test "a resolver that does not answer is waited for only so long" {
    [ "$(id -u)" -eq 0 ] || skip 'only root can give a process another /etc/resolv.conf'
    unshare -mn true 2>/dev/null || skip 'no namespaces can be made here'
    grep -q '^hosts:.*dns' /etc/nsswitch.conf || skip 'names are not looked up by DNS here'
    echo 'nameserver 10.99.99.1' >"$BATS_TEST_TMPDIR/resolv.conf"
    export RANK=1 WORLD_SIZE=2 MASTER_ADDR=no-such-host.example MASTER_PORT=22222 HVD_JOB_KEY=a-secret-of-the-test
    SECONDS=0
    HVD_START_TIMEOUT=2s run timeout 60 unshare -mn sh -c 'mount --bind "$1" /etc/resolv.conf &&
        ip link add veth0 type veth peer name veth1 && ip link set veth1 up && ip link set veth0 up &&
        ip address add 10.99.99.2/24 dev veth0 && ip neigh add 10.99.99.1 lladdr 02:00:00:00:00:01 dev veth0 &&
        exec "$0"' "$probe" "$BATS_TEST_TMPDIR/resolv.conf"
    echo "after $SECONDS s: $output"
    [[ $output != Error:* ]] || skip "no interface can be made here: $output"
    [ "$status" -eq 1 ]
    [ "$SECONDS" -le $((4 * PATIENCE)) ]
    has "MASTER_ADDR=no-such-host.example: the resolver of names did not answer in time"
}

# --- the environment ------------------------------------------------------------------------------

# job SIZE RANK...: run these ranks of a job of that size at the same time; sets output and status for all of them
job() {
    local size=$1 rank pids=()
    shift
    export WORLD_SIZE=$size MASTER_ADDR=127.0.0.1 MASTER_PORT HVD_JOB_KEY=${HVD_JOB_KEY-a-secret-of-the-test}
    MASTER_PORT=$(free_port)
    for rank in "$@"; do
        RANK=$rank timeout 40 "$probe" >"$BATS_TEST_TMPDIR/$rank.out" 2>&1 3>&- &
        pids+=($!)
    done
    await_ranks "${pids[@]}"
}

# but_rank N SETTING: let rank N of the next job run with this variable
but_rank() {
    cat >"$BATS_TEST_TMPDIR/probe" <<END
#!/bin/sh
[ "\$RANK" != $1 ] || export $2
exec "$probe"
END
    chmod +x "$BATS_TEST_TMPDIR/probe"
    probe=$BATS_TEST_TMPDIR/probe
}

@test "four ranks find each other by the environment" {
    job 4 3 2 1 0
    [ "$status" -eq 0 ]
    said 4 env
    has "rank=3 size=4 local=-1/-1"
}

@test "local rank and size come from the environment too" {
    export LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
    job 2 0 1
    [ "$status" -eq 0 ]
    has "rank=1 size=2 local=0/1"
}

@test "a missing rank is named by all, in time" {
    export HVD_START_TIMEOUT=3s # the others must have come by then, also on a busy machine
    SECONDS=0
    job 4 3 1 0
    [ "$SECONDS" -le $((10 * PATIENCE)) ]
    [ "$status" -eq 1 ]
    [ "$(grep -c '1 of 4 ranks did not join in time: rank 2; --hvd-start-timeout' <<<"$output")" -eq 3 ]
    [[ $output != *srun* ]]
    SLURM_STEP_ID=0 job 4 3 1 0
    [ "$(grep -c 'gives them longer, and srun -K ends the step' <<<"$output")" -eq 3 ]
}

@test "without rank 0 the others say so, in time" {
    export HVD_START_TIMEOUT=1s
    SECONDS=0
    job 3 1 2
    [ "$SECONDS" -le $((5 * PATIENCE)) ]
    [ "$status" -eq 1 ]
    [ "$(grep -c 'rank 0 cannot be reached at 127.0.0.1' <<<"$output")" -eq 2 ]
}

@test "a wrong HVD_JOB_KEY is refused, and warned of" {
    but_rank 1 HVD_JOB_KEY=another-secret-of-a-stranger
    export HVD_START_TIMEOUT=1s
    job 2 0 1
    [ "$status" -eq 1 ]
    has "it does not hold this job's HVD_JOB_KEY"
    has "1 of 2 ranks did not join in time: rank 1"
    has "refused this rank"
    [[ $output != *another-secret* ]]
}

@test "a stranger is dropped, and the job goes on" {
    cat >"$BATS_TEST_TMPDIR/probe" <<END
#!/bin/bash
if [ "\$RANK" = 1 ]; then
    until exec 9<>/dev/tcp/127.0.0.1/\$MASTER_PORT; do :; done 2>/dev/null
    head -c 1000 /dev/zero >&9
    timeout 5 cat <&9 >/dev/null
fi
exec "$probe"
END
    chmod +x "$BATS_TEST_TMPDIR/probe"
    probe=$BATS_TEST_TMPDIR/probe
    job 2 0 1
    [ "$status" -eq 0 ]
    said 2 env
    has "warning: wire-up: dropped a connection from 127.0.0.1"
}

# silent N: hold N connections to rank 0 that say nothing, from before the other ranks come until the test ends
silent() {
    command -v python3 >/dev/null || skip 'python3, which makes the connections, is not installed'
    cat >"$BATS_TEST_TMPDIR/silent.py" <<'END'
import os, socket, sys, time
end = time.monotonic() + 60
held = []
while len(held) < int(sys.argv[1]) and time.monotonic() < end:
    try:
        held.append(socket.create_connection(("127.0.0.1", int(os.environ["MASTER_PORT"])), 60))
    except ConnectionRefusedError:
        time.sleep(0.02)
open(sys.argv[2], "w").close()
sys.stdin.read()
END
    cat >"$BATS_TEST_TMPDIR/probe" <<END
#!/bin/bash
if [ "\$RANK" = 0 ]; then
    ${2:-true}
    exec "$probe" 3>&-
fi
if [ "\$RANK" = 1 ]; then
    mkfifo "$BATS_TEST_TMPDIR/hold"
    python3 "$BATS_TEST_TMPDIR/silent.py" $1 "$BATS_TEST_TMPDIR/held" <"$BATS_TEST_TMPDIR/hold" 3>&- &
    exec 9>"$BATS_TEST_TMPDIR/hold"
fi
for ((tries = 0; tries < 600; tries++)); do
    [ ! -e "$BATS_TEST_TMPDIR/held" ] || break
    sleep 0.1
done
"$probe" 3>&-
END
    chmod +x "$BATS_TEST_TMPDIR/probe"
    probe=$BATS_TEST_TMPDIR/probe
}

@test "connections that say nothing give way, and are told in few lines" {
    silent 600
    job 3 0 1 2
    echo "$output"
    [ "$status" -eq 0 ]
    said 3 env
    has "such connections"
    [ "$(grep -c 'dropped a connection' <<<"$output")" -le 4 ]
}

@test "connections that say nothing give way where rank 0 has few descriptors" {
    silent 100 'ulimit -n 24'
    job 3 0 1 2
    echo "$output"
    [ "$status" -eq 0 ]
    said 3 env
}

@test "rank 0 names the limit of descriptors that is too low for its ranks" {
    cat >"$BATS_TEST_TMPDIR/probe" <<END
#!/bin/bash
[ "\$RANK" != 0 ] || ulimit -n 8
exec "$probe" 3>&-
END
    chmod +x "$BATS_TEST_TMPDIR/probe"
    probe=$BATS_TEST_TMPDIR/probe
    export HVD_START_TIMEOUT=5s
    job 10 0 1 2 3 4 5 6 7 8 9
    echo "$output"
    [ "$status" -eq 1 ]
    has "rank 0 cannot accept a connection of another rank: all 8 descriptors that this process may have are open"
}

@test "a rank of another epoch is refused with the address that a name led to, and warned of" {
    but_rank 1 'HVD_EPOCH=3 MASTER_ADDR=localhost'
    export HVD_START_TIMEOUT=1s
    job 2 0 1
    [ "$status" -eq 1 ]
    has "it is of HVD_EPOCH=3, this job of 0"
    grep -E 'rank 0 at localhost \((127.0.0.1|::1)\) port [0-9]+ refused this rank' <<<"$output"
    has "1 of 2 ranks did not join in time: rank 1"
}

@test "ranks that disagree on the size say so at once" {
    but_rank 1 WORLD_SIZE=3
    job 2 0 1
    [ "$status" -eq 1 ]
    [ "$(grep -c 'it has RANK=1 and WORLD_SIZE=3, rank 0 has WORLD_SIZE=2' <<<"$output")" -eq 2 ]
}

@test "a rank that dies between two fences is named" {
    cat >"$BATS_TEST_TMPDIR/probe" <<END
#!/bin/sh
[ "\$RANK" != 1 ] || exec "$probe" leave
exec "$probe"
END
    chmod +x "$BATS_TEST_TMPDIR/probe"
    probe=$BATS_TEST_TMPDIR/probe
    SECONDS=0
    job 3 0 1 2
    [ "$SECONDS" -le $((5 * PATIENCE)) ]
    has "rank 1 at 127.0.0.1"
    [ "$(grep -c 'a rank was lost: ' <<<"$output")" -eq 2 ]
}

@test "two ranks of the same number are named" {
    but_rank 2 RANK=1
    job 3 0 1 2
    [ "$status" -eq 1 ]
    has "RANK=1 is also that of the process at 127.0.0.1"
}

@test "variables that are missing or wrong are named" {
    export RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 HVD_JOB_KEY=a-secret-of-the-test
    while IFS='|' read -r setting sentence; do
        # shellcheck disable=SC2086 # some are two words
        run env $setting "$probe"
        [ "$status" -eq 1 ]
        has "$sentence"
    done <<'END'
-u RANK|RANK is not set; give RANK, WORLD_SIZE, MASTER_ADDR
RANK=2|RANK=2: expected a whole number between 0 and 1
RANK=x|RANK=x: expected a whole number
WORLD_SIZE=many|WORLD_SIZE=many: the value does not begin with a digit
WORLD_SIZE=2000000|WORLD_SIZE=2000000: expected a whole number between 1 and 1000000
-u MASTER_PORT|MASTER_PORT is not set
MASTER_PORT=0|MASTER_PORT=0: expected a whole number between 1 and 65535
MASTER_PORT=65536|MASTER_PORT=65536: expected
-u MASTER_ADDR|MASTER_ADDR=: expected the name or address
MASTER_ADDR=a..b|MASTER_ADDR=a..b: 
-u HVD_JOB_KEY|HVD_JOB_KEY is not set: expected a secret of 16 to 4096 characters, the same on all ranks
HVD_JOB_KEY=short|HVD_JOB_KEY is too short
LOCAL_RANK=2|LOCAL_RANK=2: expected a whole number between 0 and 1
LOCAL_WORLD_SIZE=3|LOCAL_WORLD_SIZE=3: expected a whole number between 1 and 2
END
}

@test "a port that is in use is named; where torchrun has it, the next one is taken" {
    cd "$BATS_TEST_TMPDIR"
    export RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT HVD_JOB_KEY=a-secret-of-the-test HVD_START_TIMEOUT=3s
    MASTER_PORT=$(free_port)
    timeout 20 "$probe" 3>&- >/dev/null 2>&1 &
    timeout 10 bash -c 'until exec 9<>/dev/tcp/127.0.0.1/$MASTER_PORT; do :; done' 2>/dev/null
    run "$probe"
    [ "$status" -eq 1 ]
    has "rank 0 cannot listen on port $MASTER_PORT (MASTER_PORT): Address already in use"
    # torchrun has MASTER_PORT itself
    export TORCHELASTIC_USE_AGENT_STORE=True HVD_START_TIMEOUT=20s
    RANK=1 timeout 40 "$probe" 3>&- >other 2>&1 &
    run "$probe"
    wait %2
    has "ok rank=0 size=2 "
    grep -q '^ok rank=1 size=2 ' other
    kill %1
    wait %1 || true
    MASTER_PORT=65535 run "$probe"
    [ "$status" -eq 1 ]
    has "MASTER_PORT=65535: expected a whole number between 1 and 65534"
}

@test "one rank alone needs nothing, but is refused where there should be more" {
    run "$probe"
    [ "$status" -eq 0 ]
    said 1 singleton
    SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 run "$probe"
    [ "$status" -eq 1 ]
    has "SLURM_STEP_NUM_TASKS=4 says that the job has 4 ranks"
    has "srun --mpi=pmix"
}
