#!/usr/bin/env bats
# hvdrun where its own processes die, and where the system gives it less than usual. After every test, no process or
# temporary file of it may be left.
# shellcheck disable=SC2016,SC2154 # what stands in single quotes is for the ranks to expand; hvdrun.bash sets variables

load hvdrun

# alone WORD...: run the words as a session of their own, whose leader prints "on" if it outlives them.
alone() {
    timeout -k 5 120 setsid -w bash -c '"$@"; echo "on $?"' bash "$@" 2>err
}

@test "a PMIx server that dies while the ranks start takes nobody along" {
    cat >rank <<'END'
#!/bin/bash
[ "$PMIX_RANK" = 0 ] || exec sleep 100
while read -r name value; do [ "$name" != PPid: ] || hvdrun=$value; done <"/proc/$PPID/status"
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
        rm -f started
        "$hvdrun" -n 3 sh -c 'echo x >>started; [ $PMIX_RANK != 2 ] || exec sleep 100; exec "$0"' \
            "$HVD_BUILD/tests/run/pmixhello" >out 2>err 3>&- &
        local job=$!
        await_lines started 3
        sleep "0.0$turn" # so that the ranks have come to different places
        kill -9 "$(child_named hvdrun-pmix $job)"
        status=0
        wait $job || status=$?
        [ $status = 1 ]
        [[ $(last_line) == "hvdrun: the PMIx server was killed by signal 9 (Killed)"* ]] || { cat err; return 1; }
    done
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
