#!/usr/bin/env bats
# python_elastic.bats: hvd.elastic and hvd.torch.elastic, with ranks that are lost. elastic_training.py checks each step.

# shellcheck disable=SC2030,SC2031 # each test has variables of its own

bats_require_minimum_version 1.5.0
load setup
load python

setup() {
    need_hvdrun
    need_python numpy
    export PYTHONPATH=$HVD_SOURCE/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
}

# elastic N FEWEST PROGRAM WORD...: run a program of tests/python
elastic() {
    local size=$1 fewest=$2 program=$3
    shift 3
    run timeout -k 5 100 "$HVD_BUILD/bin/hvdrun" --no-prefix -n "$size" --min-np="$fewest" \
        ${restarts:+--max-restarts=$restarts} "${options[@]}" "$PYTHON" "$HVD_SOURCE/tests/python/$program" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "two are killed at once, rank 0 among them, and then one before it has saved its commit" {
    elastic 4 1 elastic_training.py 5 0@7:kill 3@7:kill 2@15:save
    has 'rank 0 of 1, once rank 1: epochs 4@0 2@5 1@15, resets [2, 1]'
}

@test "rank 0 is killed in a reset callback, and then one that has saved its commit" {
    elastic 4 1 elastic_training.py 5 3@12:kill 0@0:reset 1@25:commit
    has 'rank 0 of 1, once rank 2: epochs 4@0 2@10 1@25, resets [3, 2, 1]'
}

@test "rank 0 is killed as it sends the state after news, which costs no step" {
    elastic 3 1 elastic_training.py 5 1@7:notice 0@0:sync
    has 'rank 0 of 2, once rank 1: epochs 3@0 2@8, resets [3, 2]'
}

@test "one is killed as it sends the state after a loss, and then one as it gets it" {
    elastic 4 1 elastic_training.py 5 3@12:kill 0@0:sync
    has 'rank 0 of 2, once rank 1: epochs 4@0 2@10, resets [3, 2]'
    elastic 4 1 elastic_training.py 5 0@12:kill 3@0:sync
    has 'rank 0 of 2, once rank 1: epochs 4@0 2@10, resets [3, 2]'
}

@test "all are killed at once, and begin again from the disk" {
    restarts=1
    options=(--hvd-state-dir="$BATS_TEST_TMPDIR/disk")
    elastic 2 1 elastic_training.py 5 0@27:kill 1@27:kill
    grep -Eq '^rank 0 of [12], once rank [01]: epochs [12]@(5|10|15|20|25)[ ,]' <<<"$output"
    [ "$(grep -c 'killed by SIGKILL' <<<"$output")" = 2 ]
}

@test "one that is started again joins, and the others lose nothing" {
    restarts=1
    elastic 3 2 elastic_training.py 5 0@12:kill 1@23:news 2@23:news
    has 'rank 0 of 3, once rank 1: epochs 3@0 2@10 3@23, resets [2, 3]'
    has 'rank 2 of 3, once rank 0: epochs 3@23, resets []'
}

# train_elastic NAME N FEWEST SEED DEATHS: examples/train_elastic.py; the result goes into a file of that name, and DEATHS
# ranks are killed at random
train_elastic() {
    run timeout -k 5 150 "$HVD_BUILD/bin/hvdrun" --no-prefix -n "$2" --min-np="$3" --max-restarts=1 \
        "$PYTHON" "$HVD_SOURCE/tests/python/elastic_torch.py" "$HVD_SOURCE/examples/train_elastic.py" "$4" "$5" 60000 \
        --epochs=2 --checkpoint="$BATS_TEST_TMPDIR/$1"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'killed by SIGKILL' <<<"$output")" -eq "$5" ]
}

