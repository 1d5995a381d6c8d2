#!/usr/bin/env bats
# Installation: what is in it, and what another prefix has make build again.

load setup

@test "what holds the place of the installation is built again for another prefix" {
    grep -q '^#define PKGLIBDIR "/' "$HVD_BUILD/config.h" # configure writes it, and touches it only when it changes
    make -C "$HVD_BUILD" -n -W config.h core/libhvd.la examples/train bin/hvdinfo >"$BATS_TEST_TMPDIR/commands"
    for source in core/base/module.c examples/train.c tools/hvdinfo/doctor/plugin.c; do
        grep -q "$source" "$BATS_TEST_TMPDIR/commands"
    done
}

@test "the installed README and pages link to what is installed" {
    root=$BATS_TEST_TMPDIR/root
    make -C "$HVD_BUILD" install-data DESTDIR="$root" >/dev/null
    readme=$(find "$root" -name README.md)
    doc=$(dirname "$readme")
    examples=$(dirname "$(find "$root" -name train.c)")
    for page in "$readme" "$doc"/docs/*.md; do
        for link in $(grep -o '](\([^)#]*\))' "$page" | tr -d '()]'); do
            case $link in
            http*) continue ;;
            examples/*) file=$examples/${link#examples/} ;;
            *) file=$(dirname "$page")/$link ;;
            esac
            [ -e "$file" ] || { echo "$page: $link is not installed"; false; }
        done
    done
}
