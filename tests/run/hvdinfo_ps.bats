#!/usr/bin/env bats
# hvdinfo_ps.bats: hvdinfo ps names the rank that a running job waits for, and why. The program is standing.c, whose last
# rank does something else than the others. Each test asks for its own hvdrun's job, since others may run here.
# shellcheck disable=SC2030,SC2031,SC2154 # each test has variables of its own; hvdrun.bash and bats set some

bats_require_minimum_version 1.5.0
load setup
load hvdrun
load python

setup() {
    hvdrun_setup
    hvdinfo=$HVD_BUILD/bin/hvdinfo
    standing=$HVD_BUILD/tests/run/standing
    started=
}

# The reaper of hvdrun ends the ranks, also stopped ones.
teardown() {
    end_started
    hvdrun_teardown
}

# start WORD...: hvdrun in the background; job is its process
start() {
    "$hvdrun" --no-prefix "$@" >out 2>err 3>&- &
    job=$!
    started="$started $job"
}

# says REGEX [OPTION...]: within 20 s a line of ps is like that
says() {
    local end=$((SECONDS + 20 * PATIENCE)) regex=$1
    shift
    while :; do
        ps_status=0
        "$hvdinfo" ps "$@" "$job" >answer 2>answer.err || ps_status=$?
        ! grep -Eq -- "$regex" answer || return 0
        [ $SECONDS -lt $end ] || { echo "no line like $regex:"; cat answer answer.err; return 1; }
        sleep 0.05
    done
}

@test "a rank in a long computation: others wait for it, and its program runs" {
    start -n 4 "$standing" compute
    says '^  ranks 0-2 \(3\): in allreduce "second" \(3\.91 KiB\) for [0-9.]+ s, waits for rank 3$'
    grep -Eq '^  rank 3 \(pid [0-9]+, cores [0-9,-]+\): has not submitted allreduce "second"; last submitted allreduce "first", [0-9.]+ s ago; its program runs$' answer
    grep -q "^job $job: 4 ranks on $(hostname); rank 0 has submitted 2 operations" answer
    [ "$(wc -l <answer)" -eq 3 ]
    # the exit status says whether somebody stands still
    says . --still-after=1h
    [ "$ps_status" -eq 0 ]
    says . --still-after=1ms
    [ "$ps_status" -eq 1 ]
    says . --all
    [ "$(grep -c '^  rank [0-3] (pid ' answer)" -eq 4 ]
}

@test "a different order of tensors: both ranks, and what each has not submitted" {
    start -n 2 "$standing" order
    says '^  rank 0 .*: in allreduce "a" .*, waits for rank 1; has not submitted allreduce "b"$'
    grep -Eq '^  rank 1 .*: in allreduce "b" .*, waits for rank 0; has not submitted allreduce "a"$' answer
}

@test "a member of a process set that does not come, and nobody else" {
    start -n 3 "$standing" set
    says '^  rank 0 .*: in allreduce "of the set" in process set 1 .* for [0-9.]+ s, waits for rank 1$'
    [ "$(grep -c 'waits for.* 2' answer)" -eq 0 ]
}

@test "a rank that is stopped by a signal" {
    start -n 3 "$standing" work
    says '^job .* operations'
    says '^  of the last seconds: [0-9]+ % computing, [0-9]+ % waiting, [0-9]+ % moving, [0-9.]+ ([KMG]iB|bytes) a second and rank; rank [0-2] waits least \([0-9]+ %\), rank [0-2] most'
    says '^  1 tensors a batch, [0-9]+ % of operations by the response cache, [0-9.]+ .iB a second by shm$'
    grep -Eq ' a second in the last seconds, [0-9.]+ steps a second \([0-9.]+ over 5 minutes\)$' answer
    says '^  rank 1 ' --all
    stopped=$(sed -n 's/^  rank 1 (pid \([0-9]*\),.*/\1/p' answer)
    kill -STOP "$stopped"
    says '^  rank 1 \(pid [0-9]+, cores .*\): stopped by a signal \(SIGSTOP\)'
    [ "$ps_status" -eq 1 ]
    says 'waits for rank 1, which is stopped$'
    kill -CONT "$stopped"
    says '^  rank 1 .*: (in|computing)' --all --still-after=1h
    [ "$ps_status" -eq 0 ]
}

