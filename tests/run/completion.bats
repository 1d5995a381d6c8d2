#!/usr/bin/env bats
# completion.bats: the completion of hvdrun and hvdinfo in a shell that has read the files that are installed.

setup() {
    load setup
    folder=$HVD_BUILD/tools/completion
    [ -e "$folder/hvdrun" ] || skip "built without PMIx"
}

# complete PROGRAM WORD ...: print what the shell proposes for the last word
complete_last() {
    bash -c '. "$1" && shift && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) && "_$1" && printf "%s\n" "${COMPREPLY[@]}"' - \
        "$folder/$1" "$@"
}

@test "bash completes the options of hvdrun" {
    run complete_last hvdrun --hvd-fus
    [ "$output" = --hvd-fusion= ]
    run complete_last hvdrun -n 2 --time
    [ "$output" = '--timestamps ' ]
    # each option of the help
    complete_last hvdrun -- | tr -d ' =' | sort >"$BATS_TEST_TMPDIR/offered"
    "$HVD_BUILD/bin/hvdrun" --help | grep -oE '^ +(-[A-Za-z], )?--[a-z_-]+' | grep -oE -- '--[a-z_-]+' | sort >"$BATS_TEST_TMPDIR/listed"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/listed")" -gt 40 ]
    diff "$BATS_TEST_TMPDIR/listed" "$BATS_TEST_TMPDIR/offered"
}

@test "bash completes values that are one of a few words, and commands" {
    run complete_last hvdrun --hvd-progress = sp
    [ "$output" = spin ]
    run complete_last hvdrun --pty =
    [ "$output" = "$(printf 'auto\non\noff')" ]
    run complete_last hvdrun --hvd-log wa
    [ "$output" = warn ]
    run complete_last hvdrun -n 2 mkf
    [[ $output == *mkfifo* ]]
}

@test "bash completes the subcommands of hvdinfo and their options" {
    run complete_last hvdinfo doc
    [ "$output" = doctor ]
    run complete_last hvdinfo doctor --j
    [ "$output" = --json ]
    run complete_last hvdinfo map --s
    [ "$output" = --svg= ]
}

@test "zsh can read its completion, which has each option" {
    grep -q -- "'--hvd-fusion=\[fuse tensors" "$folder/_hvdrun"
    [ "$(grep -c "^    '--" "$folder/_hvdrun")" -eq "$("$HVD_BUILD/bin/hvdrun" --help | grep -cE '^ +(-[A-Za-z], )?--')" ]
    command -v zsh >/dev/null || skip "zsh is not installed"
    zsh -n "$folder/_hvdrun"
}