@test "a script that is killed at random points ends with the parameters of an undisturbed run" {
    need_python torch
    train_elastic undisturbed 1 1 0 0
    # two go on after the first loss; one waits after the second
    train_elastic disturbed 3 2 $RANDOM 2
    "$PYTHON" -c 'import sys, torch
one, other = [torch.load(each) for each in sys.argv[1:]]
for name in one:
    torch.testing.assert_close(other[name], one[name], rtol=0, atol=1e-9)' "$BATS_TEST_TMPDIR"/{undisturbed,disturbed}
}

@test "the script of docs/elastic.md and horovod.run train elastic" {
    need_python torch
    export PYTHONPATH=$HVD_SOURCE/python/compat:$PYTHONPATH
    cd "$BATS_TEST_TMPDIR"
    awk '/^    import torch/ { on = 1 } on { print substr($0, 5) } /^    train\(state\)/ { exit }' "$HVD_SOURCE/docs/elastic.md" >train.py
    run timeout -k 5 100 "$PYTHON" -m horovod.runner.launch -np 2 --min-np 1 --max-np 2 --elastic-timeout 50 -H localhost:2 "$PYTHON" train.py
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    run timeout -k 5 100 "$PYTHON" "$HVD_SOURCE/tests/python/elastic_launching.py"
    echo "$output"
    [ "$status" -eq 0 ]
    has "[[0, '0', '2', '1', '1'], [1, '1', '2', '1', '2'], None]"
    has '[(0, 3), (1, 3), (2, 3)]'
    has 'hvdrun: rank 0 killed by SIGKILL; 1 of 2 ranks wait for others; this host is left out for 1s'
    has "[[0, '0', '2', '1', '1'], [1, '1', '2', '1', '0']]"
}

@test "the script of docs/elastic.md for hvd.launch gives the results of all ranks" {
    cd "$BATS_TEST_TMPDIR"
    awk '/^    import hvd$/ { on = 1 } on && /^(    |$)/ { print substr($0, 5) } on && /print\(rank,/ { exit }' \
        "$HVD_SOURCE/docs/elastic.md" >launch.py
    run timeout -k 5 100 "$PYTHON" launch.py
    echo "$output"
    [ "$status" -eq 0 ]
    has "'event': 'job_ended'"
    [[ ${lines[-1]} =~ ^'{0: 2.99992'.*', 3: 2.99992'[0-9]*'}'$ ]]
}

@test "horovodrun takes Horovod's options of elastic jobs, and Horovod's script grows and shrinks" {
    export PYTHONPATH=$HVD_SOURCE/python/compat:$PYTHONPATH ELASTIC_HOSTS=$BATS_TEST_TMPDIR/hosts
    local horovodrun=("$PYTHON" -m horovod.runner.launch)
    echo localhost:2 >"$ELASTIC_HOSTS"
    run timeout -k 5 100 "${horovodrun[@]}" --min-np 2 --max-np 4 --host-discovery-script "cat $ELASTIC_HOSTS" --elastic-timeout 60 \
        --start-timeout 50 --reset-limit 2 "$PYTHON" "$HVD_SOURCE/tests/python/elastic_training.py" 5 \
        0@10:hosts4 {0,1}@10:news 0@20:hosts3 {0,1,2,3}@20:news
    echo "$output"
    [ "$status" -eq 0 ]
    has 'rank 0 of 3, once rank 0: epochs 2@0 4@10 3@20, resets [4, 3]'
    has 'rank 2 of 3, once rank 2: epochs 4@10 3@20, resets [3]'
    HOROVOD_ELASTIC_TIMEOUT=1 run timeout -k 5 100 "${horovodrun[@]}" -np 4 --host-discovery-script "cat $ELASTIC_HOSTS" true
    [ "$status" -eq 75 ]
    has 'no more than 3 slots for 1s (--elastic-timeout)'
    run "${horovodrun[@]}" -np 2 --blacklist-cooldown-range 1 5 true
    [ "$output" = 'horovodrun: --blacklist-cooldown-range is ignored: the job is not elastic; --min-np makes it so' ]
    run "${horovodrun[@]}" -np 2 --min-np 1 --blacklist-cooldown-range 5 1 true
    [ "$status" -eq 2 ]
    has 'hvdrun: --host-cooldown 5s:1s: expected the shortest and the longest time'
    run "${horovodrun[@]}" -np 2 --min-np 1 --blacklist-cooldown-range=5 true
    [ "$output" = 'horovodrun: --blacklist-cooldown-range needs 2 values' ]
    run "${horovodrun[@]}" -np 2 --elastic-timeout 5 true
    [ "$output" = 'horovodrun: --elastic-timeout is ignored: the job is not elastic; --min-np makes it so' ]
}

