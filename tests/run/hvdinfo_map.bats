#!/usr/bin/env bats
# hvdinfo_map.bats: hvdinfo map on recorded machines: the table, JSON, the resource file, the picture, and its errors.

bats_require_minimum_version 1.5.0

setup() {
    load setup
    hvdinfo=$HVD_BUILD/bin/hvdinfo
    machines=$HVD_SOURCE/tests/data/topo
    golden=$HVD_SOURCE/tests/data/map
    "$hvdinfo" map "--topology=$machines/vm1.xml" 2>&1 | grep -q 'built without hwloc' && skip 'built without hwloc'
    unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES
}

# map MACHINE ARGUMENTS...: print the map of a recorded machine; standard error is dropped
map() {
    "$hvdinfo" map "--topology=$machines/$1.xml" "${@:2}" 2>/dev/null
}

# refused TEXT ARGUMENTS...: hvdinfo map of gpu8 fails with one sentence that contains TEXT, and prints nothing else
refused() {
    run "$hvdinfo" map "--topology=$machines/gpu8.xml" "${@:2}"
    [ "$status" -eq 1 ]
    has "$1"
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == 'hvdinfo: '* ]]
}

# same FILE COMMAND...: the output of the command is equal to FILE of the repository
same() {
    diff -u "$golden/$1" <("${@:2}")
}

needs_python() {
    command -v python3 >/dev/null || skip 'it needs python3 to read JSON and XML'
}

@test "the table is the one that is kept" {
    same gpu8.txt map gpu8
    same cpu4.txt map cpu4 --tasks=5 --bind=auto,reserve:2
}

@test "the JSON is the one that is kept, and JSON" {
    needs_python
    same gpu8.json map gpu8 --json
    same cpu4.json map cpu4 --tasks=5 --bind=auto,reserve:2 --json
    map gpu8 --json | python3 -c '
import json, sys
tasks = json.load(sys.stdin)
assert [task["task"] for task in tasks] == list(range(8))
assert list(tasks[3]) == ["task", "cpus", "mems", "gpus", "nics", "threads", "reason"]
assert tasks[3]["gpus"] == ["0000:35:00.0"] and tasks[3]["nics"] == ["mlx5_3"] and tasks[3]["threads"] == 32'
}

@test "with --json and --erf notes go to standard error" {
    run --separate-stderr "$hvdinfo" map "--topology=$machines/vm1.xml" --tasks=3 --json
    [ "$status" -eq 0 ]
    [[ $output != *'3 tasks share'* ]]
    # shellcheck disable=SC2154 # bats sets it
    [[ $stderr == 'hvdinfo: note: 3 tasks share 1 core'* ]]
}

