#!/usr/bin/env bats
# elastic.bats: with --min-np a job goes on without ranks that fail. elastic.c checks each step.

bats_require_minimum_version 1.5.0
load setup
load python

setup() {
    need_hvdrun
}

# train N FEWEST WORD...: train on N ranks, of which FEWEST must be left; WORDs are those of elastic.c
train() {
    local size=$1 fewest=$2
    shift 2
    run timeout -k 5 40 "$HVD_BUILD/bin/hvdrun" --no-prefix -n "$size" --min-np="$fewest" \
        ${backends:+--hvd-backends=$backends} ${restarts:+--max-restarts=$restarts} \
        "$HVD_BUILD/tests/run/elastic" "$@"
    echo "$output"
}

# state N FEWEST INTERVAL WORD...: train by hvd_elastic_run, see elastic_state.c; FROM is where epochs begin
state() {
    local size=$1 fewest=$2
    shift 2
    run timeout -k 5 40 "$HVD_BUILD/bin/hvdrun" --no-prefix -n "$size" --min-np="$fewest" \
        ${backends:+--hvd-backends=$backends} ${restarts:+--max-restarts=$restarts} "$HVD_BUILD/tests/run/elastic_state" "$@"
    echo "$output"
    from=$(sed -n 's/^epoch of \([0-9]*\) ranks from step \([0-9]*\)$/\1@\2/p' <<<"$output" | xargs)
}

# on_disk N WORD...: as state, with commits on disk, in [folder]; the ranks' shells run [before] first
on_disk() {
    local size=$1
    shift
    run timeout -k 5 60 "$HVD_BUILD/bin/hvdrun" --no-prefix -n "$size" --hvd-state-dir="${folder:-$BATS_TEST_TMPDIR/disk}" \
        ${options:+$options} sh -c "${before:-:}; exec \"\$@\"" - "$HVD_BUILD/tests/run/elastic_state" 5 "$@"
    echo "$output"
    from=$(sed -n 's/^epoch of \([0-9]*\) ranks from step \([0-9]*\)$/\1@\2/p' <<<"$output" | xargs)
}

# kill_hvdrun N: train with commits on disk until rank 0 kills hvdrun in step 22
kill_hvdrun() {
    # shellcheck disable=SC2016 # the shell of hvdrun expands it
    ELASTIC_LAUNCHER=$BATS_TEST_TMPDIR/pid run timeout -k 5 60 sh -c 'echo $$ >"$ELASTIC_LAUNCHER"; exec "$@"' - \
        "$HVD_BUILD/bin/hvdrun" --no-prefix -n "$1" --hvd-state-dir="$BATS_TEST_TMPDIR/disk" \
        "$HVD_BUILD/tests/run/elastic_state" 5 0@6:written 0@22:launcher
    echo "$output"
    [ "$status" -eq 137 ]
    [[ $output == *"epoch of $1 ranks from step 0"* && $output != *'all steps are right'* ]]
}

# break_file FILE: change the byte in the middle of it
break_file() {
    local middle=$(($(stat -c %s "$1") / 2))
    printf '%b' "\\x$(printf %02x $((0x$(xxd -s $middle -l 1 -p "$1") ^ 1)))" | dd of="$1" bs=1 seek=$middle conv=notrunc status=none
}

@test "the others go on without a rank that was killed, on every backend" {
    for backends in shm,local tcp,local; do
        train 4 2 2@10
        [ "$status" -eq 0 ]
        has 'rank 0 of 3, once rank 0, after 1 losses'
        has 'hvdrun: rank 2 killed by SIGKILL; 3 of 4 ranks go on'
    done
}

@test "a rank that does not join the next epoch within the start timeout is lost, if enough others have" {
    HVD_START_TIMEOUT=2s train 4 2 3@10 1@late
    [ "$status" -eq 0 ]
    has 'hvdrun: rank 1 killed by SIGKILL; 2 of 4 ranks go on'
    [ "$(grep -c 'warning: epochs: rank 1 has not joined epoch 1 within --hvd-start-timeout; the others go on without it$' <<<"$output")" -eq 1 ]
    has 'rank 0 of 2, once rank 0, after 1 losses'
}

@test "a rank that stops on its way to the others of the next epoch is lost, if enough others are left" {
    HVD_START_TIMEOUT=2s train 4 2 3@10 1@stop
    [ "$status" -eq 0 ]
    has 'hvdrun: rank 1 killed by SIGKILL; 2 of 4 ranks go on'
    has 'rank 0 of 2, once rank 0, after 1 losses'
}

