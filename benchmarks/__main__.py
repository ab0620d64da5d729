"""`python -m benchmarks`: all of them but the choice of defaults, which takes ten minutes."""

from benchmarks import families, galaxy, gibbs, motorcycle, startup

for benchmark in (gibbs, families, galaxy, motorcycle, startup):
    benchmark.run()
