#!/usr/bin/env bats
# hvdrun as a user runs it. After every test, no process or temporary file of it may be left.
# shellcheck disable=SC2016,SC2154 # what stands in single quotes is for the ranks to expand; hvdrun.bash sets variables

load setup
load hvdrun

# ---- exit status and the last line -------------------------------------------------------------

@test "success is silent" {
    hvd -n 3 true
    [ $status = 0 ]
    [ ! -s out ] && [ ! -s err ]
}

@test "the exit status is that of the first rank that failed" {
    hvd -n 3 sh -c 'if [ $PMIX_RANK = 1 ]; then exit 42; fi; sleep 100'
    [ $status = 42 ]
    [[ $(last_line) =~ ^"hvd: rank 1 ($(hostname), pid "[0-9]+") failed first: exited with status 42, "[0-9]+" ms after start; 2 other ranks ended after it"$ ]]
}

@test "a signal gives 128 and its number" {
    hvd -n 2 sh -c 'if [ $PMIX_RANK = 0 ]; then kill -9 $$; fi; sleep 100'
    [ $status = 137 ]
    [[ $(last_line) == "hvd: rank 0 ("*") failed first: killed by SIGKILL, "*" after start; 1 other rank ended after it" ]]
}

@test "a rank alone has no others" {
    hvd sh -c 'exit 5'
    [ $status = 5 ]
    [[ $(last_line) == "hvd: rank 0 ("*") failed first: exited with status 5, "*" after start" ]]
}

@test "a command that is not found gives 127 before anything starts" {
    hvd -n 2 no-such-command
    [ $status = 127 ]
    [ "$(cat err)" = "hvdrun: no-such-command: command not found in PATH" ]
    hvd -n 2 ./no-such-command
    [ $status = 127 ]
}

@test "a folder of PATH that may not be searched is passed over" {
    [ "$(id -u)" -ne 0 ] || skip "to root every folder is open"
    mkdir locked
    chmod 000 locked
    PATH=$PWD/locked:$PATH hvd no-such-command
    chmod 700 locked
    rmdir locked
    [ $status = 127 ]
    [ "$(cat err)" = "hvdrun: no-such-command: command not found in PATH" ]
}

@test "a program of this folder needs ./" {
    printf '#!/bin/sh\n' >prog && chmod +x prog
    hvd prog
    [ $status = 127 ]
    [[ $(last_line) == *"is written ./prog" ]]
    hvd ./prog
    [ $status = 0 ]
}

@test "what cannot be executed gives 126" {
    echo text >file
    hvd -n 2 ./file
    [ $status = 126 ]
    [[ $(cat err) == *"./file cannot be executed"* ]]
    hvd -n 2 /
    [ $status = 126 ]
    [[ $(cat err) == *"/ is a folder"* ]]
}

@test "a file that no system call can execute gives 126" {
    printf '\177ELF nonsense' >file && chmod +x file
    hvd -n 3 ./file
    [ $status = 126 ]
    [[ $(last_line) == "hvdrun: rank 0 could not be started: ./file: Exec format error"* ]]
}

@test "a script whose interpreter is missing gives 127" {
    printf '#!/no/such/shell\n' >script && chmod +x script
    hvd -n 2 ./script
    [ $status = 127 ]
    [[ $(last_line) == "hvdrun: rank 0 could not be started: ./script: No such file or directory"* ]]
}

@test "ranks are no longer started when one has failed" {
    run timeout -k 5 60 "$hvdrun" -n 1000 false
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output =~ failed\ first.*\;\ ([0-9]+)\ other\ rank ]]
    [ "${BASH_REMATCH[1]}" -lt 999 ]
}