@test "the last commit, and how often the job has been started again" {
    start -n 2 env HVD_RESTART=2 "$standing" commit
    says '^  last commit [0-9.]+ s ago$'
    grep -qx '  started again 2 times' answer
    says '"restarts":2,"commits":1,"seconds_since_commit":[0-9]' --json
}

@test "the last commit of a Python program that keeps none on disk" {
    need_python numpy
    cat >program.py <<'END'
import signal
import hvd
import hvd.elastic

hvd.init()
state = hvd.elastic.ObjectState(step=0)
hvd.elastic.run(lambda state: (state.commit(), state.commit(), signal.pause()))(state)
END
    PYTHONPATH=$HVD_SOURCE/python HVD_LIBRARY=$HVD_BUILD/core/.libs/libhvd.so start -n 2 --min-np=2 "$PYTHON" program.py
    says '"commits":2,"seconds_since_commit":[0-9]' --json
    [ "$(grep -c '"commits":2' answer)" -eq 2 ]
    says '^  last commit [0-9.]+ s ago$'
}

@test "a start that waits for a rank" {
    # shellcheck disable=SC2016 # for the ranks to expand
    start -n 3 sh -c '[ "$PMIX_RANK" != 2 ] || exec sleep 100; exec "$0" work' "$standing"
    says '^  ranks 0,1 \(2\): in hvd_init for [0-9.]+ s, waits for rank 2$'
    grep -Eq '^  rank 2 .*: has not called hvd_init, [0-9.]+ s after its start; its program sleeps' answer
}

@test "a job that ends waits for a rank that goes on" {
    start -n 2 "$standing" leave
    says '^  rank 0 .*: in hvd_shutdown for [0-9.]+ s, waits for rank 1$'
    grep -Eq '^  rank 1 .*: computing for [0-9.]+ s since allreduce "first"$' answer
}

@test "a Python program that waits for its own lock" {
    need_python numpy
    cat >program.py <<'END'
import threading
import numpy
import hvd

hvd.init()
lock = threading.Lock()
lock.acquire()
if hvd.rank() == 1:
    lock.acquire()
hvd.allreduce(numpy.zeros(4, dtype=numpy.float32), name="gradient")
END
    PYTHONPATH=$HVD_SOURCE/python HVD_LIBRARY=$HVD_BUILD/core/.libs/libhvd.so start -n 2 "$PYTHON" program.py
    says '^  rank 0 .*: in allreduce "gradient" \(16 bytes\) for [0-9.]+ s, waits for rank 1$'
    grep -Eq '^  rank 1 .*: has not submitted allreduce "gradient"; has submitted nothing yet; its program sleeps' answer
}

@test "a data loader that cannot write, as the disk is full" {
    need_python numpy
    cat >program.py <<'END'
import multiprocessing, time
import numpy
import hvd

def load(batches):
    while True:
        try:
            with open("/dev/full", "wb") as cache:
                cache.write(b"a batch")
            batches.put(0)
        except OSError:
            time.sleep(0.1)

hvd.init()
batches = multiprocessing.get_context("fork").Queue()
if hvd.rank() == 1:
    multiprocessing.get_context("fork").Process(target=load, args=(batches,), daemon=True).start()
    batches.get()
hvd.allreduce(numpy.zeros(4, dtype=numpy.float32), name="gradient")
END
    PYTHONPATH=$HVD_SOURCE/python HVD_LIBRARY=$HVD_BUILD/core/.libs/libhvd.so start -n 2 "$PYTHON" program.py
    says '^  rank 0 .*: in allreduce "gradient" \(16 bytes\) for [0-9.]+ s, waits for rank 1$'
    says '^  rank 1 .*: has not submitted allreduce "gradient"; has submitted nothing yet; its program sleeps'
    [ "$(grep -c '^  rank' answer)" -eq 2 ] # the loader is no rank
}

