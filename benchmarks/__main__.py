"""`python -m benchmarks`: all of them but the choice of defaults, which takes ten minutes."""

from benchmarks import galaxy, gibbs, motorcycle, startup

for benchmark in (gibbs, galaxy, motorcycle, startup):
    benchmark.run()
