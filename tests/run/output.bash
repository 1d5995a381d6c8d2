# output.bash: what tests look for in the files that programs write, also those on a cluster. A file loads it.

# sums N FILE: each of N ranks of examples/hello has printed the sum
sums() {
    local rank
    for ((rank = 0; rank < $1; rank++)); do
        grep -q "rank $rank of $1: the sum is $(($1 * ($1 + 1) / 2))\$" "$2" || { cat "$2"; return 1; }
    done
}

# lacks PATTERN FILE: no line of the file matches
lacks() {
    if grep "$1" "$2"; then
        return 1
    fi
}
