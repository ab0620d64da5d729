"""Long runs, and what goes wrong.  `make docs` runs this script and writes docs/reliability.md."""

# %% [markdown]
# # Long runs, and what goes wrong
#
# **What if a run is long, or is ended before its time?** It can be continued from what it has left, to the same bits. The example is a small
# mixture, and files go to an empty folder:

# %%
import os
import tempfile

import nrmmix as nm

os.chdir(tempfile.mkdtemp())
model = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())

# %% [markdown]
# ## How long
#
# By default chains run until they agree, which means that the effective sample sizes of what is reported are at least 400 and R-hats at
# most 1.01, or for two minutes. Each chain keeps at most 1,000 draws: when there are more, every second one is dropped and `thin` doubles.
# The same seed gives the same draws, and they are the same to the bit as those of a run with that number of draws and that thinning.

# %%
fit = model.fit(rng=1)
again = model.fit(draws=fit.draws.n_draws, thin=fit.thin, rng=1)
fit.draws.n_draws, fit.thin, bool((fit.draws["labels"] == again.draws["labels"]).all())

# %% [markdown]
# The summary has two verdicts: one on the clusters, one on the density or, in a density regression, on the curves. For a run that was too
# short it names the call, or in the shell the command, that continues it, and how long that takes.

# %% [markdown]
# ## A run outlives its process
#
# `checkpoint=` writes the draws so far and the state of the chains to disk every five minutes (`every=`). Whatever ends the process,
# `nm.resume` continues to the same bits. Here a time limit ends the run during tuning:

# %%
stopped = model.fit(draws=90, tune=20_000, chains=2, rng=1, time_limit=0.05, checkpoint="run.npz")
resumed = nm.resume("run.npz")
whole = model.fit(draws=90, tune=20_000, chains=2, rng=1)
stopped.draws.n_draws, resumed.draws.n_draws, bool((resumed.draws["labels"] == whole.draws["labels"]).all())

# %% [markdown]
# Ctrl-C ends the chains and returns the fit with the draws so far, which `fit.extend()` continues; before the first draw it raises
# KeyboardInterrupt, whose attribute `fit` can be extended. With a checkpoint SIGTERM and SIGHUP do the same, and end the process with
# status 143 or 129. In the shell `nrmmix fit --save fit.npz` keeps `fit.checkpoint.npz` until the fit is saved, and `nrmmix resume fit.npz`
# continues it.
#
# ## Memory
#
# Labels are stored as int32; where these would take more than 32 MB, as int16 or int8 if the labels fit. Arithmetic on such arrays stays in
# that type. Draws that do not fit into the memory that is free, or that the control group allows, are refused before sampling; draws that
# take more than half of it give a warning. `store="partition"` keeps labels and numbers, `store="scalars"` numbers alone.

# %%
small = model.fit(draws=90, tune=100, rng=1, store="scalars")
list(small.draws)

# %% [markdown]
# ## Copies
#
# Models and fits are pickled and copied in the format of saved files, so they work with joblib and multiprocessing. `nm.load` never runs code
# from a file. Loading a pickle can run any code, so load only those that you wrote yourself.

# %%
import pickle

copy = pickle.loads(pickle.dumps(fit))
bool((copy.extend(10).draws["mass"] == fit.extend(10).draws["mass"]).all())

# %% [markdown]
# ## Tables of text
#
# The shell refuses a line with more or fewer fields than the header, and says its number. It also refuses column names that occur twice,
# decimal commas that were not asked for, and text that is not in the encoding. It finds the separator, and names it where it is not a comma.

# %% [bash]
# printf 'x,y\n1,2,\n3,4,\n' > trailing.csv

# %% [bash] raises
# nrmmix fit "y ~ 1" --data trailing.csv

# %% [markdown]
# ## What has been tried
#
# `make soak` tries all of this at length, `make test` a little of it ([tests/reliability](../tests/reliability)).
# [soak.json](../tests/reliability/soak.json) has what long runs of interrupts, kills and hostile tables have found.
#
# | what happens | what is done |
# |---|---|
# | process killed (`kill -9`) | one interval is lost at most; `nm.resume` gives the same bits |
# | SIGTERM, SIGHUP | draws are saved; status 143 or 129 |
# | one Ctrl-C at a random moment, or two in a row | no fit is lost: see soak.json |
# | time limit reached in tuning | a fit that `extend` takes up |
# | time limit within a long call of a move | the call is given up after 0.3 s; the chain goes back by half a second, or one iteration |
# | Gibbs sweep of more than 1,024 rows, stopped in its middle | goes on there |
# | time limit of `draws="auto"` | the summary says what ended the run, and how to go on |
# | draws that do not fit into memory | compared with what is free, control groups too, and refused |
# | saved sparse counts of 5e7 columns | refused by `max_bytes` |
# | forged headers, versions, labels | one error each |
# | forged formula whose basis has 998 columns, 5,000 rows | refused, with 0.5 GB and 11 s |
# | a path that cannot be written | refused before sampling |
# | pickle, deepcopy, multiprocessing | the format of saved files |
# | csv with a trailing separator | refused, with its line |
# | broken or closed stderr, stdout that cannot encode | costs the message, not the fit |
# | hundreds of fits in one process | no growth: see soak.json |