# killed N COMMITS PROGRAM ARG...: train with commits on disk; after COMMITS commits hvdrun is killed
killed() {
    local size=$1 commits=$2
    shift 2
    # shellcheck disable=SC2016 # the shell of hvdrun expands it
    ELASTIC_LAUNCHER=$BATS_TEST_TMPDIR/pid run timeout -k 5 100 sh -c 'echo $$ >"$ELASTIC_LAUNCHER"; exec "$@"' - \
        "$HVD_BUILD/bin/hvdrun" --no-prefix -n "$size" --hvd-state-dir="$BATS_TEST_TMPDIR/disk" \
        "$PYTHON" "$HVD_SOURCE/tests/python/elastic_killed.py" "$1" "$commits" "${@:2}"
    echo "$output"
    [ "$status" -eq 137 ]
}

# on_disk N PROGRAM ARG...: train with commits on disk
on_disk() {
    local size=$1
    shift
    run timeout -k 5 100 "$HVD_BUILD/bin/hvdrun" --no-prefix -n "$size" --hvd-state-dir="$BATS_TEST_TMPDIR/disk" "$PYTHON" "$@"
    echo "$output"
}

@test "hvdrun is killed, and the same command goes on from the last commit on disk" {
    killed 2 4 "$HVD_SOURCE/tests/python/elastic_training.py" 5
    on_disk 2 "$HVD_SOURCE/tests/python/elastic_training.py" 5
    [ "$status" -eq 0 ]
    [[ $output =~ 'rank 0 of 2, once rank 0: epochs 2@'(5|10|15|20)', resets []' ]]
    # what is done is not done again, by another number of ranks either
    on_disk 3 "$HVD_SOURCE/tests/python/elastic_training.py" 5
    [ "$status" -eq 0 ]
    has 'rank 2 of 3, once rank 2: epochs 3@30, resets []'
}

@test "an elastic job that loses rank 0 leaves the commits of its successor on disk" {
    run timeout -k 5 100 "$HVD_BUILD/bin/hvdrun" --no-prefix -n 3 --min-np=2 --hvd-state-dir="$BATS_TEST_TMPDIR/disk" \
        "$PYTHON" "$HVD_SOURCE/tests/python/elastic_training.py" 5 0@7:kill
    echo "$output"
    [ "$status" -eq 0 ]
    on_disk 2 "$HVD_SOURCE/tests/python/elastic_training.py" 5
    [ "$status" -eq 0 ]
    has 'rank 0 of 2, once rank 0: epochs 2@30, resets []'
}