@test "bad options exit with 2 and name the value" {
    while IFS='|' read -r words sentence; do
        # shellcheck disable=SC2086
        hvd $words
        [ $status = 2 ] || { echo "$words: status $status"; return 1; }
        [ "$(wc -l <err)" = 1 ]
        [[ $(cat err) == "hvdrun: "*"$sentence"* ]] || { echo "$words: $(cat err)"; return 1; }
    done <<'TABLE'
-n 0 true|-n 0: the number of ranks is too small; expected 1 to 1048576
-n -1 true|-n -1: the number of ranks
-n x true|-n x: the number of ranks
-n 100000 true|100000 ranks are asked for; hvdrun starts up to 4096 on one machine
-n|-n needs a value
-n 2|no command was given
--hvd-fusion=64Q true|64Q
--hvd-fusion=-1 true|-1
--hvd-fusion=99999999999999G true|--hvd-fusion
--hvd-fuson=64M true|unknown option --hvd-fuson=64M; did you mean --hvd-fusion?
--autotune true|unknown option --autotune; did you mean --hvd-autotune?
--hvd true|--hvd is an option of srun; hvdrun always uses hvd: leave it out
--rank=2 true|unknown option --rank=2; did you mean --ranks?
--hvd-cycle-time=1ms true|--hvd-cycle-time
--grace=5 true|such as 5s
--quiet true|unknown option --quiet; hvdrun --help lists the options
TABLE
}

@test "more ranks than file descriptors are refused" {
    ulimit -n 100
    hvd -n 50 true
    [ $status = 1 ]
    [[ $(cat err) == "hvdrun: 50 ranks need "*" file descriptors, but the hard limit is 100 (\`ulimit -Hn\`); start fewer, or raise it" ]]
}

@test "the soft limit is raised for hvdrun, not for the ranks" {
    ulimit -Sn 64
    hvd -n 20 sh -c 'ulimit -Sn'
    [ $status = 0 ]
    [ "$(sort -u <(sed 's/.* //' out))" = 64 ]
}

@test "without a temporary folder it says so" {
    TMPDIR=/no/such/folder hvd true
    [ $status = 1 ]
    [[ $(cat err) == *"/no/such/folder"*"No such file"* ]]
}

@test "hvdrun(1) describes the options that --help lists" {
    "$hvdrun" --help | sed '/^Options for the ranks/,$d' | grep -oE -- '(^| )--?[a-zA-Z_-]+' | tr -d ' ' | sort -u >listed
    [ "$(wc -l <listed)" -ge 8 ]
    while read -r option; do
        grep -qE "^\.It.* Fl ${option#-}( |$)" "$HVD_SOURCE/man/hvdrun.1.in" || { echo "$option"; return 1; }
    done <listed
}

@test "--help lists every option for the ranks, --version the version" {
    "$hvdrun" --help >out
    grep -q -- '--hvd-fusion=SIZE' out
    [ "$("$hvdrun" --version)" = "hvdrun $(sed -n 's/^AC_INIT(\[hvd\], \[\(.*\)\], , .*/\1/p' "$HVD_SOURCE/configure.ac")" ]
}

# ---- output and input ---------------------------------------------------------------------------

@test "lines carry their rank" {
    hvd -n 2 sh -c 'echo out; echo err >&2; printf tail'
    [ $status = 0 ]
    [ "$(sort out)" = "$(printf '[0] out\n[0] tail\n[1] out\n[1] tail')" ]
    [ "$(sort err)" = "$(printf '[0] err\n[1] err')" ]
}

@test "without prefixes bytes are carried as they are" {
    head -c 300000 /dev/urandom >bytes
    hvd --no-prefix cat bytes
    cmp out bytes
}

@test "lines of many ranks are not mixed" {
    hvd -n 8 awk 'BEGIN { for (i = 0; i < 2000; i++) print "abcdefghijklmnopqrstuvwxyz" i }'
    [ "$(wc -l <out)" = 16000 ]
    [ "$(grep -cEv '^\[[0-7]\] abcdefghijklmnopqrstuvwxyz[0-9]+$' out)" = 0 ]
    [ "$(sort -u out | wc -l)" = 16000 ]
}

