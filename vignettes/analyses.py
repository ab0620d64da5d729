"""Ten analyses from table to answer.  `make docs` runs this script and writes docs/analyses.md; needs the data sets of statsmodels."""

# %% [markdown]
# # Ten analyses
#
# Data sets of the package and of statsmodels, each with the question that an analyst would ask, the call that answers it, and a picture.
# Chains run until they agree or for two minutes, as they do by default; bands are 90% where nothing else is said.

# %%
import numpy as np
import pandas as pd
import statsmodels.datasets as sets

import nrmmix as nm

# %% [markdown]
# ## 1. Two columns: clusters, and one column given the other
#
# How long is the wait after an eruption of two minutes, and after one of four and a half? `given=` names the responses that the new
# rows hold.

# %%
faithful = nm.datasets.load_faithful()
fit = nm.fit("eruptions_min + waiting_min ~ 1", faithful, rng=1)
fit.partition()

# %%
new = pd.DataFrame({"eruptions_min": [2.0, 3.0, 4.5]})
fit.predict(new, given=["eruptions_min"]).round(1)

# %%
fit.predict(new, "quantile", given=["eruptions_min"], q=[0.1, 0.9])["estimate"].unstack().round(1)

# %%
fit.plot()

# %% [markdown]
# Without `given=` the column would be ignored, and is refused:

# %% raises
fit.predict(new, response="waiting_min")

# %% [markdown]
# ## 2. A curve with quantiles
#
# Expenditure on food and income of 235 Belgian working class households. Quantiles fan out. The formula takes the logarithm of income, by which
# households are spread more evenly; predictions take the income itself.

# %%
engel = sets.engel.load_pandas().data
engel.columns.tolist()

# %%
curve = nm.fit("foodexp ~ log(income)", engel, rng=1)
curve.plot("quantiles", draws=200, points=40)

# %%
curve.contrasts({"income": [600, 1200]}, draws=200).round(0)

# %% [markdown]
# ## 3. Two covariates
#
# The default picture varies one covariate and holds the other at its median; `surface` shows both.

# %%
iris = nm.datasets.load_iris()
two = nm.fit("sepal_length_cm ~ petal_length_cm + sepal_width_cm", iris, rng=1)
two.plot(draws=200)

# %% [markdown]
# Where a warning says that the default limit of two minutes ended the run before the chains agreed, `two.extend("auto", time_limit=900)` goes on.

# %%
two.plot("surface", draws=100)

# %% [markdown]
# ## 4. A factor
#
# The levels side by side, and the differences between them.

# %%
factor = nm.fit("sepal_length_cm ~ species + sepal_width_cm", iris, rng=1)
factor.plot(draws=200)

# %%
factor.plot("contrasts", values={"species": ["setosa", "versicolor", "virginica"]}, draws=200)

# %% [markdown]
# ## 5. Mixed columns with gaps
#
# The American National Election Study of 1996: age, education, where people place themselves between left and right, and their vote. A tenth
# of the cells of three columns is made missing, so that what is imputed can be compared with what it was.

# %%
anes = sets.anes96.load_pandas().data[["age", "educ", "selfLR", "vote"]].astype({"educ": int, "selfLR": float, "vote": "boolean"})
rng = np.random.default_rng(1)
torn = anes.copy()
gaps = rng.random((len(anes), 3)) < 0.1
for j, (name, nothing) in enumerate([("age", np.nan), ("selfLR", np.nan), ("vote", pd.NA)]):
    torn.loc[gaps[:, j], name] = nothing
family = {"age": "gaussian", "educ": "categorical", "selfLR": "gaussian", "vote": "bernoulli"}
mixed = nm.fit("age + educ + selfLR + vote ~ 1", torn, family=family, missing="marginalize", rng=1)
tables = mixed.impute(draws=5, data=torn)
tables

# %% [markdown]
# Cells with their own expectations and intervals. The votes that were taken away, and the probability that imputation gives them:

# %%
votes = tables.cells.xs("vote", level="response")["estimate"]
truth = anes["vote"][gaps[:, 2]].astype(float)
pd.Series({"accuracy": ((votes > 0.5) == (truth > 0.5)).mean(), "accuracy of the more frequent": max(truth.mean(), 1 - truth.mean())}).round(2)

# %% [markdown]
# ## 6. Counts
#
# Number of children of the first 1,500 of the married women of Fair's survey, and how religious they say they are, from 1 to 4.

# %%
fair = sets.fair.load_pandas().data.iloc[:1500]
women = pd.DataFrame({"children": np.ceil(fair["children"]).astype(int), "religious": fair["religious"].astype(int).astype(str)})
counts = nm.fit("children + religious ~ 1", women, family={"children": "poisson", "religious": "categorical"}, rng=1)
counts.predict({"religious": ["1", "4"]}, given="religious").round(2)

# %%
counts.plot("ppc", response="children")

# %% [markdown]
# The replicates show what the model misses: fewer women of the data have one child than the 90% ranges of the replicates allow, and more
# have two or six (the data have six where it was five or more). No mixture of Poisson laws is narrower than a Poisson law, and numbers of
# children are.
#
# ## 7. Courses over time
#
# Births per woman in 206 countries and regions, in four years, with gaps: kinds of courses.

# %%
fertility = sets.fertility.load_pandas().data.set_index("Country Name")
births = fertility[["1980", "1990", "2000", "2009"]].dropna(how="all").rename(columns="births_{}".format)
births.shape, int(births.isna().sum().sum())

# %%
courses = nm.fit(None, births, missing="marginalize", rng=1)
courses.plot("clusters")

# %%
courses.parameters().round(2)

# %% [markdown]
# ## 8. Twenty thousand rows
#
# The RAND Health Insurance Experiment: visits to a doctor and number of chronic diseases. For so many rows variational inference finds a
# fit in seconds; its bands are narrower than those of chains.

# %%
rand = sets.randhie.load_pandas().data[["mdvis", "disea"]].astype({"mdvis": int})
family = {"mdvis": "poisson", "disea": "gaussian"}
many = nm.fit("mdvis + disea ~ 1", rand, family=family, method="vb", rng=1)
many.model.n_obs, many.n_components

# %%
many.predict({"disea": [0.0, 10.0, 30.0]}, given="disea").round(1)

# %%
many.plot("density")

# %% [markdown]
# ## 9. Words
#
# Stories of Reuters: the topics that they fall into, by the words that are frequent in each. With so many words two partitions differ in
# posterior density by hundreds of nats, and chains would take hours to go from one to the other: variational inference finds one of them.

# %%
corpus = nm.datasets.load_reuters()
vocabulary = pd.DataFrame.sparse.from_spmatrix(corpus.counts, columns=corpus.vocabulary)
words = nm.fit(None, vocabulary, family=nm.Multinomial(), method="vb", rng=1)
words.partition()

# %%
words.plot()

# %% [markdown]
# ## 10. A report
#
# One HTML page with tables, pictures and the code that draws it again.

# %%
import tempfile

with tempfile.TemporaryDirectory() as folder:
    page = fit.report(f"{folder}/geysers.html")
    print(page.name, f"{page.stat().st_size / 1e6:.1f} MB")

# %% [markdown]
# How well does the first fit of this page predict rows that it has not seen? Each row is left out in turn:

# %%
fit.loo()