@test "rank 0 is like any other" {
    train 4 2 0@10
    [ "$status" -eq 0 ]
    has 'rank 0 of 3, once rank 1, after 1 losses'
}

@test "messages go on among those that are left" {
    ELASTIC_MESSAGES=yes train 4 2 2@10 0@20
    [ "$status" -eq 0 ]
    has 'rank 0 of 2, once rank 1, after 2 losses'
}

@test "one rank can be left" {
    train 2 1 1@3
    [ "$status" -eq 0 ]
    has 'rank 0 of 1, once rank 0, after 1 losses'
}

@test "ranks are lost one after the other, and two at once" {
    train 6 2 0@5 5@20 3@20 1@40
    [ "$status" -eq 0 ]
    has 'rank 0 of 2, once rank 2'
}

@test "a rank that is lost while the next epoch begins is not waited for" {
    train 4 2 3@10 1@connect
    [ "$status" -eq 0 ]
    has 'hvdrun: rank 1 killed by SIGKILL; 2 of 4 ranks go on'
    has 'rank 0 of 2, once rank 0'
}

@test "one that exits, or leaves without hvd_shutdown, is lost as well" {
    train 4 2 3@exit 0@quit
    [ "$status" -eq 0 ]
    has 'hvdrun: rank 3 exited with status 7; '
    has 'hvdrun: rank 0 exited without leaving the job; '
    has 'rank 0 of 2, once rank 1'
}

@test "with too few left the job ends, and the first failure is named" {
    train 3 2 0@5 1@30
    [ "$status" -eq 137 ]
    has 'hvdrun: rank 0 killed by SIGKILL; 2 of 3 ranks go on'
    [[ ${lines[-1]} == 'hvd: rank 0 ('*') failed first: killed by SIGKILL, '* ]]
}

@test "without --min-np the first failure ends the job" {
    run timeout -k 5 100 "$HVD_BUILD/bin/hvdrun" --no-prefix -n 3 "$HVD_BUILD/tests/run/elastic" 1@5
    [ "$status" -eq 137 ]
    [[ ${lines[-1]} == 'hvd: rank 1 ('*') failed first: killed by SIGKILL, '* ]]
}

@test "a rank that fails before it joins ends the job" {
    run timeout -k 5 100 "$HVD_BUILD/bin/hvdrun" --no-prefix -n 3 --min-np=1 sh -c 'exit 5'
    [ "$status" -eq 5 ]
}

@test "more ranks than there are cannot be asked for" {
    run timeout -k 5 100 "$HVD_BUILD/bin/hvdrun" -n 3 --min-np=4 true
    [ "$status" -eq 2 ]
    has '--min-np 4: the job has only 3 ranks; expected 1 to 3'
}

@test "a rank that failed is started again, and waited for if too few are left" {
    restarts=2
    train 3 3 0@10
    [ "$status" -eq 0 ]
    has 'hvdrun: rank 0 killed by SIGKILL; 2 of 3 ranks wait for it, which starts again in 1 s, restart 1 of 2'
    has 'rank 0 of 3, once rank 1, after 1 losses'
    for backends in shm,local tcp,local; do
        train 2 2 1@10
        [ "$status" -eq 0 ]
        has 'rank 0 of 2, once rank 0, after 1 losses'
    done
}

@test "ranks that have all failed begin again together" {
    mkdir "$BATS_TEST_TMPDIR/together"
    export ELASTIC_TOGETHER=$BATS_TEST_TMPDIR/together
    restarts=1
    train 3 2 0@7 1@7 2@7
    [ "$status" -eq 0 ]
    has 'rank 0 of 3, once rank 0, after 0 losses'
    [[ $output != *'2 of 3 ranks wait for it'* ]] # one of them had failed before
}

@test "a rank is started again as often as --max-restarts says" {
    restarts=2
    train 2 2 1@always
    [ "$status" -eq 137 ]
    has 'rank 1 killed by SIGKILL; 1 of 2 ranks wait for it, which starts again in 1 s, restart 1 of 2'
    has 'rank 1 killed by SIGKILL; 1 of 2 ranks wait for it, which starts again in 2 s, restart 2 of 2'
    [[ ${lines[-1]} == 'hvd: rank 1 ('*') failed first: killed by SIGKILL, '* ]]
    [[ $output != *'starting all ranks again'* ]]
}

