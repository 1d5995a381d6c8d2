#!/usr/bin/env bats
# hvdrun where its own processes die, and where the system gives it less than usual. After every test, no process or
# temporary file of it may be left.
# shellcheck disable=SC2016,SC2154 # what stands in single quotes is for the ranks to expand; hvdrun.bash sets variables

load setup
load hvdrun

# alone WORD...: run the words as a session of their own, whose leader prints "on" if it outlives them.
alone() {
    timeout -k 5 120 setsid -w bash -c '"$@"; echo "on $?"' bash "$@" 2>err
}

@test "a PMIx server that dies while the ranks start takes nobody along" {
    cat >rank <<'END'
#!/bin/bash
[ "$PMIX_RANK" = 0 ] || exec sleep 100
# at once: bash seeks back after each line, and lines get longer or shorter as the state changes
status=$(<"/proc/$PPID/status")
while read -r name value; do [ "$name" != PPid: ] || hvdrun=$value; done <<<"$status"
read -r _ server _ <"/proc/$hvdrun/task/$hvdrun/children"
kill -9 "$server"
exec sleep 100
END
    chmod +x rank
    [ "$(alone "$hvdrun" -n 300 ./rank)" = "on 1" ] || { cat err; return 1; }
    [[ $(last_line) == "hvdrun: the PMIx server was killed by signal 9 (Killed)"* ]]
}

@test "a PMIx server that dies is named before the ranks that fail without it" {
    for turn in $(seq 10); do
        signal=9 died="signal 9 (Killed)"
        [ $((turn % 2)) = 0 ] || signal=SEGV died="signal 11 (Segmentation fault)"
        rm -f started
        "$hvdrun" -n 3 sh -c 'echo x >>started; [ $PMIX_RANK != 2 ] || exec sleep 100; exec "$0"' \
            "$HVD_BUILD/tests/run/pmixhello" >out 2>err 3>&- &
        local job=$!
        await_lines started 3
        sleep "0.0$turn" # so that the ranks have come to different places
        kill -$signal "$(child_named hvdrun-pmix $job)"
        status=0
        wait $job || status=$?
        [ $status = 1 ]
        [[ $(last_line) == "hvdrun: the PMIx server was killed by $died"* ]] || { cat err; return 1; }
    done
}

sockets_of() {
    find "/proc/$1/fd" -lname 'socket:*' | wc -l
}

@test "a rank is named that ends before the PMIx server crashes" {
    "$hvdrun" -n 3 sh -c 'echo $$ >pid.$PMIX_RANK; [ $PMIX_RANK != 2 ] || exec sleep 100; exec "$0" joined' \
        "$HVD_BUILD/tests/run/pmixhello" >out 2>err 3>&- &
    local job=$! server reaper rank sockets end=$((SECONDS + 20))
    until [ "$(grep -c joined out)" = 2 ]; do
        [ $SECONDS -lt $end ]
        sleep 0.02
    done
    server=$(child_named hvdrun-pmix $job)
    reaper=$(child_named hvdrun-reaper $job)
    rank=$(cat pid.1)
    sockets=$(sockets_of "$server")
    kill -STOP "$reaper" # so that hvdrun learns of the rank's end later than of the server's
    kill -9 "$rank"
    until [ "$(sockets_of "$server")" -lt "$sockets" ]; do # the server has seen that the rank is gone
        [ $SECONDS -lt $end ]
        sleep 0.01
    done
    kill -SEGV "$server"
    kill -CONT "$reaper"
    status=0
    wait $job || status=$?
    [ $status = 137 ]
    [[ $(last_line) == "hvd: rank 1 ("*") failed first: killed by SIGKILL, "* ]]
}

@test "small stacks are no obstacle" {
    for kilobytes in 64 256; do
        [ "$(alone bash -c 'ulimit -s '$kilobytes'; exec "$@"' bash "$hvdrun" -n 3 true)" = "on 0" ] ||
            { cat err; return 1; }
        [ ! -s err ]
    done
}

@test "small stacks: the processes of PMIx clients meet" {
    ulimit -s 256
    hvd -n 4 "$HVD_BUILD/tests/run/pmixhello"
    [ $status = 0 ]
    [ "$(grep -c heard out)" = 4 ]
}

# The environment is on the stack too: that of make check may take half of it.
@test "small stacks: the ranks of hvd start, also where the environment fills a third" {
    ulimit -s 64
    run env -i PATH="$PATH" HOME="$HOME" HVD_MODULE_PATH="$HVD_MODULE_PATH" FILLER="$(printf '%021000d' 0)" \
        timeout -k 5 60 "$hvdrun" -n 3 "$HVD_BUILD/examples/hello"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'the sum is 6' <<<"$output")" = 3 ]
}

