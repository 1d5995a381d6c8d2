#!/usr/bin/env bats
# refusals.bats: every call is refused for every reason, and then made rightly. The cases are in refusals.c. Memory that
# is freed is overwritten, so that a request that was freed and can still be found is noticed without a sanitizer too.

bats_require_minimum_version 1.5.0
load setup

setup() {
    need_hvdrun
    export MALLOC_PERTURB_=165
}

@test "a call that is refused leaves nothing behind" {
    good_case 1 refusals inside
    good_case 3 refusals inside
}

@test "every call is refused before hvd_init and after hvd_shutdown" {
    good_case 2 refusals outside
}