@test "the job ends when its work is done, and not when all have been started again" {
    restarts=9
    train 3 1 0@10 2@always
    [ "$status" -eq 0 ]
    has 'once rank 1'
}

@test "one that fails when it is started again fails alone" {
    # shellcheck disable=SC2016 # the shell of the ranks expands them
    run timeout -k 5 40 "$HVD_BUILD/bin/hvdrun" --no-prefix -n 3 --min-np=3 --max-restarts=2 --output-dir="$BATS_TEST_TMPDIR/out" \
        sh -c 'echo begins; [ "$HVD_RESTART" != 1 ] || exit 3; exec "$@"' sh "$HVD_BUILD/tests/run/elastic" 1@10
    echo "$output"
    [ "$status" -eq 0 ]
    has 'hvdrun: rank 1 exited with status 3; 2 of 3 ranks wait for it, which starts again in 2 s, restart 2 of 2'
    has 'rank 0 of 3, once rank 0, after 1 losses'
    [ "$(grep -cx begins "$BATS_TEST_TMPDIR/out/rank.1.out")" = 3 ] # of each of its processes
}

@test "one that cannot be started again has failed" {
    cat >"$BATS_TEST_TMPDIR/program" <<'END'
#!/bin/sh
[ "$RANK" != 0 ] || exec "$HVD_BUILD/tests/run/elastic"
"$HVD_BUILD/tests/run/elastic" 1@10
rm -f "$0"
exit 5
END
    chmod +x "$BATS_TEST_TMPDIR/program"
    run -127 timeout -k 5 40 "$HVD_BUILD/bin/hvdrun" --no-prefix -n 2 --min-np=2 --max-restarts=1 "$BATS_TEST_TMPDIR/program"
    echo "$output"
    has 'hvdrun: rank 1 exited with status 5; 1 of 2 ranks wait for it, which starts again in 1 s, restart 1 of 1'
    has 'failed first: exited with status 127, '
}

@test "hvd_elastic_run trains, and repeats the work since the last commit after a loss" {
    state 3 1 5
    [ "$status" -eq 0 ]
    [ "$from" = 3@0 ]
    has 'rank 0 of 3, once rank 0: all steps are right'
    for backends in shm,local tcp,local; do
        state 4 2 5 2@12:kill
        [ "$status" -eq 0 ]
        [ "$from" = '4@0 3@10' ]
        has 'rank 0 of 3, once rank 0: all steps are right'
    done
}

@test "the others leave without a rank that is killed when the work is done" {
    for backends in shm,local tcp,local; do
        state 3 1 5 1@40:leave
        [ "$status" -eq 0 ]
        [ "$from" = 3@0 ]
        has 'rank 0 of 3, once rank 0: all steps are right'
    done
}

@test "the state is that of survivors without rank 0, without two ranks, and with one left" {
    state 4 2 5 0@12:kill
    [ "$status" -eq 0 ]
    [ "$from" = '4@0 3@10' ]
    has 'rank 0 of 3, once rank 1: all steps are right'
    state 4 1 5 0@12:kill 3@12:kill
    [ "$status" -eq 0 ]
    has 'rank 0 of 2, once rank 1: all steps are right'
    state 4 1 5 0@7:kill 2@17:kill 1@38:kill
    [ "$status" -eq 0 ]
    [ "$from" = '4@0 3@5 2@15 1@35' ]
    has 'rank 0 of 1, once rank 3: all steps are right'
}

@test "a commit counts that all survivors have saved, and no other" {
    state 4 2 5 2@15:commit
    [ "$status" -eq 0 ]
    [ "$from" = '4@0 3@15' ]
    state 4 2 5 2@15:split
    [ "$status" -eq 0 ]
    [ "$from" = '4@0 3@10' ]
    has 'all steps are right'
}

@test "a rank that is lost between two epochs costs no commit" {
    state 4 1 5 3@12:kill 1@0:reset
    [ "$status" -eq 0 ]
    [ "$from" = '4@0 2@10' ]
    has 'rank 0 of 2, once rank 0: all steps are right'
}

