"""`python -m benchmarks`: all of them but the choice of defaults and the burn-in, which take ten minutes each."""

from benchmarks import families, galaxy, gibbs, motorcycle, slice, split_merge, startup

for benchmark in (gibbs, split_merge, families, galaxy, slice, motorcycle, startup):
    benchmark.run()
