#!/usr/bin/env bats
# events.bats: what --events and --metrics tell of a job. The tables of both are tested in test_launch_events.c, readers
# that are slow in test_line_sink.c.

# shellcheck disable=SC2016,SC2154 # text for others to expand; variables of hvdrun.bash

load setup
load hvdrun
load python

# told KEY...: print these members of each line of the events that has the first, as words
told() {
    "${PYTHON:-/usr/bin/python3}" -c 'import json, sys
for line in open("events"):
    event = json.loads(line)
    assert {"event", "time", "run_id", "epoch"} <= event.keys(), line
    if sys.argv[1] in event:
        print(*(event[key] for key in sys.argv[1:] if key in event))' "$@"
}

# metric NAME: print its value
metric() {
    sed -n "s/^hvdrun_$1{run_id=\"[^\"]*\"} //p" metrics.prom
}

@test "a failed rank, its replacement and the epochs are told, and counted" {
    need_python json
    hvd -n 3 --min-np=3 --max-restarts=2 --run-id=one --events=events --metrics=metrics.prom "$HVD_BUILD/tests/run/elastic" 0@10
    [ $status = 0 ]
    [ "$(told event | sort | uniq -c | xargs)" = '2 epoch_formed 1 job_ended 1 job_started 3 rank_exited 1 rank_lost 1 rank_replaced 4 rank_started' ]
    [ "$(told event | sed -n '1p;$p' | xargs)" = 'job_started job_ended' ]
    [ "$(told run_id | sort -u)" = one ]
    [ "$(told rendezvous event epoch ranks | cut -d' ' -f2- | xargs)" = 'epoch_formed 0 3 epoch_formed 1 3' ]
    # it waited for the newcomer, which was started after a second
    [ "$(told rendezvous | awk 'NR == 2 { print ($1 > 0.5 && $1 < 30) }')" = 1 ]
    [ "$(told pid event rank status reason | sed -n 's/^[0-9]* rank_lost //p')" = '0 137 killed by SIGKILL' ]
    [ "$(told pid event rank epoch restart | sed -n 's/^[0-9]* rank_replaced //p')" = '0 1 1' ]
    [ "$(told pid event | sed -n 's/ rank_replaced//p')" = "$(told pid event restart | sed -n 's/ rank_started 1//p')" ]
    [ "$(metric rank_losses_total) $(metric rank_replacements_total) $(metric epochs_total) $(metric ranks)" = '1 1 2 3' ]
    [ "$(metric job_running) $(metric job_exit_status) $(metric events_dropped_total)" = '0 0 0' ]
    [ "$(ls)" = $'err\nevents\nmetrics.prom\nout\ntmp' ] # nothing is left beside it
}

@test "ranks that join and leave as slots come and go are told, and are no losses" {
    need_python json
    export ELASTIC_HOSTS=$BATS_TEST_TMPDIR/hosts
    echo localhost:2 >hosts
    hvd -n 2 --min-np=1 --max-np=4 --hostfile=hosts --events=events "$HVD_BUILD/tests/run/elastic_state" 5 \
        0@12:hosts3 0@12:news 1@12:news 0@23:hosts1 0@23:news 1@23:news 2@23:news
    [ $status = 0 ]
    [ "$(told slots event | xargs)" = '2 job_started 3 slots_changed 1 slots_changed' ]
    [ "$(told pid event rank epoch | sed -n 's/^[0-9]* rank_joined //p')" = '2 1' ]
    [ "$(told event | grep -cx rank_exited)" = 3 ]
    [ "$(told event | grep -cxE 'rank_lost|job_failed')" = 0 ]
    [ "$(told rendezvous ranks | cut -d' ' -f2 | xargs)" = '2 3 1' ]
}

@test "an exception, the failure of the job and its restart are told, and one line ends them" {
    need_python json numpy
    export PYTHONPATH=$HVD_SOURCE/python PYTHONDONTWRITEBYTECODE=1
    hvd -n 1 --max-restarts=1 --events=events "$PYTHON" -c 'import hvd
raise ValueError("no more data")'
    [ $status = 1 ]
    [ "$(told reason event | sed -n 's/ rank_lost$//p' | sort -u)" = 'exited with status 1: ValueError: no more data (<string>:2)' ]
    [ "$(told restart event rank status | grep job_ | xargs)" = '0 job_started 0 job_failed 0 1 1 job_started 1 job_failed 0 1 1 job_ended 1' ]
    [[ $(told reason event) == *'hvd: rank 0 ('*') failed first: ValueError: no more data (<string>:2)'*job_failed* ]]
}

@test "a reader of the socket that goes away costs lines, which a warning counts" {
    need_python json
    "$PYTHON" -c 'import socket
listener = socket.socket(socket.AF_UNIX)
listener.bind("socket")
listener.listen()
print("ready", flush=True)
reader, _ = listener.accept()
listener.close()
line = reader.makefile().readline()
reader.close()
print(line)' >lines 3>&- &
    await_lines lines 1
    # the rank ends when the reader has
    hvd -n 1 --events=unix:socket --metrics=metrics.prom sh -c "while kill -0 $! 2>/dev/null; do sleep 0.02; done"
    [ $status = 0 ]
    grep -q '"event":"job_started"' lines
    [[ $(last_line) == 'hvdrun: warning: --events=unix:socket: '*' lines could not be written, and were dropped' ]]
    [ "$(metric events_dropped_total)" -ge 2 ]
}

@test "what cannot be written is refused before anything starts" {
    hvd --events=unix:none touch started
    [ $status = 2 ]
    [[ $(last_line) == 'hvdrun: --events=unix:none: No such file or directory; expected a stream socket'* ]]
    hvd --metrics=none/metrics touch started
    [ $status = 2 ]
    [[ $(last_line) == 'hvdrun: --metrics=none/metrics: No such file or directory; expected a file'* ]]
    [ ! -e started ]
}

@test "hvdrun(1) has a line for each event and each metric of --help" {
    "$hvdrun" --help | sed -n '/^Events of/,$s/^  \([a-z_]\{4,\}\) .*/\1/p' >listed
    [ "$(wc -l <listed)" -gt 20 ]
    while read -r name; do
        grep -qE "^\.It Cm $name( |$)" "$HVD_BUILD/man/hvdrun.1" || { echo "$name"; return 1; }
    done <listed
}