# as_stranger WORD...: run the words as a user whom the system does not know, without HOME, as containers do.
as_stranger() {
    local uid=54321
    [ "$(id -u)" = 0 ] || skip "only root can become another user"
    ! getent passwd $uid >/dev/null || skip "there is a user $uid"
    local stranger=(setpriv --reuid="$uid" --regid="$uid" --clear-groups) folder
    "${stranger[@]}" test -x "$hvdrun" || skip "other users cannot run $hvdrun"
    folder=$(mktemp -d /tmp/hvdrun-test.XXXXXX)
    chown $uid "$folder"
    status=0
    (cd "$folder" && "${stranger[@]}" env -u HOME TMPDIR="$folder" timeout -k 5 60 "$@") >out 2>err || status=$?
    rmdir "$folder" # nothing may be left in it
}

@test "a user without a name and a home starts PMIx clients" {
    as_stranger "$hvdrun" -n 2 "$HVD_BUILD/tests/run/pmixhello"
    [ $status = 0 ] || { cat err; return 1; }
    [ "$(grep -c heard out)" = 2 ]
    as_stranger "$hvdrun" -n 2 sh -c 'unset HOME; exec "$0"' "$HVD_BUILD/examples/hello"
    [ $status = 0 ] || { cat err; return 1; }
    [ "$(grep -c 'the sum is 3' out)" = 2 ]
}

@test "the plug-ins of a PMIx that was moved are those that the variables name, also in hvdrun" {
    local variable
    "$HVD_BUILD/bin/hvdinfo" | grep -q '^  PMIx  *4' || skip 'only PMIx 4 tells of plug-ins that it cannot load'
    echo 'no library' >"$BATS_TEST_TMPDIR/pmix_mca_prm_broken.so"
    for variable in PMIX_PKGLIBDIR PMIX_MCA_mca_base_component_path; do
        run timeout -k 5 60 env "$variable=$BATS_TEST_TMPDIR" "$hvdrun" -n 1 true # which does not ask PMIx
        [ "$status" -eq 0 ]
        [[ $output == *"unable to open $BATS_TEST_TMPDIR/pmix_mca_prm_broken"* ]]
    done
}

@test "a system without a list of users starts PMIx clients" {
    [ "$(id -u)" -eq 0 ] && unshare --mount true || skip 'it takes root, who may change what is mounted'
    # shellcheck disable=SC2016 # the inner shell expands it
    run timeout -k 5 60 env -u HOME unshare --mount --propagation private sh -c '
        mount -t tmpfs tmpfs /etc && exec "$@"' - "$hvdrun" -n 2 "$HVD_BUILD/examples/hello"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'of 2: the sum is 3' <<<"$output")" -eq 2 ]
}

@test "a home that is set stays what it is, and one that is known is not invented" {
    hvd sh -c 'echo "HOME=$HOME"'
    [ "$(cat out)" = "[0] HOME=$HOME" ]
    [ "$(env -u HOME "$hvdrun" sh -c 'echo "HOME=${HOME-none}"')" = "[0] HOME=none" ]
}

# without_proc WORD...: run the words where /proc is an empty folder.
without_proc() {
    unshare -m mount -t tmpfs none /proc 2>/dev/null || skip "only root can hide /proc"
    status=0
    timeout -k 5 60 unshare -m sh -c 'mount -t tmpfs none /proc && exec "$@"' sh "$@" >out 2>err || status=$?
}

@test "without /proc what left its session is ended as well" {
    without_proc "$hvdrun" -n 2 sh -c 'setsid sleep 1000 & (setsid sh -c "sleep 1001; :" &)
        echo x >>started; until [ $(wc -l <started) = 2 ]; do sleep 0.05; done'
    [ $status = 0 ] || { cat err; return 1; }
    [ -z "$(await_none marked)" ]
    without_proc "$hvdrun" -n 2 --grace=200ms sh -c 'trap "" TERM
        (setsid sleep 1000 &)
        if [ $PMIX_RANK = 0 ]; then until [ -e ready ]; do sleep 0.05; done; exit 3; fi
        touch ready; while :; do sleep 1; done'
    [ $status = 3 ]
    [[ $(last_line) == *"; 1 other rank was killed, not having ended within 2"??" ms" ]]
    [ -z "$(await_none marked)" ]
}

@test "without /proc the ranks of a node share memory" {
    without_proc "$hvdrun" -n 2 --hvd-backends=shm "$HVD_BUILD/examples/hello"
    [ $status = 0 ] || { cat err; return 1; }
    [ "$(grep -c 'the sum is 3' out)" = 2 ]
}

# refuse ERROR CALL,... WORD...: run the words where the kernel refuses these calls.
refuse() {
    local error=$1 calls=$2
    shift 2
    status=0
    timeout -k 5 60 "$HVD_BUILD/tests/run/refuse" "$error" "$calls" -- "$@" >out 2>err || status=$?
    [ $status != 77 ] || skip "no filter of system calls can be installed here"
}