@test "very long lines are complete" {
    hvd -n 2 sh -c 'head -c 3000000 /dev/zero | tr "\0" x; echo'
    [ $status = 0 ]
    [ "$(tr -cd x <out | wc -c)" = 6000000 ]
    hvd sh -c 'head -c 3000000 /dev/zero | tr "\0" x; echo'
    [ "$(wc -l <out)" = 1 ]
    [ "$(wc -c <out)" = 3000005 ]
}

@test "a prompt without a newline is shown at once" {
    mkfifo answer
    "$hvdrun" sh -c 'printf "name? "; read -r name; echo "hello $name"' <answer >out 2>err 3>&- &
    exec 4>answer
    local end=$((SECONDS + 10))
    until [ "$(cat out)" = "[0] name? " ]; do
        [ $SECONDS -lt $end ]
        sleep 0.02
    done
    echo Ann >&4
    exec 4>&-
    wait $!
    [ "$(cat out)" = "[0] name? hello Ann" ]
}

@test "stdin goes to rank 0, others have none" {
    printf 'a\nb\n' | hvd -n 3 sh -c 'echo "$PMIX_RANK: $(cat | tr "\n" ,)"'
    [ "$(sort out)" = "$(printf '[0] 0: a,b,\n[1] 1: \n[2] 2: ')" ]
}

@test "rank 0 takes no more of stdin than it reads" {
    seq 3 >numbers
    while read -r number; do
        echo "$number"
        timeout 60 "$hvdrun" true
    done <numbers >seen
    [ "$(cat seen)" = "$(seq 3)" ]
}

@test "stdin at a terminal goes to rank 0" {
    command -v script >/dev/null || skip "script (Debian: bsdutils) is not installed"
    (await_lines started 1 && printf 'typed\n\004') |
        timeout 60 script -qec "'$hvdrun' -n 2 sh -c 'echo x >>started; cat'" /dev/null >out
    grep -q '^\[0\] typed' out
    [ "$(grep -c '^\[1\]' out)" = 0 ]
}

@test "closed stdin, stdout and stderr are no obstacle" {
    timeout 60 "$hvdrun" -n 2 sh -c 'echo x && echo y >&2' <&- >&- 2>&-
}

@test "a reader that leaves ends the job" {
    set +o pipefail
    timeout 60 "$hvdrun" -n 2 yes 2>err | head -n 1 >out
    [ "$(wc -l <out)" = 1 ]
    [[ $(last_line) == *" was ended first: killed by SIGPIPE (the reader of its output has gone, such as head), "* ]]
    timeout 60 "$hvdrun" -n 2 --pty=off yes 2>err | head -n 1 >out
    [[ $(last_line) == *" was ended first: killed by SIGPIPE (the reader of its output has gone, such as head), "* ]]
}

@test "lines are shown while the program runs, and none is lost when it ends at once" {
    hvd -n 2 "$HVD_BUILD/tests/run/unflushed" 29
    [ "$status" -eq 0 ]
    [ "$(sort -u out | wc -l)" -eq 58 ]
    hvd --no-prefix --pty=on "$HVD_BUILD/tests/run/unflushed" 29 3
    [ "$status" -eq 3 ]
    [ "$(cat out)" = "$(seq 0 28 | sed 's/^/step /')" ]
    # a pipe loses what the C library has collected
    hvd --pty=off -n 2 "$HVD_BUILD/tests/run/unflushed" 29
    [ ! -s out ]
}

@test "a pseudo-terminal passes bytes on unchanged" {
    head -c 300000 /dev/urandom >bytes
    hvd --no-prefix --pty=on cat bytes
    cmp out bytes
    hvd -n 2 sh -c '[ -t 1 ] && [ ! -t 2 ]'
    [ "$status" -eq 0 ]
    hvd -n 2 --pty=off sh -c '[ ! -t 1 ]'
    [ "$status" -eq 0 ]
    hvd --no-prefix sh -c '[ ! -t 1 ]'
    [ "$status" -eq 0 ]
}