@test "ranks that part for new ones lose nothing, and those that have no state get it" {
    state 3 1 5 0@12:grow 1@12:grow 2@12:grow
    [ "$status" -eq 0 ]
    [ "$from" = '3@0 3@12' ]
    state 3 1 5 0@12:grow 1@12:grow 2@12:grow 2@0:forget
    [ "$status" -eq 0 ]
    [ "$from" = '3@0 3@12' ]
    has 'all steps are right'
    # not of rank 0, which has forgotten it
    state 3 1 5 0@12:grow 1@12:grow 2@12:grow 0@0:forget
    [ "$status" -eq 0 ]
    [ "$from" = '3@0 3@12' ]
    # after a loss it is the last commit
    state 4 1 5 3@13:kill 2@0:forget
    [ "$status" -eq 0 ]
    [ "$from" = '4@0 3@10' ]
    has 'all steps are right'
    # a new rank that is lost before it has the state leaves the others theirs
    state 4 1 5 0@12:grow 1@12:grow 2@12:grow 3@12:grow 2@0:forget 3@0:reset
    [ "$status" -eq 0 ]
    [ "$from" = '4@0 3@12' ]
    has 'all steps are right'
}

@test "a rank that is started again joins at a check, and gets the state" {
    restarts=1
    for backends in shm,local tcp,local; do
        state 3 2 5 2@12:kill 0@23:news 1@23:news
        [ "$status" -eq 0 ]
        [ "$from" = '3@0 2@10 3@23' ]
        has 'rank 0 of 3, once rank 0: all steps are right'
    done
    # rank 0 too; the new process trains on from the others' state
    state 3 2 5 0@12:kill 1@23:news 2@23:news
    [ "$status" -eq 0 ]
    [ "$from" = '3@0 2@10 3@23' ]
    has 'rank 0 of 3, once rank 1: all steps are right'
    # those that are left wait for it
    state 3 3 5 1@12:kill
    [ "$status" -eq 0 ]
    [ "$from" = '3@0 3@10' ]
    has 'all steps are right'
}

@test "three losses without a commit end hvd_elastic_run" {
    state 5 1 50 4@3:kill 3@2:kill 2@1:kill
    [ "$status" -ne 0 ]
    has 'hvd_elastic_run: 3 epochs ended by the loss of a rank, without a commit in between'
    state 5 1 4 4@3:kill 3@2:kill 2@6:kill 1@9:kill
    [ "$status" -eq 0 ]
    [ "$from" = '5@0 4@0 3@0 2@4 1@8' ]
}

@test "hvd_elastic_run returns a loss at once if the launcher cannot go on without a rank" {
    local rank port pids=()
    port=$(free_port)
    for rank in 0 1; do
        RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port HVD_JOB_KEY=0123456789abcdef0123456789abcdef \
            HVD_START_TIMEOUT=10min timeout 100 "$HVD_BUILD/tests/run/elastic_state" 5 1@12:kill \
            >"$BATS_TEST_TMPDIR/$rank.out" 2>&1 3>&- &
        pids+=($!)
    done
    await_ranks "${pids[@]}"
    echo "$output"
    has 'rank 0 ended with status -8: '
}

@test "hvd_elastic_run returns another error as it is, and hvd is still initialised" {
    state 2 1 5 0@7:fail 1@7:fail
    [ "$status" -eq 3 ]
    has 'rank 1 ended with status -5: this was not meant to be'
}

@test "states of other parts are refused on all ranks" {
    local rank
    state 3 3 5 2@0:part
    [ "$status" -eq 3 ]
    for rank in 0 1 2; do
        has "rank $rank ended with status -4: hvd_state_sync: part 3 of the state is missing on rank 0, and \"more\", 4 bytes, on rank 2"
    done
}

@test "hvdrun is killed, and the same command goes on from the last commit on disk" {
    kill_hvdrun 2
    on_disk 2
    [ "$status" -eq 0 ]
    [[ $from == 2@5 || $from == 2@10 || $from == 2@15 || $from == 2@20 ]]
    has 'rank 0 of 2, once rank 0: all steps are right'
    # what is done is not done again, by another number of ranks either
    on_disk 3
    [ "$status" -eq 0 ]
    [ "$from" = 3@40 ]
    [ "$(stat -c %a "$BATS_TEST_TMPDIR/disk")" = 700 ]
    [ "$(find "$BATS_TEST_TMPDIR/disk" -type f | sort | xargs -n 1 basename | xargs)" = 'hvd-state.1.a hvd-state.1.b' ]
}

@test "an elastic job that lost a rank and then hvdrun goes on too, and the disk has the commits of the new rank 0" {
    options=--min-np=1 on_disk 3 0@12:kill 1@33:fail 2@33:fail
    [ "$status" -ne 0 ]
    on_disk 2
    [ "$status" -eq 0 ]
    [ "$from" = 2@30 ]
    has 'all steps are right'
}

