"""The command line.  `make docs` runs this script and writes docs/command_line.md."""

# %% [markdown]
# # Command line
#
# Results go to standard output, messages to standard error. The exit status is 0 for a result, 1 for a failure on the way, 2 for input that
# cannot be used, 130 for an interrupt before the first draw, and 143 or 129 where SIGTERM or SIGHUP has ended the sampling.
# The commands of this page run in an empty folder:

# %%
import os
import tempfile

os.chdir(tempfile.mkdtemp())

# %% [bash]
# nrmmix --help

# %% [markdown]
# ## Fit

# %% [bash]
# nrmmix datasets
# nrmmix fit "accel_g ~ times_ms" --data mcycle --draws 2000 --tune 2000 --thin 20 --seed 1 --save mcycle.npz --report mcycle.html --plot mcycle.png
# ls

# %% [markdown]
# `--data` takes the name of a data set, a file (csv, compressed or not, Parquet, `.npy`), or `-` for csv from standard input. Files are
# read into memory where the method needs all rows there. `nrmmix fit --help` has all options:

# %% [bash]
# nrmmix fit --help

# %% [markdown]
# ## A saved fit

# %% [bash]
# nrmmix summary mcycle.npz --format csv | head -n 8
# printf 'times_ms\n10\n20\n30\n' > new.csv
# nrmmix predict mcycle.npz --data new.csv
# nrmmix predict mcycle.npz --data new.csv --kind quantile --q 0.1 0.9 > quantiles.csv
# head -n 3 quantiles.csv
# nrmmix report mcycle.npz again.html

# %% [markdown]
# ## Several responses

# %% [bash]
# nrmmix fit "eruptions_min + waiting_min ~ 1" --data faithful --draws 1000 --thin 20 --seed 1 --save faithful.npz > faithful.txt
# nrmmix predict faithful.npz --kind density --at 2,55 4.5,80
# nrmmix predict faithful.npz --kind quantile --q 0.5 --response waiting_min

# %% [markdown]
# ## Fits compared
#
# `nrmmix compare` goes by the log density that each fit gives to rows that it has not seen, as `nm.compare` does; without `--data` the rows
# that were fitted are left out in turn.

# %% [bash]
# nrmmix fit "accel_g ~ times_ms" --data mcycle --kernel se --width 0.05 --draws 1000 --thin 20 --seed 1 --save se.npz > se.txt
# printf 'times_ms,accel_g\n15,-40\n21,-115\n30,20\n40,5\n' > later.csv
# nrmmix compare mcycle.npz se.npz --data later.csv

# %% [markdown]
# ## For other programs
#
# With `--json`, `fit`, `resume`, `summary`, `predict`, `compare` and `datasets` print JSON. A fit is one object with `fit` (the whole in
# one row), `estimates` (with their diagnostics), `clusters` of the point estimate and `notes`, the verdict last. A table is a list of rows.
# Numbers that are missing or not finite are null.

# %% [bash]
# nrmmix summary se.npz --json | head -n 30
# nrmmix predict mcycle.npz --data new.csv --json | head -n 12

# %% [markdown]
# ## The pages of this documentation
#
# They are scripts, and come with the package. `nrmmix vignettes` runs them and writes each as an HTML page that needs nothing else, as Markdown and as
# a notebook; `--fast` computes the short forms of those on papers.

# %% [bash]
# nrmmix vignettes --list
# nrmmix vignettes formulas --to pages
# ls pages

# %% [markdown]
# ## What is refused

# %% [bash] raises
# nrmmix fit "acell_g ~ times_ms" --data mcycle
# nrmmix summary nothing.npz
# nrmmix predict mcycle.npz --kind men
# nrmmix vignettes formula

# %% [markdown]
# ## Compile once
#
# The first fit on a machine compiles for 18 to 38 seconds, and the first predictions and pictures for a few more. `nrmmix warmup` compiles
# ahead of time all that fits, predictions, pictures and searches call, in as many processes as there are cores, at most four, and says how
# long it took.
#
# What is compiled is kept in the folder that `NUMBA_CACHE_DIR` names; without it beside the source where that may be written, else in the user's
# cache folder. Code that lies beside the source serves all who may read it: whoever builds an image of a machine, or installs for several
# users, calls `nrmmix warmup` once after the installation.
#
# Such code counts for this version of nrmmix and of numba, and for this kind of processor; on another one kernels are compiled anew. A folder
# that is full or cannot be written costs the time of compiling, and no fit.