@test "a pseudo-terminal is as wide as hvdrun's terminal without the prefix" {
    command -v script >/dev/null || skip "script (Debian: bsdutils) is not installed"
    timeout 60 script -qec "stty cols 90; '$hvdrun' -n 1 sh -c 'stty size <&1'" /dev/null >out </dev/null
    grep -q '^\[0\] [0-9]* 86' out
}

@test "each rank's output goes to files too, and only some is shown" {
    hvd -n 3 --output-dir=logs/run1 --only-rank=0,2 sh -c 'echo "out $RANK"; echo "err $RANK" >&2'
    [ "$status" -eq 0 ]
    [ "$(sort out)" = "$(printf '[0] out 0\n[2] out 2')" ]
    [ "$(cat logs/run1/rank.1.out logs/run1/rank.1.err)" = "$(printf 'out 1\nerr 1')" ]
    [ "$(cat logs/run1/rank.0.out)" = 'out 0' ]
    [ "$(printf '%s\n' logs/run1/* | wc -l)" -eq 6 ]
    # bytes, whatever is shown; and a file of an earlier run is replaced
    head -c 300000 /dev/urandom >bytes
    hvd -n 1 --output-dir=logs/run1 --only-rank=none cat bytes
    [ ! -s out ]
    cmp logs/run1/rank.0.out bytes
    hvd -n 2 --only-rank=0,7 touch ran
    [ "$status" -ne 0 ]
    [ ! -e ran ]
    [ "$(cat err)" = 'hvdrun: --only-rank names rank 7, but the job has 2 ranks, counted from 0; name ranks that it has, or none' ]
    hvd -n 1 --output-dir=/proc/nowhere true
    [ "$status" -ne 0 ]
    [[ $(last_line) == *"--output-dir=/proc/nowhere: the directory cannot be made: No such file or directory"* ]]
    mkdir full
    ln -s /dev/full full/rank.0.out
    hvd -n 1 --output-dir=full echo x
    [ "$status" -eq 1 ]
    [[ $(last_line) == *"cannot write to a file in full: No space left on device"* ]]
}

@test "lines may carry the time of day" {
    hvd -n 2 --timestamps sh -c 'echo "out $RANK"'
    [ "$(grep -cE '^[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\.[0-9]{3} \[[01]\] out [01]$' out)" -eq 2 ]
}

@test "variables are set for the ranks alone" {
    export INHERITED=1
    hvd -n 1 -x COLOUR=red -x INHERITED -x COLOUR=blue --env 'WITH=a b=c' env
    grep -qxF '[0] COLOUR=blue' out
    grep -qxF '[0] WITH=a b=c' out
    grep -qxF '[0] INHERITED=1' out
    [ "$(grep -c COLOUR out)" -eq 1 ]
}

@test "a full disk is reported" {
    status=0
    timeout 60 "$hvdrun" yes >/dev/full 2>err || status=$?
    [ $status = 1 ]
    [[ $(last_line) == *"cannot write to stdout: No space left on device"* ]]
}

@test "a limit on the length of files is reported, and ranks have their own way with it" {
    status=0
    bash -c 'ulimit -f 8; exec "$@"' limited timeout 60 "$hvdrun" yes >long 2>err || status=$?
    [ $status = 1 ]
    [[ $(last_line) == 'hvdrun: cannot write to stdout: File too large; raise `ulimit -f`'* ]]
    status=0
    bash -c 'ulimit -f 8; exec "$@"' limited timeout 60 "$hvdrun" --output-dir=long.d yes 2>err >/dev/null || status=$?
    [ $status = 1 ]
    [[ $(last_line) == 'hvdrun: cannot write to a file in long.d: File too large; raise `ulimit -f`'* ]]
    status=0
    bash -c 'ulimit -f 8; exec "$@"' limited timeout 60 "$hvdrun" sh -c 'exec yes >own' 2>err || status=$?
    [ $status = 153 ]
    [[ $(last_line) == *"killed by SIGXFSZ"* ]]
}