@test "programs get an object for each rank" {
    start -n 2 "$standing" compute
    says '"missed":"allreduce ..second' --json # at first it may be late for "first"
    perl -MJSON::PP -e '
        my $all = decode_json(join "", <STDIN>);
        my ($waiting, $late) = @{$all->{ranks}};
        $waiting->{state} eq "waiting" && $all->{awaited}[$waiting->{waits_for}] eq "1" && !defined $late->{waits_for}
            && $waiting->{pending} eq "allreduce \"second\"" && $waiting->{bytes} == 4000 && $all->{version} == 2 or die;
        $late->{rank} == 1 && $late->{missed} eq "allreduce \"second\"" && $late->{last} eq "allreduce \"first\"" or die;
        ' <answer
}

@test "a rank without a launcher is found by its process, and leaves no trace of that" {
    "$standing" work >out 2>err 3>&- &
    job=$!
    started="$started $job"
    says '^job '"$job"': 1 rank on .*; rank 0 has submitted [0-9]+ operations'
    # what it hands its children says nothing of it
    kill "$job"
    wait "$job" || true
    run "$hvdinfo" ps "$job"
    [ "$status" -eq 2 ]
}

@test "who asks as a task is no rank, nor is the shell around it" {
    # shellcheck disable=SC2016 # for the rank to expand
    hvd --no-prefix -n 1 sh -c '"$0" ps $$; echo "status $?"' "$hvdinfo"
    [ "$(cat out)" = 'status 2' ]
    grep -q 'no rank of the job [0-9]* runs on this node' err
}

@test "a job that is asked all the time has the same results" {
    hvd --no-prefix -n 2 "$HVD_BUILD/examples/train" --epochs=20
    grep '^epoch ' out >alone
    start -n 2 "$HVD_BUILD/examples/train" --epochs=20
    local asked=0
    while kill -0 "$job" 2>/dev/null; do
        "$hvdinfo" ps "$job" >answer 2>/dev/null || true
        ! grep -q '^  rank' answer || asked=$((asked + 1))
    done
    wait "$job"
    echo "answered $asked times"
    [ "$asked" -ge 3 ]
    grep '^epoch ' out | diff alone -
}

@test "another user learns nothing" {
    local uid=54321
    [ "$(id -u)" = 0 ] || skip "only root can become another user"
    setpriv --reuid="$uid" --regid="$uid" --clear-groups test -x "$hvdinfo" || skip "other users cannot run $hvdinfo"
    start -n 2 "$standing" compute
    says 'waits for rank 1$'
    run --separate-stderr setpriv --reuid="$uid" --regid="$uid" --clear-groups "$hvdinfo" ps "$job"
    [ "$status" -eq 2 ]
    [ -z "$output" ]
    [[ $stderr == "hvdinfo: ps: no rank of the job $job runs on this node, or none that you may look at"* ]]
    run --separate-stderr setpriv --reuid="$uid" --regid="$uid" --clear-groups "$hvdinfo" stack "$job" 1
    [ "$status" -eq 2 ]
    [ -z "$output" ]
}

# stand_in NAME LINE...: a program that writes its words into the file NAME.words, and prints the lines
stand_in() {
    mkdir -p tools
    printf '%s\n' "${@:2}" >"tools/$1.lines"
    # shellcheck disable=SC2016 # for the stand-in to expand
    printf '#!/bin/sh\necho "$*$DEBUGINFOD_URLS" >%s.words\ncat %s\n' "$PWD/$1" "$PWD/tools/$1.lines" >"tools/$1"
    chmod +x "tools/$1"
}