@test "models, optimizers and samplers go on from the disk as if nothing had happened" {
    need_python torch
    local program=$HVD_SOURCE/examples/train_elastic.py
    run timeout -k 5 100 "$HVD_BUILD/bin/hvdrun" --no-prefix -n 2 "$PYTHON" "$program" --epochs=2 --checkpoint="$BATS_TEST_TMPDIR/whole"
    [ "$status" -eq 0 ]
    killed 2 4 "$program" --epochs=2
    on_disk 2 "$program" --epochs=2 --checkpoint="$BATS_TEST_TMPDIR/again"
    [ "$status" -eq 0 ]
    has '2 ranks begin epoch 1 at '
    [[ $output != *'2 ranks begin epoch 1 at 0'* ]]
    "$PYTHON" -c 'import sys, torch
one, other = [torch.load(each) for each in sys.argv[1:]]
for name in one:
    torch.testing.assert_close(other[name], one[name], rtol=0, atol=1e-9)' "$BATS_TEST_TMPDIR"/{whole,again}
    # another state
    sed 's/sampler=sampler, epoch=1/sampler=sampler, epoch=1, more=2/' "$program" >"$BATS_TEST_TMPDIR/train.py"
    PYTHONPATH=$PYTHONPATH:$HVD_SOURCE/examples on_disk 2 "$BATS_TEST_TMPDIR/train.py" --epochs=2 --data="$HVD_SOURCE/examples/digits.csv"
    [ "$status" -ne 0 ]
    has 'MismatchError: hvd_state_read: '
    has 'holds "values: epoch, model, optimizer, sampler", and this program has "values: epoch, model, more, optimizer, sampler"'
    # another model
    sed 's/Linear(\([^,]*\), 10)/Linear(\1, 11)/' "$HVD_SOURCE/examples/train_torch.py" >"$BATS_TEST_TMPDIR/train_torch.py"
    cp "$program" "$BATS_TEST_TMPDIR/train.py"
    on_disk 2 "$BATS_TEST_TMPDIR/train.py" --epochs=2 --data="$HVD_SOURCE/examples/digits.csv"
    [ "$status" -ne 0 ]
    has 'MismatchError: hvd.elastic.run: the commit in --hvd-state-dir does not fit the state of this program: RuntimeError: '
}

# ddp N FEWEST ARG...: tests/python/elastic_ddp.py, which checks the parameters; so many ranks must end right
ddp() {
    local right=$1
    shift
    need_python torch.distributed
    elastic "$1" "$2" elastic_ddp.py "${@:3}"
    [ "$(grep -c 'ends right' <<<"$output")" = "$right" ]
}

@test "DistributedDataParallel goes on after reform, when rank 0 and then another one are lost" {
    ddp 2 4 1 loop 10 0@3 2@5
    # a step that is done on the rank that is lost may have failed on the others
    grep -q '^rank 0 of 3 at [23]$' <<<"$output"
    grep -q '^rank 0 of 2 at [2345]$' <<<"$output"
}

@test "inside hvd.elastic.run it goes back to the last commit" {
    ddp 2 4 1 run 10 0@3 2@5
    has 'rank 0 of 3 at 2'
    has 'rank 0 of 2 at 4'
}

@test "with it one that is started again joins" {
    restarts=1
    ddp 3 3 3 run 10 0@3
    has 'rank 2 of 3 at 2'
}

@test "the script of docs/elastic.md for torch.distributed trains" {
    need_python torch.distributed
    cd "$BATS_TEST_TMPDIR"
    awk '/^    import torch.distributed/ { on = 1 } on { print substr($0, 5) } on && /^    train\(state\)/ { exit }' \
        "$HVD_SOURCE/docs/elastic.md" >train.py
    run timeout -k 5 100 "$HVD_BUILD/bin/hvdrun" -n 3 --min-np=2 "$PYTHON" train.py
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "a loss in backward of DistributedDataParallel that nobody catches is an error of one line" {
    need_python torch.distributed
    run timeout -k 5 100 "$HVD_BUILD/bin/hvdrun" -n 3 --min-np=1 "$PYTHON" "$HVD_SOURCE/tests/python/elastic_ddp.py" plain 10 1@3
    echo "$output"
    [ "$status" -ne 0 ]
    [ "$(grep -c 'RankLostError: allreduce .*: rank 1 (.* was lost' <<<"$output")" -ge 1 ] # the other may be ended before
    run ! grep -E 'Traceback|[Ss]egmentation|dumped' <<<"$output"
}