@test "a reader that does not read does not stop Ctrl-C" {
    mkfifo slow
    env --default-signal=INT "$hvdrun" -n 2 --grace=200ms sh -c 'echo x >>started; exec yes' >slow 2>err 3>&- &
    exec 4<slow
    await_lines started 2
    kill -INT $!
    status=0
    wait $! || status=$?
    exec 4<&-
    [ $status = 130 ]
}

# ---- the ends of ranks --------------------------------------------------------------------------

@test "a rank that ignores SIGTERM is killed after the grace" {
    hvd -n 2 --grace=300ms sh -c 'if [ $PMIX_RANK = 0 ]; then
            until [ -e ready ]; do sleep 0.02; done; exit 3
        fi
        trap "" TERM; touch ready; while :; do sleep 1; done'
    [ $status = 3 ]
    [[ $(last_line) == *"; 1 other rank was killed, not having ended within 3"??" ms" ]]
}

@test "a rank may save in its grace" {
    hvd -n 2 --grace=20s bash -c 'if [ $PMIX_RANK = 0 ]; then
            until [ -e ready ]; do sleep 0.02; done; exit 3
        fi
        trap "echo saved >file; exit 0" TERM; touch ready; while :; do sleep 0.1; done'
    [ $status = 3 ]
    [ "$(cat file)" = saved ]
}

@test "what the ranks leave running is ended with the job" {
    hvd -n 2 sh -c '(sleep 1000 >/dev/null 2>&1 &); setsid sh -c "trap \"\" HUP; sleep 1000 & wait" &
        echo x >>started; echo "$OMPI_MCA_btl_vader_backing_directory" >shared; exit 0'
    [ $status = 0 ]
    [ "$(wc -l <started)" = 2 ]
    [ ! -e "$(cat shared)" ]
    [ -z "$(await_none marked)" ]
}

@test "SIGKILL of hvdrun leaves nothing" {
    "$hvdrun" -n 3 --grace=200ms bash -c 'trap "" TERM HUP
        setsid bash -c "trap \"\" TERM HUP; echo x >>started; while :; do sleep 1; done" &
        (exec setsid sleep 1000) &
        echo "$OMPI_MCA_btl_vader_backing_directory" >shared
        echo x >>started; while :; do sleep 1; done' >out 2>err 3>&- &
    await_lines started 6
    [ -e "$(cat shared)" ]
    [ -n "$(ls -A "$TMPDIR")" ]
    kill -9 $!
    wait $! || true
    [ -z "$(await_none marked)" ]
    [ -z "$(await_none ls -A "$TMPDIR")" ]
    [ ! -e "$(cat shared)" ]
}

@test "SIGKILL of the reaper ends the job" {
    "$hvdrun" -n 2 sh -c 'echo x >>started; setsid sleep 1000; :' >out 2>err 3>&- &
    local job=$!
    await_lines started 2
    kill -9 "$(child_named hvdrun-reaper $job)"
    status=0
    wait $job || status=$?
    [ $status = 1 ]
    [ "$(last_line)" = "hvdrun: the reaper, which starts and ends the ranks, was killed; 2 ranks were killed" ]
    [ -z "$(marked)" ]
}

@test "Ctrl-C reaches the ranks and exits with 130" {
    env --default-signal=INT "$hvdrun" -n 3 bash -c 'trap "echo got INT; exit 0" INT
        echo x >>started; while :; do sleep 0.1; done' >out 2>err 3>&- &
    await_lines started 3
    kill -INT $!
    status=0
    wait $! || status=$?
    [ $status = 130 ]
    [ "$(grep -c 'got INT' out)" = 3 ]
    [ "$(last_line)" = "hvdrun: interrupted by SIGINT; 3 ranks ended after it" ]
    [ -z "$(marked)" ]
}

