"""Random programs: each is drawn from a seed, runs on all ranks of a job, and every result is
checked against what one process computes from the same seed."""