@test "every machine has a table, JSON and a picture, for one task and for 192" {
    needs_python
    for xml in "$machines"/*.xml; do
        for tasks in 1 192; do
            "$hvdinfo" map "--topology=$xml" --tasks=$tasks "--svg=$BATS_TEST_TMPDIR/map.svg" >"$BATS_TEST_TMPDIR/map.txt"
            "$hvdinfo" map "--topology=$xml" --tasks=$tasks --json >"$BATS_TEST_TMPDIR/map.json" 2>/dev/null
            python3 - "$BATS_TEST_TMPDIR" $tasks <<'PYTHON'
import json, re, sys
import xml.etree.ElementTree as ElementTree
folder, count = sys.argv[1], int(sys.argv[2])
tasks = json.load(open(folder + "/map.json"))
assert len(tasks) == count
lines = open(folder + "/map.txt").read().splitlines()
assert max(map(len, lines)) <= 100, max(lines, key=len)
assert not any(line.endswith(" ") for line in lines)
assert [int(m[1]) for m in map(re.compile(r" *(\d+)  \d").match, lines) if m] == list(range(count))
picture = ElementTree.parse(folder + "/map.svg").getroot()
assert picture.tag == "{http://www.w3.org/2000/svg}svg"
labels = {text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")}
for task in range(count):
    assert "task %d" % task in labels, task
PYTHON
        done
    done
}

@test "the picture shows what the plan gives, and needs nothing beside itself" {
    needs_python
    map gpu8 --tasks=3 --cpus=0-63,128-191 --gpus=2,0 --bind=gpu,reserve:2 --svg=- >"$BATS_TEST_TMPDIR/map.svg"
    run cat "$BATS_TEST_TMPDIR/map.svg"
    [[ $output != *'<script'* && $output != *href* && $output != *'url('* && $output != *@import* ]]
    python3 - "$BATS_TEST_TMPDIR/map.svg" <<'PYTHON'
import collections, sys
import xml.etree.ElementTree as ElementTree
svg = "{http://www.w3.org/2000/svg}"
root = ElementTree.parse(sys.argv[1]).getroot()
# every group has a title that says what it is, and the colours of its tasks
seen = collections.Counter()
for group in root.iter(svg + "g"):
    title = group.find(svg + "title").text
    rects = group.findall(svg + "rect")
    classes = [rect.get("class") for rect in rects]
    kind = title.split()[0]
    if kind in ("core", "GPU"):
        task = title.rsplit(": task ", 1)[1] if ": task " in title else None
        seen[kind, task] += 1
        expected = ["t" + each for each in task.split(",")] if task is not None else classes[:1]
        assert classes == expected, (title, classes)
        assert task is not None or classes[0] in ("idle", "system", "barred"), (title, classes)
    if title.startswith("core 63, CPU 127"):
        assert classes == ["barred"]
print(seen)
assert sum(n for (kind, task), n in seen.items() if kind == "core") == 256
assert seen["GPU", None] == 6
assert seen["GPU", "1"] + seen["GPU", "0,2"] == 2
width, height = int(root.get("width")), int(root.get("height"))
for item in root.iter():
    if item.get("x") is not None:
        x, y = int(item.get("x")), int(item.get("y"))
        assert 0 <= x and x + int(item.get("width", 0)) <= width and 0 <= y and y + int(item.get("height", 0)) <= height
# what is in a frame is inside it: texts beside their colours, and frames in one another
boxes = [tuple(int(rect.get(key)) for key in ("x", "y", "width", "height")) for rect in root.iter(svg + "rect") if rect.get("x")]
for i, (x, y, wide, high) in enumerate(boxes):
    for left, top, w, h in boxes[:i]:
        apart = x >= left + w or x + wide <= left or y >= top + h or y + high <= top
        inside = x >= left and x + wide <= left + w and y >= top and y + high <= top + h
        assert apart or inside, (boxes[i], (left, top, w, h))
texts = {text.text for text in root.iter(svg + "text")}
assert {"kept for the system", "not granted", "package 0", "NUMA node 1, 768 GiB", "L3 32 MiB", "mlx5_7", "PCI bridge"} <= texts
PYTHON
}

@test "the picture in docs/features.md is the one that is drawn now" {
    map gpu8 --svg=- | cmp - "$HVD_SOURCE/man/map.svg"
    grep -q 'man/map\.svg' "$HVD_SOURCE/docs/features.md"
}

@test "--svg=- leaves standard output to the picture" {
    run --separate-stderr "$hvdinfo" map "--topology=$machines/cpu4.xml" --svg=-
    [ "$status" -eq 0 ]
    [[ $output == '<svg '*'</svg>' ]]
    [[ $stderr == 'cpu4: 2 packages'* ]]
}

@test "without --tasks there is a task for each GPU that is granted, otherwise for each NUMA node with CPUs" {
    [ "$(map gpu8 --json | grep -c '"task"')" -eq 8 ]
    [ "$(map gpu8 --json --gpus=0000:b5:00.0,0,93:00.0 | grep -c '"task"')" -eq 3 ]
    [ "$(map gpu8 --json --gpus=none | grep -c '"task"')" -eq 2 ]
    [ "$(map cpu4 --json | grep -c '"task"')" -eq 4 ]
    [ "$(map cpu4 --json --cpus=0-11,24 | grep -c '"task"')" -eq 2 ]
}

@test "--gpus gives them in its order" {
    run map gpu8 --json --gpus=0000:B5:00.0,0
    has '"task":0,"cpus":"64-127,192-255","mems":"1","gpus":["0000:b5:00.0"]'
    has '"task":1,"cpus":"0-63,128-191","mems":"0","gpus":["0000:13:00.0"]'
}

@test "what is in force counts, and what is given here counts more" {
    HVD_CLI='bind=none' run map cpu4 --json --tasks=2
    has '"cpus":"0-95"'
    HVD_CLI='bind=none' run map cpu4 --json --tasks=2 --bind=core
    has '"cpus":"0,48"'
    HVD_NICS=eno2 run map gpu8 --json --tasks=1
    has '"nics":["eno2"]'
    HVD_RS=cpus:7,gpus:1 run map gpu8 --json --tasks=8
    has 'resource set 7'
    run map gpu8 --json --tasks=8 --rs=cpus:7,gpus:1
    has 'resource set 7'
}

@test "--erf writes a resource file in Horovod's form" {
    run map gpu8 --erf
    [ "$status" -eq 0 ]
    has 'cpu_index_using: logical'
    has 'rank: 7: { hostname: gpu8; cpu: {'
    [ "$(grep -c '^rank: ' <<<"$output")" -eq 8 ]
}

@test "this node can be shown" {
    run "$hvdinfo" map --gpus=none --tasks=1
    [ "$status" -eq 0 ]
    [[ $output =~ $'\n'\ +0\ \ [0-9] ]]
}

@test "bad options are refused with one sentence" {
    refused 'map: --bind=l4: the value has an unknown word; expected auto, gpu, numa' --bind=l4
    refused 'map: --tasks=0: the value is too small; expected 1 to 8192 tasks' --tasks=0
    refused 'map: --tasks=8193: the value is too large' --tasks=8193
    refused 'map: --tasks=2x: the value' --tasks=2x
    refused 'map: --rs=cpus: the value' --rs=cpus
    refused 'map: --gpus=: the value is empty' --gpus=
    refused 'map: --gpus: there is no GPU 8 on this machine, which has 8' --gpus=0,8
    refused 'map: --gpus: there is no GPU  on this machine' --gpus=0,
    refused 'map: --gpus: GPU 0000:13:00.0 is given twice' --gpus=0,0000:13:00.0
    refused 'map: --cpus=0-: the value' --cpus=0-
    refused 'CPUs 0,1000 are granted, but the topology has 0-255' --cpus=0,1000
    refused 'map: --svg=: the value is empty' --svg=
    refused 'map: --jason: expected --topology=FILE' --jason
    refused 'map: tasks: expected --topology=FILE' tasks
    refused 'map: --json and --erf: expected one of them' --json --erf
    refused 'map: --json and --svg=- cannot both go to standard output' --json --svg=-
    refused '9 resource sets of 1 GPU do not fit' --tasks=9 --rs=gpus:1
    refused 'no GPU is granted on this node' --bind=gpu --gpus=none
    HVD_NICS=mlx9 refused 'mlx9'
}

@test "a topology that is absent, broken or huge is refused with one sentence" {
    refused '/nowhere/x.xml: a topology cannot be opened: No such file' --topology=/nowhere/x.xml
    refused 'not a topology; expected a file of at most 64 MiB' "--topology=$BATS_TEST_TMPDIR"
    head -c 5000 "$machines/gpu8.xml" >"$BATS_TEST_TMPDIR/cut.xml"
    refused 'cut.xml: not a topology; expected XML that hwloc 2 has exported' "--topology=$BATS_TEST_TMPDIR/cut.xml"
    : >"$BATS_TEST_TMPDIR/empty.xml"
    refused 'empty.xml: not a topology' "--topology=$BATS_TEST_TMPDIR/empty.xml"
    truncate -s 65M "$BATS_TEST_TMPDIR/huge.xml"
    refused 'huge.xml: not a topology; expected a file of at most 64 MiB' "--topology=$BATS_TEST_TMPDIR/huge.xml"
    sed 's/os_index="255"/os_index="5000"/;s/cpuset="0x8/cpuset="0xx/' "$machines/gpu8.xml" >"$BATS_TEST_TMPDIR/odd.xml"
    run "$hvdinfo" map "--topology=$BATS_TEST_TMPDIR/odd.xml"
    [ "$status" -le 1 ]
}

@test "a topology with which hwloc crashes is refused with one sentence" {
    local kind damaged=$BATS_TEST_TMPDIR/damaged.xml
    for kind in Machine Package; do
        sed "/type=\"$kind\"/s/ complete_cpuset=/ incomplete=/" "$machines/gpu8.xml" >"$damaged"
        refused 'damaged.xml: a damaged topology, with which hwloc crashes or comes to no end' "--topology=$damaged"
    done
    for kind in Core PU NUMANode L3Cache Bridge PCIDev; do
        sed "/type=\"$kind\"/s/cpuset=/set=/" "$machines/gpu8.xml" >"$damaged"
        run "$hvdinfo" map "--topology=$damaged"
        echo "$kind: $status $output"
        [ "$status" -le 1 ]
    done
}

@test "names that XML or a terminal would obey are shown harmless" {
    needs_python
    sed 's/value="gpu8"/value="\&lt;b\&gt;\&quot;\&amp;\&#9;x"/;s/name="mlx5_0"/name="a\&lt;\&quot;\\"/' \
        "$machines/gpu8.xml" >"$BATS_TEST_TMPDIR/odd.xml"
    run "$hvdinfo" map "--topology=$BATS_TEST_TMPDIR/odd.xml" "--svg=$BATS_TEST_TMPDIR/map.svg"
    [ "$status" -eq 0 ]
    [[ $output != *$'\t'* ]]
    python3 -c 'import sys, xml.etree.ElementTree as e; t = {i.text for i in e.parse(sys.argv[1]).getroot().iter()}
assert "<b>\"&?x: 8 tasks" in t and "a<\"\\" in t' "$BATS_TEST_TMPDIR/map.svg"
    "$hvdinfo" map "--topology=$BATS_TEST_TMPDIR/odd.xml" --json | python3 -c 'import json, sys
assert json.load(sys.stdin)[0]["nics"] == ["a<\"\\"]'
}

@test "an output that cannot be written is an error" {
    run "$hvdinfo" map "--topology=$machines/gpu8.xml" --svg=/nowhere/map.svg
    [ "$status" -eq 1 ]
    has 'hvdinfo: map: /nowhere/map.svg cannot be written: No such file'
    [ -e /dev/full ] || skip 'no /dev/full'
    run "$hvdinfo" map "--topology=$machines/gpu8.xml" --svg=/dev/full
    [ "$status" -eq 1 ]
    has '/dev/full cannot be written: No space left'
    run bash -c '"$1" map "--topology=$2" --json >/dev/full' - "$hvdinfo" "$machines/gpu8.xml"
    [ "$status" -eq 1 ]
    has 'No space left'
}

@test "hwloc opens no library of a GPU vendor or X11" {
    command -v strace >/dev/null || skip 'it needs strace'
    strace -f -e trace=openat -o "$BATS_TEST_TMPDIR/opened" "$hvdinfo" map >/dev/null || skip 'strace is not allowed'
    run ! grep -E 'libX11|libOpenCL|libcuda|libnvidia|hwloc_[a-z]*\.so' "$BATS_TEST_TMPDIR/opened"
}