@test "Ctrl-C typed at the terminal is hvdrun's alone" {
    command -v script >/dev/null || skip "script (Debian: bsdutils) is not installed"
    status=0
    (await_lines started 2 && printf '\003' && await_none not_yet interrupted) |
        timeout 60 script -qec "'$hvdrun' -n 2 bash -c 'trap \"echo INT; exit 0\" INT; echo x >>started
            while :; do sleep 0.1; done'" /dev/null >out &
    wait $! || status=$?
    [ "$(grep -c '\] INT' out)" = 2 ]
    grep -q 'hvdrun: interrupted by SIGINT' out
}

@test "each rank leads a process group of its own" {
    hvd -n 2 sh -c 'test "$(cut -d " " -f 5 /proc/$$/stat)" = $$'
    [ $status = 0 ]
}

@test "a second Ctrl-C does not wait" {
    local begin=$SECONDS
    env --default-signal=INT "$hvdrun" -n 2 --grace=1h bash -c 'trap "echo x >>heard" INT
        echo x >>started; while :; do sleep 0.1; done' >out 2>err 3>&- &
    await_lines started 2
    kill -INT $!
    await_lines heard 2
    kill -INT $!
    status=0
    wait $! || status=$?
    [ $status = 130 ]
    [ $((SECONDS - begin)) -lt $((30 * PATIENCE)) ]
    [ -z "$(marked)" ]
}

@test "ranks that ignore Ctrl-C are killed after the grace" {
    env --default-signal=INT "$hvdrun" -n 2 --grace=200ms bash -c 'trap "" INT
        echo x >>started; while :; do sleep 0.1; done' >out 2>err 3>&- &
    await_lines started 2
    kill -INT $!
    status=0
    wait $! || status=$?
    [ $status = 130 ]
    [[ $(last_line) == *"; 2 ranks were killed, not having ended within 2"??" ms" ]]
}

@test "SIGTERM ends the job with 143" {
    "$hvdrun" -n 2 sh -c 'echo x >>started; sleep 1000; :' >out 2>err 3>&- &
    await_lines started 2
    kill -TERM $!
    status=0
    wait $! || status=$?
    [ $status = 143 ]
    [ -z "$(marked)" ]
}

@test "SIGUSR1 is passed on" {
    "$hvdrun" -n 2 bash -c 'trap "echo usr; exit 0" USR1; echo x >>started; while :; do sleep 0.1; done' \
        >out 2>err 3>&- &
    await_lines started 2
    kill -USR1 $!
    wait $!
    [ "$(grep -c usr out)" = 2 ]
}

@test "32 ranks start and end, 20 times" {
    for _ in $(seq 20); do
        timeout -k 5 30 "$hvdrun" -n 32 true
    done
}

# ---- environment -------------------------------------------------------------------------------

@test "options reach the ranks, the user's own variables stay" {
    HVD_LEASE=7s hvd --no-prefix --hvd-fusion=1M --hvd-backends tcp env
    grep -qxF 'HVD_CLI=fusion=1M;backends=tcp' out
    grep -qxF 'HVD_LEASE=7s' out
    [ "$(grep -c '^HVD_FUSION=' out)" = 0 ]
}

@test "programs of torchrun and horovodrun find their place" {
    hvd --nproc_per_node 2 --nnodes=1 --rdzv-backend=c10d --rdzv-endpoint=localhost:0 --rdzv-id=run7 --max_restarts=3 env
    [ "$status" -eq 0 ]
    grep -E '^\[1\] (RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|GROUP_WORLD_SIZE|ROLE_[A-Z_]*|TORCHELASTIC_R[A-Z_]*|TORCHELASTIC_M[A-Z_]*|HOROVOD_[A-Z_]*)=' out | sort >found
    cat found
    diff found <(sed 's/^/[1] /' <<'END' | sort
RANK=1
WORLD_SIZE=2
LOCAL_RANK=1
LOCAL_WORLD_SIZE=2
NODE_RANK=0
GROUP_RANK=0
GROUP_WORLD_SIZE=1
ROLE_NAME=default
ROLE_RANK=1
ROLE_WORLD_SIZE=2
TORCHELASTIC_RUN_ID=run7
TORCHELASTIC_RESTART_COUNT=0
TORCHELASTIC_MAX_RESTARTS=3
HOROVOD_RANK=1
HOROVOD_SIZE=2
HOROVOD_LOCAL_RANK=1
HOROVOD_LOCAL_SIZE=2
HOROVOD_CROSS_RANK=0
HOROVOD_CROSS_SIZE=1
END
)
    # all ranks meet at one place
    [ "$(sed -n 's/^\[[01]\] MASTER_ADDR=//p' out | sort -u)" = 127.0.0.1 ]
    [ "$(sed -n 's/^\[[01]\] MASTER_PORT=//p' out | sort -u | wc -l)" -eq 1 ]
    MASTER_ADDR=n1 MASTER_PORT=4711 hvd -n 1 env
    grep -q '^\[0\] MASTER_PORT=4711$' out
    grep -q '^\[0\] MASTER_ADDR=n1$' out
}

