#!/usr/bin/env bats
# random_api.bats: the whole public interface, called at random. random_api.c says how; a seed gives the same calls again.

bats_require_minimum_version 1.5.0
load setup

setup() {
    need_hvdrun
}

@test "right calls give the right result, and wrong ones are refused with a sentence" {
    for seed in 1 2 3; do
        echo "seed $seed"
        good_case 2 random_api "$seed"
    done
    good_case 1 random_api 4
    good_case 3 random_api 5 --hvd-backends=tcp
}
