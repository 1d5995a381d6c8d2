#!/usr/bin/env bats
# The manual pages: they have no errors, and describe all that headers and programs declare.

@test "mandoc has nothing to say about any page" {
    command -v mandoc >/dev/null || skip "mandoc is not installed"
    for page in "$HVD_SOURCE"/man/*.[1-8] "$HVD_BUILD/man/hvd.7" "$HVD_BUILD/man/hvdrun.1"; do
        mandoc -Tlint -W warning "$page"
    done
}

# Print the calls that a page describes; and those of its NAME section.
described() {
    sed -n 's/^\.F[no] \(hvd_[a-z_]*\).*/\1/p' "$1" | sort -u
}

named() {
    sed -n '/^\.Sh NAME/,/^\.Nd/s/^\.Nm \(hvd_[a-z_]*\).*/\1/p' "$1" | sort -u
}

# Print the inline functions of a header.
inlined() {
    sed -n 's/^static inline .*[ *]\(hvd_[a-z_]*\)(.*/\1/p' "$1" | sort -u
}

@test "hvd(3) describes every call that libhvd exports, and no other" {
    {
        nm -D --defined-only "$HVD_BUILD/core/.libs/libhvd.so" | awk '{ print $3 }'
        inlined "$HVD_SOURCE/core/hvd.h"
    } | sort -u >"$BATS_TEST_TMPDIR/callable"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/callable")" -gt 40 ]
    diff "$BATS_TEST_TMPDIR/callable" <(described "$HVD_SOURCE/man/hvd.3")
    diff "$BATS_TEST_TMPDIR/callable" <(named "$HVD_SOURCE/man/hvd.3")
}

@test "hvd_mpi(3) describes every call of its header" {
    inlined "$HVD_SOURCE/core/hvd_mpi.h" | grep -v '^hvd_mpi_' >"$BATS_TEST_TMPDIR/callable"
    [ -s "$BATS_TEST_TMPDIR/callable" ]
    diff "$BATS_TEST_TMPDIR/callable" <(sed '/^\.Sh DESCRIPTION/,$d' "$HVD_SOURCE/man/hvd_mpi.3" >"$BATS_TEST_TMPDIR/head" &&
        described "$BATS_TEST_TMPDIR/head")
    diff "$BATS_TEST_TMPDIR/callable" <(named "$HVD_SOURCE/man/hvd_mpi.3")
}

@test "hvd(3) describes every constant of hvd.h" {
    pattern='\bHVD_[A-Z0-9_]+\b'
    grep -oE "$pattern" "$HVD_SOURCE/core/hvd.h" | grep -vxE 'HVD_(H|API)' | sort -u >"$BATS_TEST_TMPDIR/declared"
    [ -s "$BATS_TEST_TMPDIR/declared" ]
    diff "$BATS_TEST_TMPDIR/declared" <(grep -E '^\.(It (Bq )?)?Dv ' "$HVD_SOURCE/man/hvd.3" | grep -oE "$pattern" | sort -u)
}