@test "a module of Python is started, and its output written, as torchrun is asked to" {
    command -v python3 >/dev/null || skip 'there is no python3'
    mkdir package
    echo 'import sys; print("module", __name__, sys.argv[1:])' >package/train.py
    hvd --nproc-per-node=1 --nnodes=1:4 --standalone --log-dir=logs --tee 3 -m package.train -m 2
    [ "$status" -eq 0 ]
    grep -qxF "[0] module __main__ ['-m', '2']" out
    grep -qxF "module __main__ ['-m', '2']" logs/rank.0.out
    grep -qxF 'hvdrun: --nnodes 1:4: the ranks are on this machine only' err
    hvd --nproc-per-node=1 package/train.py
    [ "$status" -eq 126 ]
    [[ $(last_line) == *'package/train.py cannot be executed: Permission denied; expected a program (python3 package/train.py starts it)' ]]
}

@test "an outer launcher's identity is not passed on" {
    PMIX_SERVER_URI41=nonsense PMIX_RANK=7 OMPI_COMM_WORLD_RANK=7 SLURM_PROCID=7 SLURM_STEP_NUM_TASKS=9 RANK=7 \
        hvd -n 2 env
    [ $status = 0 ]
    [ "$(grep -cE 'nonsense|OMPI_COMM_WORLD|SLURM_PROCID|SLURM_STEP_NUM|\] RANK=7' out)" = 0 ]
    grep -qxF '[1] PMIX_RANK=1' out
}

@test "the server's settings are not passed on" {
    HWLOC_XMLFILE=/tmp/x.xml hvd env
    grep -qxF '[0] HWLOC_XMLFILE=/tmp/x.xml' out
    [ "$(grep -cE 'HWLOC_(SYNTHETIC|PLUGINS_PATH)|PMIX_MCA_psec' out)" = 0 ]
}

@test "descriptors of hvdrun do not leak into the ranks" {
    (
        for fd in /proc/"$BASHPID"/fd/*; do
            fd=${fd##*/}
            [ "$fd" -le 2 ] || eval "exec $fd>&-"
        done
        timeout 60 "$hvdrun" -n 2 ls -1 /proc/self/fd >out
    )
    # the last descriptor is that of ls itself
    [ "$(sort out)" = "$(printf '[%d] %d\n' 0 0 0 1 0 2 0 3 1 0 1 1 1 2 1 3)" ]
}

# ---- PMIx and MPI -------------------------------------------------------------------------------

@test "a PMIx client puts, fences and gets" {
    hvd -n 4 "$HVD_BUILD/tests/run/pmixhello"
    [ $status = 0 ]
    [ "$(sort out)" = "$(for i in 0 1 2 3; do echo "[$i] rank $i of 4 heard hello from $(((i + 1) % 4))"; done)" ]
}

@test "PMIx_Abort decides the exit status" {
    hvd -n 4 "$HVD_BUILD/tests/run/pmixhello" abort 2
    [ $status = 9 ]
    [[ $(last_line) == "hvd: rank 2 ("*") failed first: aborted the job with status 9: had enough, "*" after start; 3 other ranks ended after it" ]]
}