@test "all ranks at once are lost, and begin again from the disk" {
    options='--min-np=1 --max-restarts=1' on_disk 2 0@22:fail 1@22:fail
    [ "$status" -eq 0 ]
    [ "$from" = '2@0 2@20' ]
    has 'all steps are right'
}

@test "a damaged commit gives way to the one before; if both are damaged, the job says what to do" {
    on_disk 2 0@6:written 0@17:fail 1@17:fail # so there are two commits
    [ "$status" -eq 3 ]
    cp -r "$BATS_TEST_TMPDIR/disk" "$BATS_TEST_TMPDIR/kept"
    local newest older
    newest=$BATS_TEST_TMPDIR/disk/hvd-state.1.a older=$BATS_TEST_TMPDIR/disk/hvd-state.1.b
    [ "$newest" -nt "$older" ] || newest=$older older=$BATS_TEST_TMPDIR/disk/hvd-state.1.a
    break_file "$newest"
    on_disk 2
    [ "$status" -eq 0 ]
    [[ $from == 2@10 || $from == 2@5 || $from == 2@0 ]] # that before the newest one, of those that were written
    has "$newest is damaged: the checksum of its parts is wrong; training goes on from commit"
    [ "$(grep -c 'is damaged' <<<"$output")" = 1 ]
    has 'all steps are right'
    rm -r "$BATS_TEST_TMPDIR/disk"
    cp -r "$BATS_TEST_TMPDIR/kept" "$BATS_TEST_TMPDIR/disk"
    break_file "$newest"
    break_file "$older"
    on_disk 2
    [ "$status" -eq 3 ]
    has 'rank 0 ended with status -1: hvd_state_sync: '
    has 'is damaged: the checksum of its parts is wrong; no commit in --hvd-state-dir can be used: start the program that wrote'
    has 'rank 1 ended with status -1: '
}

@test "a commit of another state is refused on all ranks" {
    on_disk 2
    [ "$status" -eq 0 ]
    on_disk 2 0@0:part 1@0:part
    [ "$status" -eq 3 ]
    has 'rank 0 ended with status -4: hvd_state_sync: '
    has 'is of another state: it has 2 parts, and that of this program has 3; no commit in --hvd-state-dir can be used'
    has 'rank 1 ended with status -4: '
}

@test "of folders that differ between nodes the newest commit counts for all ranks" {
    local folder=disk before="mkdir -p '$BATS_TEST_TMPDIR'/\$RANK; cd '$BATS_TEST_TMPDIR'/\$RANK"
    on_disk 3 0@12:fail 1@12:fail 2@12:fail
    [ "$status" -eq 3 ]
    mv "$BATS_TEST_TMPDIR/0/disk" "$BATS_TEST_TMPDIR/2/" # rank 0 finds nothing
    [ ! -e "$BATS_TEST_TMPDIR/1/disk" ]
    on_disk 3
    [ "$status" -eq 0 ]
    [ "$from" = 3@10 ]
    has 'all steps are right'
    [ -e "$BATS_TEST_TMPDIR/0/disk/hvd-state.1.a" ] # which writes from then on
}

@test "a folder that cannot be written costs a warning, and training goes on" {
    local folder=$BATS_TEST_TMPDIR/none/disk
    on_disk 2
    [ "$status" -eq 0 ]
    has 'all steps are right'
    [ "$(grep -c "the folder $folder cannot be made: No such file or directory; training goes on" <<<"$output")" = 1 ]
}

@test "a folder that cannot be read is an error" {
    : >"$BATS_TEST_TMPDIR/disk"
    on_disk 2
    [ "$status" -eq 3 ]
    has "the folder $BATS_TEST_TMPDIR/disk cannot be opened: Not a directory"
}

@test "in Python a loop goes on, and takes in a rank that was started again" {
    need_python numpy
    PYTHONPATH=$HVD_SOURCE/python PYTHONDONTWRITEBYTECODE=1 run timeout -k 5 60 "$HVD_BUILD/bin/hvdrun" --no-prefix \
        -n 3 --min-np=3 --max-restarts=1 "$PYTHON" "$HVD_SOURCE/tests/python/elastic_loop.py"
    echo "$output"
    [ "$status" -eq 0 ]
    has 'rank 0 of 3, once rank 1: 150'
    has 'rank 1 of 3, once rank 2: 150'
    has 'rank 2 of 3, once rank 0: 150'
}
