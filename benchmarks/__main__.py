"""`python -m benchmarks`: all of them but the choice of defaults and the burn-in, which take ten minutes each."""

from benchmarks import cold_start, families, galaxy, gibbs, motorcycle, slice, split_merge

for benchmark in (gibbs, split_merge, families, galaxy, slice, motorcycle, cold_start):
    benchmark.run()