@test "a PMIx server that breaks down when ranks die is not blamed" {
    # libpmix 4.2.2 uses freed memory when several ranks of a fence die at the same time
    for _ in $(seq 20); do
        MALLOC_PERTURB_=165 hvd -n 4 "$HVD_BUILD/tests/run/pmixhello" abort 2
        [ $status = 9 ]
    done
}

@test "a PMIx server that dies alone ends the job" {
    "$hvdrun" -n 2 sh -c 'echo x >>started; sleep 1000; :' >out 2>err 3>&- &
    local job=$!
    await_lines started 2
    kill -9 "$(child_named hvdrun-pmix $job)"
    status=0
    wait $job || status=$?
    [ $status = 1 ]
    [ "$(last_line)" = "hvdrun: the PMIx server was killed by signal 9 (Killed); 2 ranks ended after it" ]
}

@test "a rank that exits before it joins is named, and nobody waits for it" {
    hvd -n 3 sh -c 'if [ $PMIX_RANK = 1 ]; then exit 0; fi; exec "$0"' "$HVD_BUILD/tests/run/pmixhello"
    [ $status = 1 ]
    [[ $(last_line) == "hvd: rank 1 ("*") failed first: exited with status 0 before it joined the job, which rank "*" waited for, "* ]]
}

@test "a rank that dies in a fence is named" {
    hvd -n 3 sh -c 'if [ $PMIX_RANK = 1 ]; then kill -9 $$; fi; exec "$0"' "$HVD_BUILD/tests/run/pmixhello"
    [ $status = 137 ]
    [[ $(last_line) == "hvd: rank 1 ("*") failed first: killed by SIGKILL, "* ]]
}

@test "a rank that vanishes between two fences is named" {
    hvd -n 3 "$HVD_BUILD/tests/run/pmixhello" vanish 1
    [ $status = 1 ]
    [[ $(last_line) == "hvd: rank 1 ("*") failed first: exited with status 0 without MPI_Finalize, "* ]]
}

@test "a rank that leaves MPI without MPI_Finalize ends the job, and is named" {
    need_mpi
    hvd -n 2 "$HVD_BUILD/tests/run/mpihello" leave 1
    [ $status = 1 ]
    [[ $(last_line) == "hvd: rank 1 ("*") failed first: exited with status 0 without MPI_Finalize, "* ]]
    hvd -n 2 "$HVD_BUILD/tests/run/mpihello" replace 1
    [ $status = 1 ]
    [[ $(last_line) == "hvd: rank 1 ("*") failed first: exited with status 0 without MPI_Finalize, "* ]]
    hvd -n 1 "$HVD_BUILD/tests/run/mpihello" forget
    [ $status = 1 ]
    [[ $(last_line) == "hvd: rank 0 ("*") failed first: exited with status 0 without MPI_Finalize, "* ]]
}

@test "an Open MPI program runs unchanged" {
    need_mpi
    hvd -n 4 "$HVD_BUILD/tests/run/mpihello"
    [ $status = 0 ]
    [ "$(sort out)" = "$(for i in 0 1 2 3; do echo "[$i] rank $i of 4, 4 on this node, sum 6"; done)" ]
}

@test "an Open MPI program runs under hvdrun under mpirun" {
    need_mpi
    command -v mpirun >/dev/null || skip "mpirun is not installed"
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        timeout -k 5 60 mpirun -np 1 "$hvdrun" -n 2 "$HVD_BUILD/tests/run/mpihello" >out
    [ "$(sort out)" = "$(for i in 0 1; do echo "[$i] rank $i of 2, 2 on this node, sum 1"; done)" ]
}

@test "MPI_Abort decides the exit status" {
    need_mpi
    hvd -n 4 "$HVD_BUILD/tests/run/mpihello" abort 2
    [ $status = 7 ]
    [[ $(last_line) == "hvd: rank 2 ("*") failed first: aborted the job with status 7, "*" after start; 3 other ranks ended after it" ]]
}