# Write the programs in the EXAMPLES section of a page to files in the test's folder, one program a file.
programs() {
    awk -v folder="$BATS_TEST_TMPDIR" '
        /^\.Bd -literal/ { file = ""; first = 1; next }
        /^\.Ed/ { file = ""; next }
        first { first = 0; if ($0 ~ /^#include/) file = folder "/program" ++count ".c" }
        file != "" { gsub(/\\e/, "\\"); print > file }' "$1"
}

@test "the programs in the pages compile as they stand" {
    programs "$HVD_SOURCE/man/hvd.3"
    [ -s "$BATS_TEST_TMPDIR/program1.c" ]
    read -ra compiler <<<"${CC:-cc}"
    "${compiler[@]}" -std=gnu11 -Wall -Wextra -Werror -I"$HVD_SOURCE/core" -fsyntax-only "$BATS_TEST_TMPDIR"/program*.c
    command -v mpicc >/dev/null || skip "mpicc is not installed: hvd_mpi(3) is not tried"
    programs "$HVD_SOURCE/man/hvd_mpi.3"
    grep -q hvd_mpi.h "$BATS_TEST_TMPDIR/program1.c"
    mpicc -std=gnu11 -Wall -Wextra -Werror -I"$HVD_SOURCE/core" -fsyntax-only "$BATS_TEST_TMPDIR"/program1.c
}

@test "the options of hvd that README and the pages of launchers name exist" {
    local option known
    known=$("$HVD_BUILD/bin/hvdinfo" --options)
    # it is not one of libhvd's: the plug-in alone knows it
    grep -q '^\.Fl Fl hvd-min Ns = Ns Ar ranks$' "$HVD_SOURCE/man/hvd-spank.8" && known+=$'\n--hvd-min=RANKS'
    grep -q '^\.Fl Fl hvd-spares Ns = Ns Ar ranks$' "$HVD_SOURCE/man/hvd-spank.8" && known+=$'\n--hvd-spares=RANKS'
    # one is a slip that a page shows, with what srun says of it
    grep -ohE -- '--hvd-[a-z-]*[a-z]' "$HVD_SOURCE/README.md" "$HVD_SOURCE"/docs/*.md | sort -u | grep -v fuson \
        >"$BATS_TEST_TMPDIR/named"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/named")" -gt 15 ]
    while read -r option; do
        grep -qE -- "$option(=|\[|\$)" <<<"$known" || { echo "$option: there is no such option"; return 1; }
    done <"$BATS_TEST_TMPDIR/named"
}

@test "the files for administrators have the places of this installation" {
    local file
    for file in modulefile plugstack.conf; do
        [ -s "$HVD_BUILD/examples/$file" ]
        [ "$(grep -c '@[A-Za-z]*@' "$HVD_BUILD/examples/$file")" -eq 0 ]
    done
    grep -qE '^prepend-path PATH +"/.*/bin"$' "$HVD_BUILD/examples/modulefile"
    grep -qE '^optional .*/spank_hvd.so$' "$HVD_BUILD/examples/plugstack.conf"
}

@test "make html makes one folder, in which every link leads somewhere" {
    local link page
    command -v lowdown >/dev/null || skip 'lowdown is not installed'
    command -v mandoc >/dev/null || skip 'mandoc is not installed'
    cp "$HVD_BUILD/man/hvd.7" "$HVD_BUILD/man/hvdrun.1" "$BATS_TEST_TMPDIR/"
    bash "$HVD_SOURCE/docs/make_html" "$HVD_SOURCE" "$BATS_TEST_TMPDIR/html" "$BATS_TEST_TMPDIR/hvd.7" "$BATS_TEST_TMPDIR/hvdrun.1" \
        "$HVD_SOURCE"/man/{hvd,hvd_mpi}.3 "$HVD_SOURCE"/man/{hvdinfo,hvdbench}.1 "$HVD_SOURCE/man/hvd-spank.8"
    cd "$BATS_TEST_TMPDIR/html"
    [ "$(grep -c '<li><a href=' index.html)" -eq 7 ]
    grep -q 'href="hvdrun.1.html"' hvd.7.html
    for page in *.html; do
        while read -r link; do
            [ -z "$link" ] || [ -e "$link" ] || { echo "$page: $link is not there"; return 1; }
        done < <(grep -oE '(href|src)="[^":]*"' "$page" | sed -E 's/.*="//; s/"$//; s/#.*//' | sort -u)
    done
}

@test "make html names the package that it lacks" {
    local package
    for package in lowdown mandoc; do
        mkdir "$BATS_TEST_TMPDIR/$package"
        ln -s /bin/true "$BATS_TEST_TMPDIR/$package/$([ $package = mandoc ] && echo lowdown || echo mandoc)"
        run env PATH="$BATS_TEST_TMPDIR/$package" "$BASH" "$HVD_SOURCE/docs/make_html" "$HVD_SOURCE" "$BATS_TEST_TMPDIR/html"
        [ "$status" -eq 1 ]
        [ "$output" = "make html needs $package: install the package $package" ]
    done
}