@test "ranks that may not be bound start, with a warning, unless binding was asked for" {
    refuse EPERM sched_setaffinity "$hvdrun" -n 2 "$HVD_BUILD/examples/hello"
    [ $status = 0 ]
    [ "$(wc -l <err)" = 1 ]
    [[ $(cat err) == "hvdrun: warning: ranks are not bound: cannot bind to CPUs "*": Operation not permitted; --hvd-bind=none "* ]]
    refuse EPERM sched_setaffinity "$hvdrun" -n 2 --hvd-bind=none true
    [ $status = 0 ] && [ ! -s err ]
    refuse EPERM sched_setaffinity "$hvdrun" -n 2 --hvd-bind=core true
    [ $status = 2 ]
    [[ $(cat err) == "hvdrun: "*"Operation not permitted"*"--hvd-bind=none"* ]]
}

@test "calls that containers withhold cost no job: TCP takes the place of shared memory" {
    local error
    for error in EPERM ENOSYS; do
        refuse $error pidfd_open,pidfd_getfd,process_vm_readv,memfd_create,close_range "$hvdrun" -n 2 "$HVD_BUILD/examples/hello"
        [ $status = 0 ] && [ "$(grep -c 'the sum is 3' out)" = 2 ] || { cat out err; return 1; }
        [ "$(grep -c 'TCP instead: .*memfd_create' err)" = 1 ]
    done
}

@test "where hvdrun and its reaper cannot talk it ends, with a sentence" {
    local error call
    for error in EPERM ENOSYS; do
        for call in prctl sendto sendmsg; do
            refuse $error $call "$hvdrun" -n 2 "$HVD_BUILD/examples/hello"
            cat out err
            [ $status != 0 ] && [ $status != 124 ] && [ $status != 137 ]
            grep -qE '^hvdrun: (the reaper, which starts .*, could not start|cannot ask the reaper to start rank 0: .*)$' err
        done
    done
}

# Write the program `stranger COUNT [TEXT]`: it connects so often to the job's PMIx server, says TEXT each time, keeps the
# connections, and is then a PMIx client.
write_stranger() {
    cat >stranger <<'END'
#!/bin/bash
ulimit -Sn "$(ulimit -Hn)"
for name in "${!PMIX_SERVER_URI@}"; do port=${!name##*:}; done
for ((i = 0; i < $1; i++)); do
    exec {fd}<>"/dev/tcp/127.0.0.1/$port" || exit 3
    printf '%s' "$2" >&$fd
done
exec "$HVD_BUILD/tests/run/pmixhello"
END
    chmod +x stranger
}

@test "silent connections to the PMIx server are no obstacle, at a low limit of descriptors" {
    write_stranger
    ulimit -Sn 256
    hvd -n 2 ./stranger 400 ""
    [ $status = 0 ]
    [ "$(grep -c heard out)" = 2 ]
    [ ! -s err ]
}

# Start a job of 4 ranks, which wait for the file go, with at most 256 descriptors. Sets job, and port to its server's.
start_waiting_job() {
    local end=$((SECONDS + 30))
    (ulimit -n 256 && exec timeout -k 5 30 "$hvdrun" -n 4 sh -c 'env >env.$PMIX_RANK; until [ -e go ]; do sleep 0.02; done; exec "$0"' \
        "$HVD_BUILD/tests/run/pmixhello") >out 2>err 3>&- &
    job=$!
    until port=$(sed -n 's/^PMIX_SERVER_URI[0-9]*=.*:\([0-9]*\)$/\1/p' env.0 2>/dev/null | head -n 1); [ -n "$port" ]; do
        [ $SECONDS -lt $end ]
        sleep 0.02
    done
}

@test "another user's connections to the PMIx server go no further, whatever they say" {
    [ "$(id -u)" -eq 0 ] || skip 'only root can come as another user'
    command -v setpriv >/dev/null || skip 'it needs setpriv'
    start_waiting_job
    # shellcheck disable=SC2016 # its own shell expands it
    setpriv --reuid=65534 --regid=65534 --clear-groups bash -c 'trap "" PIPE; ulimit -Sn 2000
        for ((i = 0; i < 1000; i++)); do exec {fd}<>"/dev/tcp/127.0.0.1/$1" && printf x >&$fd; done 2>/dev/null
        echo said; exec sleep 100' bash "$port" >stranger.out 3>&- &
    local other=$! began
    await_lines stranger.out 1
    began=$SECONDS
    touch go
    status=0
    wait "$job" || status=$?
    kill "$other"
    cat out err
    [ $status = 0 ]
    [ "$(grep -c heard out)" = 4 ]
    [ $((SECONDS - began)) -lt $((10 * PATIENCE)) ]
    [ "$(wc -l <err)" -le 2 ]
    grep -q 'warning: pmix: closed a connection of user 65534 to the PMIx server' err
}

@test "connections that begin a message and stop delay the PMIx server only shortly" {
    write_stranger
    hvd -n 2 ./stranger 20 x
    [ $status = 0 ]
    [ "$(grep -c heard out)" = 2 ]
}