@test "the stack of a rank: what ps says of it, and its calls by a real tool, after which it goes on" {
    command -v eu-stack >/dev/null || command -v gdb >/dev/null || skip 'neither eu-stack nor gdb is installed'
    start -n 2 "$standing" compute
    says 'waits for rank 1$'
    run --separate-stderr "$hvdinfo" stack "$job" 1
    echo "$output $stderr"
    [ "$status" -eq 0 ]
    [[ ${lines[0]} =~ ^\ \ rank\ 1\ \(pid\ [0-9]+,.*:\ has\ not\ submitted\ allreduce\ \"second\" ]]
    [[ ${lines[1]} =~ ^\ \ its\ main\ thread,\ innermost\ call\ first,\ by\ (eu-stack|gdb):$ ]]
    grep -q ' main' <<<"$output"
    says '; its program runs$' # and is not stopped
}

@test "the stack of a Python program comes from py-spy, and nothing attaches to it unless asked" {
    need_python
    start -n 2 "$PYTHON" -c 'import time; time.sleep(100)'
    says '^  ranks 0,1 \(2\): has not called hvd_init'
    run --separate-stderr env PATH=/nowhere "$hvdinfo" stack "$job" 1
    [ "$status" -eq 2 ]
    [[ ${lines[1]} == '  its calls of Python are not known, as py-spy is not installed on this node: pip install py-spy' ]]
    [ "$stderr" = "hvdinfo: stack: neither eu-stack nor gdb is installed on this node; expected one, as of Debian's packages elfutils or gdb" ]
    stand_in eu-stack 'PID 1 - process' 'TID 1:' '#0  0x01 sleep' '#1  0x02 main'
    stand_in py-spy 'Process 1: python' 'Python v3.11.2 (python3)' '' 'Thread 7 (idle): "loader"' '    get (queue.py:171)' \
        '' 'Thread 8 (idle): "MainThread"' "    load (tr$(printf '\033')ain.py:12)" '    <module> (train.py:40)' ''
    run --separate-stderr env PATH="$PWD/tools:$PATH" DEBUGINFOD_URLS=url "$hvdinfo" stack "$job" 1
    echo "$output $stderr"
    [ "$status" -eq 0 ]
    [[ ${lines[0]} =~ ^\ \ rank\ 1\ \(pid\ ([0-9]+),.*:\ has\ not\ called\ hvd_init ]]
    local pid=${BASH_REMATCH[1]}
    [ "${lines[1]}" = '  its main thread, innermost call first, by py-spy:' ]
    [ "${lines[2]}" = '    load (tr?ain.py:12)' ]
    [ "${lines[3]}" = '    <module> (train.py:40)' ]
    [ "${#lines[@]}" -eq 4 ]
    [ "$(cat py-spy.words)" = "dump --nonblocking --pid $pid" ]
    [ ! -e eu-stack.words ]
    run --separate-stderr env PATH="$PWD/tools:$PATH" DEBUGINFOD_URLS=url "$hvdinfo" stack --native "$job" 1
    [ "${#lines[@]}" -eq 7 ]
    [ "${lines[6]}" = '    #1  0x02 main' ]
    [ "$(cat eu-stack.words)" = "-1 -p $pid" ] # which would ask a server otherwise
    # one that says nothing is told
    printf '#!/bin/sh\necho "Error: no such version" >&2; exit 1\n' >tools/py-spy
    run --separate-stderr env PATH="$PWD/tools:$PATH" "$hvdinfo" stack "$job" 1
    [ "$status" -eq 0 ]
    [[ ${lines[1]} == "  its calls of Python are not known: py-spy names no call of process $pid: Error: no such version"* ]]
}

@test "nothing attaches to a rank that waits for a disk" {
    start -n 2 "$standing" disk
    says '^  rank 1 .*; its program waits for a disk or a file server'
    stand_in eu-stack '#0  0x01 main'
    run --separate-stderr env PATH="$PWD/tools:$PATH" "$hvdinfo" stack "$job" 1
    echo "$output $stderr"
    [ "$status" -eq 2 ]
    [[ $stderr == 'hvdinfo: stack: a thread of process '*' waits for a disk or a file server, so it cannot be attached to'* ]]
    [ ! -e eu-stack.words ]
}

# task RANK NODE: a process that Slurm has started as a rank, on a node, and that never joins
task() {
    HVD_FLIGHT_MEMORY=/nowhere SLURM_JOB_ID=4711 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=$1 SLURMD_NODENAME=$2 \
        sleep 100 3>&- &
    started="$started $!"
}

# squeue names three nodes, of which srun reaches two.
@test "all nodes of a Slurm job are asked, and one that does not answer is named" {
    mkdir slurm
    printf '#!/bin/sh\necho "n[1-3]"\n' >slurm/squeue
    cat >slurm/srun <<'END'
#!/bin/sh
echo "$SLURM_NTASKS $*" >words
while [ "${1#-}" != "$1" ]; do shift; done
case " $* " in
*' stack '*) SLURMD_NODENAME=n2 exec "$@" ;;
esac
echo 'srun: error: n3 is not there' >&2
[ ! -e answering ] || SLURMD_NODENAME=n1 SLURM_NODEID=0 "$@"
[ ! -e answering ] || SLURMD_NODENAME=n2 SLURM_NODEID=1 "$@"
END
    chmod +x slurm/*
    touch answering
    task 0 n1
    task 1 n2
    run --separate-stderr env PATH="$PWD/slurm:$PATH" SLURM_NTASKS=7 "$hvdinfo" ps 4711.0
    [ "$status" -eq 1 ]
    [ "$stderr" = 'hvdinfo: ps: 1 of 3 nodes did not answer: n3' ]
    [[ ${lines[0]} == 'job 4711.0: 3 ranks, 2 of them on several nodes' ]]
    [[ ${lines[1]} == '  ranks 0,1 (2): has not called hvd_init, '* ]]
    grep -q '^ --jobid=4711 --nodes=3 --nodelist=n\[1-3\] --ntasks-per-node=1 .* ps --node --encoded 4711.0$' words # no option of the job it is in
    # the stack of one is asked of its node
    stand_in eu-stack '#0  0x01 nanosleep'
    run --separate-stderr env PATH="$PWD/slurm:$PWD/tools:$PATH" "$hvdinfo" stack 4711.0 1
    echo "$output $stderr"
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == '  rank 1 (n2, pid '*'): has not called hvd_init, '* ]]
    [ "${lines[2]}" = '    #0  0x01 nanosleep' ]
    grep -Eq '^ --jobid=4711 --nodes=1 --nodelist=n2 .* stack --node --encoded [0-9]+ 1$' words
    printf '#!/bin/sh\necho "no such process" >&2\n' >tools/eu-stack
    run --separate-stderr env PATH="$PWD/slurm:$PWD/tools:$PATH" "$hvdinfo" stack 4711.0 1
    [ "$status" -eq 2 ]
    [[ $stderr == *'hvdinfo: stack: on n2: hvdinfo: stack: eu-stack names no call of process '*': no such process' ]]
    run --separate-stderr env PATH="$PWD/slurm:$PATH" "$hvdinfo" ps --node 4711
    [[ ${lines[0]} == 'job 4711.0: 3 ranks, 2 of them on '* ]]
    rm answering
    run --separate-stderr env PATH="$PWD/slurm:$PATH" "$hvdinfo" ps 4711
    [ "$status" -eq 1 ]
    [ "$stderr" = 'hvdinfo: ps: only the ranks of this node are shown: no node of the job 4711 answers: srun: error: n3 is not there' ]
    [ "$(grep -c 'ranks 0,1 ' <<<"$output")" -eq 1 ]
    # top asks them as well, and ends with the ranks
    touch answering
    PATH="$PWD/slurm:$PATH" "$hvdinfo" top 4711.0 >shown 2>&1 3>&- &
    local top=$!
    await_lines shown 3
    grep -q 'of 3 nodes did not answer: n3' shown
    grep -q 'job 4711.0: 3 ranks, 2 of them on several nodes' shown
    end_started
    wait "$top"
}

@test "ps, top, stack and metrics ask some nodes for the others, as many as --fan-out says" {
    local call
    mkdir slurm
    printf '#!/bin/sh\necho "n[1-5]"\n' >slurm/squeue
    printf '#!/bin/sh\necho "$*" >words\n' >slurm/srun
    chmod +x slurm/*
    for call in 'ps 4711.0' 'top 4711.0' 'stack 4711.0 1' 'metrics 4711.0'; do
        # shellcheck disable=SC2086 # words
        run env PATH="$PWD/slurm:$PATH" "$hvdinfo" $call --fan-out=2
        echo "$call: $(cat words): $output"
        [ "$status" -eq 2 ]
        [ "$output" = "hvdinfo: ${call%% *}: no node of the job 4711.0 answers: no message" ]
        grep -Eq '^--jobid=4711 --nodes=3 --nodelist=n1,n3,n5 .* ps --fan-out=2 --encoded 4711.0( --all)?$' words
        rm words
    done
}

@test "the records that ranks wrote say the same after the end" {
    start -n 3 --hvd-dump-dir="$PWD/dumps" "$standing" compute
    says 'waits for rank 2$'
    kill -USR2 "$job"
    for rank in 0 1 2; do
        await_lines "dumps/hvd-flight.$rank.txt" 5
    done
    kill "$job"
    wait "$job" || true
    run --separate-stderr "$hvdinfo" ps --dump-dir=dumps --still-after=1us
    echo "$output"
    [ "$status" -eq 1 ]
    [[ ${lines[0]} == "job in dumps: 3 ranks on $(hostname); rank 0 has submitted 2 operations"* ]]
    [[ ${lines[1]} =~ ^\ \ ranks\ 0,1\ \(2\):\ in\ allreduce\ \"second\"\ \(3\.91\ KiB\)\ for\ [0-9.]+\ s,\ waits\ for\ rank\ 2$ ]]
    [[ ${lines[2]} =~ ^\ \ rank\ 2\ .*:\ has\ not\ submitted\ allreduce\ \"second\"\;\ last\ submitted\ allreduce\ \"first\" ]]
    [ "${lines[3]}" = '  written because of: SIGUSR2' ]
    "$hvdinfo" ps --dump-dir=dumps --json >answer
    grep -q '"rank":2,.*"state":"late".*"missed":"allreduce \\"second\\""' answer
    echo hello >dumps/hvd-flight.1.txt
    run "$hvdinfo" ps --dump-dir=dumps
    [ "$status" -eq 2 ]
    [ "$output" = 'hvdinfo: ps: dumps/hvd-flight.1.txt is no flight record of this version of hvd' ]
    rm dumps/*
    run "$hvdinfo" ps --dump-dir=dumps
    [ "$status" -eq 2 ]
    has 'hvdinfo: ps: the folder dumps has no flight record'
}

@test "flight records for torchfrtrace, which reads pickles" {
    need_python
    start -n 3 "$standing" compute
    says 'waits for rank 2$'
    "$hvdinfo" ps "$job" --torch=torch --still-after=1h
    "$PYTHON" - <<'END'
import ast, pickle
ranks = [pickle.load(open(f"torch/hvd_trace_rank_{rank}", "rb")) for rank in range(3)]
assert len({dump["version"] for dump in ranks}) == 1
assert all(ast.literal_eval(dump["pg_config"]["0"]["ranks"]) == [0, 1, 2] for dump in ranks)
done = [dump["entries"][0] for dump in ranks]
assert all(entry["collective_seq_id"] == 1 and entry["state"] == "completed" and entry["retired"] for entry in done)
waiting = [dump["entries"][1] for dump in ranks[:2]]
for entry in waiting:
    assert entry["profiling_name"] == "nccl:all_reduce" and entry["process_group"] == ("0", "default_pg")
    assert entry["collective_seq_id"] == 2 and entry["state"] == "scheduled" and entry["is_p2p"] is False
    assert entry["input_sizes"] == entry["output_sizes"] == [[4000]] and entry["time_discovered_started_ns"] is None
    assert entry["frames"] == [{"name": 'allreduce "second"', "filename": "hvd", "line": 0}]
assert len(ranks[2]["entries"]) == 1
END
    run "$hvdinfo" ps "$job" --torch=/nowhere/torch
    [ "$status" -eq 2 ]
    [ "$output" = 'hvdinfo: ps: --torch=/nowhere/torch: the folder cannot be made: No such file or directory' ]
}

@test "metrics of each rank, for node_exporter, in a file that is replaced as a whole" {
    start -n 2 "$standing" compute
    says 'waits for rank 1$'
    "$hvdinfo" metrics "$job" --output="$PWD/job.prom" --still-after=1us
    grep -q "^hvd_rank_late{job_name=\"$job\",slurm_job_id=\"\",node=\"$(hostname)\",rank=\"1\"} 1$" job.prom
    grep -q '^hvd_rank_state_seconds{.*,rank="0",state="waiting"} [0-9.]*$' job.prom
    grep -q '^hvd_rank_stands_still{.*rank="0"} 1$' job.prom
    grep -q '^hvd_rank_waits_for_ranks{.*rank="0"} 1$' job.prom
    grep -q '^hvd_rank_operations_total{.*rank="0"} 2$' job.prom
    grep -q '^hvd_rank_batch_bytes_total{.*rank="0",backend="shm"} 4000$' job.prom
    [ "$(find . -name '*.prom*')" = ./job.prom ]
    # the manual has all of them, and the dashboard shows no others
    sed -n 's/^# TYPE \([a-z_]*\) \(.*\)/\1 Pq \2/p' job.prom | sort >written
    sed -n 's/^\.It Cm \(hvd_rank_[a-z_]*\) \(Pq .*\)/\1 \2/p' "$HVD_SOURCE/man/hvdinfo.1" | sort | diff - written
    perl -MJSON::PP -e 'decode_json(join "", <STDIN>)' <"$HVD_SOURCE/examples/grafana.json"
    grep -o 'hvd_rank_[a-z_]*' "$HVD_SOURCE/examples/grafana.json" | sort -u >shown
    [ "$(wc -l <shown)" -gt 3 ]
    run grep -vxFf <(cut -d ' ' -f 1 written) shown
    [ -z "$output" ]
    end_started
    run "$hvdinfo" metrics "$job" --node
    [ "$status" -eq 0 ]
    has '# TYPE hvd_rank_late gauge'
    [ "$(grep -c '^#' <<<"$output")" -eq "${#lines[@]}" ]
    run "$hvdinfo" metrics "$job" --node --output=/nowhere/job.prom
    [ "$status" -eq 2 ]
    has 'hvdinfo: metrics: --output=/nowhere/job.prom: No such file or directory; expected a file'
}

# ask PATH: what the socket answers, or why it cannot be asked
ask() {
    perl -MIO::Socket::UNIX -e '
        my $socket = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "$!\n";
        print $socket "GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n";
        print while <$socket>;' "$1"
}

@test "metrics at a socket, for its user only, until the end" {
    start -n 2 "$standing" compute
    says 'waits for rank 1$'
    "$hvdinfo" metrics "$job" --output="unix:$PWD/socket" >served 2>&1 3>&- &
    local server=$! end=$((SECONDS + 20 * PATIENCE))
    started="$started $server"
    until ask socket >answer 2>/dev/null || [ $SECONDS -ge $end ]; do sleep 0.05; done
    grep -q '^HTTP/1.0 200 OK' answer
    grep -q "^hvd_rank_late{job_name=\"$job\",.*rank=\"1\"} 1$" answer
    ask socket | grep -q '^hvd_rank_late'
    [ "$(stat -c %a socket)" = 700 ]
    run "$hvdinfo" metrics --output="unix:$PWD/socket"
    [ "$status" -eq 2 ]
    [[ $output == "hvdinfo: metrics: --output=unix:$PWD/socket: Address already in use; expected the path of a socket"* ]]
    kill "$server"
    wait "$server"
    [ ! -e socket ]
    [ ! -s served ]
}

# shows REGEX...: within 20 s there is a line like each on the screen
shows() {
    local regex end=$((SECONDS + 20 * PATIENCE))
    for regex in "$@"; do
        until tr -d '\r' <screen | grep -q -- "$regex"; do
            [ $SECONDS -lt $end ] || { echo "no line like $regex:"; tail -n 40 screen; return 1; }
            sleep 0.05
        done
    done
}

@test "top shows the same until the job has ended" {
    start -n 2 "$standing" compute
    says 'waits for rank 1$'
    "$hvdinfo" top "$job" >shown 3>&- &
    started="$started $!"
    local top=$!
    await_lines shown 3
    kill "$job"
    wait "$top"
    grep -q 'waits for rank 1$' shown
}

@test "top --once looks once, with the exit status of ps" {
    start -n 2 "$standing" compute
    says 'waits for rank 1$'
    run -0 "$hvdinfo" top --once --still-after=100s "$job"
    [ "${#lines[@]}" -eq 3 ]
    run -1 "$hvdinfo" top --once --still-after=1us "$job"
    [ "${#lines[@]}" -eq 3 ]
    run -2 "$hvdinfo" top --once none
    [[ $output == 'hvdinfo: top: no rank of the job none runs on this node, '* ]]
}

@test "top takes keys, and leaves the terminal as it was" {
    command -v script >/dev/null || skip 'script of util-linux is not installed'
    start -n 3 "$standing" compute
    says 'waits for rank 2$'
    mkfifo keys
    timeout 120 script -qefc "stty rows 50 cols 200; '$hvdinfo' top $job; echo ended \$?; stty -a" screen <keys >/dev/null 2>&1 3>&- &
    local top=$!
    started="$started $top"
    exec 7>keys
    shows ', waits for rank 2' 'space: pause  a: each rank  s: sort by rank'
    printf a >&7
    shows '^  rank 0 (pid .*, waits for rank 2' 'a: together'
    printf s >&7
    shows 'sort by time'
    printf 'jj\033[B' >&7
    shows '^  rank 2 (pid ' '^    allreduce "first" (3.91 KiB), done since'
    printf ' ' >&7
    shows 'space: go on'
    printf q >&7
    shows 'ended 0' ' icanon.*' ' echo '
    exec 7>&-
    wait "$top"
}

@test "what is no call of ps or top is refused in one sentence" {
    run "$hvdinfo" ps --still-after=5
    [ "$status" -eq 2 ]
    [ "$output" = 'hvdinfo: ps: --still-after=5: the value has no unit; expected a time such as 500ms or 10s' ]
    run "$hvdinfo" ps 1 2
    [ "$status" -eq 2 ]
    has 'hvdinfo: ps: 2: expected one job, --all, --once, --json, --node, --dump-dir=DIR, --torch=DIR, --fan-out=NODES or --still-after=TIME'
    run "$hvdinfo" stack 1
    [ "$status" -eq 2 ]
    has 'hvdinfo: stack: expected a job and one of its ranks, such as hvdinfo stack 4711.0 3'
    run "$hvdinfo" stack 1 one
    [ "$status" -eq 2 ]
    has 'hvdinfo: stack: one: expected the number of a rank'
    run "$hvdinfo" stack 1 2 3
    [ "$status" -eq 2 ]
    has 'hvdinfo: stack: 3: expected a job, one of its ranks, --native, --node or --fan-out=NODES'
    run "$hvdinfo" top --json
    [ "$status" -eq 2 ]
    has 'hvdinfo: top: --json: expected one job, --all, --once, --node, --fan-out=NODES or --still-after=TIME'
    run "$hvdinfo" metrics 1 --fan-out=65537
    [ "$status" -eq 2 ]
    [ "$output" = 'hvdinfo: metrics: --fan-out=65537: the number is too large; expected 1 to 65536' ]
    run "$hvdinfo" ps 999999999
    [ "$status" -eq 2 ]
    has 'no rank of the job 999999999 runs on this node'
}
