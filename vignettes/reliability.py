"""Long runs, and what goes wrong.  `make docs` runs this script and writes docs/reliability.md."""

# %%
import os
import tempfile

import nrmmix as nm

os.chdir(tempfile.mkdtemp())
model = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())

# %% [markdown]
# # Long runs, and what goes wrong
#
# ## How long
#
# Without further arguments chains go on until they agree: until the smallest effective sample size of what is reported is 400 and the
# largest R-hat 1.01, two minutes at most. Of each chain at most 1,000 draws are kept: when there are more, every second one goes, and
# `thin` doubles. The same seed gives the same draws, and what is kept is to the bit what so many draws with that thinning give.

# %%
fit = model.fit(rng=1)
again = model.fit(draws=fit.draws.n_draws, thin=fit.thin, rng=1)
fit.draws.n_draws, fit.thin, bool((fit.draws["labels"] == again.draws["labels"]).all())

# %% [markdown]
# The summary has two verdicts, on the clusters and on the density, or the curves of a density regression. A run that was too short says how
# to go on, as a call or in the shell as a command, and how long that takes.

# %% [markdown]
# ## A run outlives its process
#
# With `checkpoint=` the draws so far and the state of the chains are on the disk, whole, every five minutes (`every=`). Whatever ends the
# process, `nm.resume` goes on, to the same bits. Here a time limit ends the run in tuning:

# %%
stopped = model.fit(draws=90, tune=20_000, chains=2, rng=1, time_limit=0.05, checkpoint="run.npz")
resumed = nm.resume("run.npz")
whole = model.fit(draws=90, tune=20_000, chains=2, rng=1)
stopped.draws.n_draws, resumed.draws.n_draws, bool((resumed.draws["labels"] == whole.draws["labels"]).all())

# %% [markdown]
# Ctrl-C ends the chains and gives back the fit with what they have drawn, which `fit.extend()` takes up; before the first draw it raises
# KeyboardInterrupt, whose attribute `fit` can be extended. With a checkpoint SIGTERM and SIGHUP do the same, and end the process with
# status 143 or 129. In the shell `nrmmix fit --save fit.npz` keeps `fit.checkpoint.npz` until the fit is saved, and `nrmmix resume fit.npz`
# goes on.
#
# ## Memory
#
# Labels are int32, or where these would take more than 32 MB int16 or int8, if they hold them; mind that arithmetic of such arrays is of
# that type. Draws that do not fit into what the machine has free, or its control group allows, are refused before sampling; those that take
# more than half of it give a warning. `store="partition"` keeps labels and numbers, `store="scalars"` numbers alone.

# %%
small = model.fit(draws=90, tune=100, rng=1, store="scalars")
list(small.draws)

# %% [markdown]
# ## Copies
#
# Models and fits are pickled and copied by the format of saved files, so that joblib and multiprocessing take them. `nm.load` never runs
# what a file holds; a pickle does when it is loaded, whoever wrote it: load only your own.

# %%
import pickle

copy = pickle.loads(pickle.dumps(fit))
bool((copy.extend(10).draws["mass"] == fit.extend(10).draws["mass"]).all())

# %% [markdown]
# ## Tables of text
#
# In the shell a line with more or fewer fields than the header is refused by its number, and so are names that occur twice, decimal commas
# that are not asked for, and text that is not in the encoding. The separator is found out, and named where it is no comma.

# %% [bash]
# printf 'x,y\n1,2,\n3,4,\n' > trailing.csv

# %% [bash] raises
# nrmmix fit "y ~ 1" --data trailing.csv

# %% [markdown]
# ## What has been tried
#
# `make soak` tries all of this at length, `make test` a little of it ([tests/reliability](../tests/reliability)). What long runs of
# interrupts, kills and hostile tables have found is in [soak.json](../tests/reliability/soak.json).
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
