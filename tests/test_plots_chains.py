"""Pictures of chains, hyperparameters and clusterings: artists show the draws."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from support import pictures
from support.pictures import RUN, fitted, labelled, legend, table

import nrmmix as nm
from nrmmix.plots import clustering, style

leaves_nothing = pictures.leaves_nothing


@pytest.fixture
def ax():
    return Figure().subplots()


# ---- chains


def test_traces_of_every_quantity():
    fit = fitted("nggp")
    axes = fit.plot("trace")
    try:
        assert [one.get_ylabel() for one in axes] == ["n_clusters", "log_joint", "mass", "sigma", "u"]
        for one in axes:
            assert np.array_equal([line.get_ydata() for line in one.lines], fit.draws[one.get_ylabel()])
        assert [one.get_yscale() for one in axes] == ["linear"] * 4 + ["log"]
    finally:
        pyplot.close(axes[0].figure)


def test_a_fixed_hyperparameter_has_no_trace():
    axes = fitted("fixed").plot("trace")
    try:
        assert [one.get_ylabel() for one in axes] == ["n_clusters", "log_joint"]
    finally:
        pyplot.close(axes[0].figure)


def test_autocorrelation_with_its_band(ax):
    fit = fitted("galaxy")
    fit.plot("autocorrelation", ax, name="mass", lags=12)
    expected = fit.autocorrelation("mass", 12)
    for chain in expected:
        lag, values = labelled(ax, f"chain {chain}").get_data()
        assert np.array_equal(lag, range(13)) and np.array_equal(values, expected[chain])
    band = labelled(ax, "independent draws").get_bbox()
    assert (band.y0, band.y1) == pytest.approx((-1.96 / np.sqrt(30), 1.96 / np.sqrt(30)))
    assert ax.get_ylabel() == "autocorrelation of\nmass"


# ---- hyperparameters and the number of clusters


def test_prior_and_posterior_of_hyperparameters():
    fit = fitted("plane")
    axes = fit.plot("prior_posterior")
    try:
        assert [one.get_xlabel() for one in axes] == ["mass", "width_x"]  # the width of b is fixed
        assert legend(axes[0]) == ["posterior", "prior Gamma(1, 1)"] and legend(axes[1]) == ["posterior", "prior LogNormal(-1, 1)"]
        for one, prior in zip(axes, (nm.Gamma(1, 1), nm.LogNormal(-1, 1))):
            x, values = one.lines[0].get_data()
            assert np.array_equal(values, prior.distribution.pdf(x))
            bars, draws = one.patches, fit.draws.flat(one.get_xlabel())
            assert sum(bar.get_height() * bar.get_width() for bar in bars) == pytest.approx(1.0)
            assert (bars[0].get_x(), bars[-1].get_x() + bars[-1].get_width()) == pytest.approx((draws.min(), draws.max()))
    finally:
        pyplot.close(axes[0].figure)


def test_a_prior_without_bound_leaves_room_for_the_posterior(ax):
    fit = nm.Model("a ~ 1", table(), prior=nm.DirichletProcess(nm.Gamma(0.01, 0.01))).fit(**RUN)
    fit.plot("prior_posterior", ax)
    assert ax.get_ylim()[1] <= 3.2 * max(bar.get_height() for bar in ax.patches)


def test_number_of_clusters_beside_its_prior(ax):
    fit = fitted("galaxy")
    fit.plot("n_clusters", ax)
    drawn = fit.draws["n_clusters"]
    for bar in ax.patches:
        assert bar.get_height() == np.mean(drawn == round(bar.get_x() + bar.get_width() / 2))
    assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(1.0)
    prior, (line,) = fit.model.prior_n_clusters(), ax.lines
    assert np.array_equal(line.get_ydata(), prior.loc[line.get_xdata()])
    shown = line.get_ydata().sum()
    assert line.get_label() == (f"prior ({1 - shown:.1%} beyond)" if shown < 0.999 else "prior") and shown > 0.9


def test_a_wide_prior_does_not_squeeze_the_posterior(ax):
    x = np.random.default_rng(1).normal(size=60)
    fit = nm.Model(data=pd.DataFrame({"x": x}), prior=nm.DirichletProcess(1000.0)).fit(init="one", **RUN | {"draws": 2, "tune": 0})
    far = fit.model.prior_n_clusters().cumsum().searchsorted(0.95)
    fit.plot("n_clusters", ax)
    assert ax.get_xlim()[1] < max(3 * (fit.draws["n_clusters"].max() + 1) + 1, far)


# ---- clusterings


def test_similarity_by_cluster_of_the_estimate(ax):
    fit = fitted("faithful")
    fit.plot("similarity", ax)
    (image,) = ax.images
    shown, full, labels = np.asarray(image.get_array()), fit.similarity(), fit.partition().labels
    assert np.array_equal(np.sort(shown, axis=None), np.sort(full, axis=None)) and (np.diag(shown) == 1).all()
    sizes = np.sort(np.bincount(labels))[::-1]
    assert [square.get_width() for square in ax.patches] == list(sizes)
    assert [square.get_x() + 0.5 for square in ax.patches] == [0, *np.cumsum(sizes)[:-1]]
    largest = labels == np.argmax(np.bincount(labels))
    block = shown[: sizes[0], : sizes[0]]
    assert np.array_equal(np.sort(block, axis=None), np.sort(full[np.ix_(largest, largest)], axis=None))
    assert (np.diff(block.mean(axis=0)) < 1e-6).all()  # from the surest to the least sure
    assert image.colorbar.ax.get_ylabel() == "probability of sharing a cluster"


def test_similarity_of_many_rows_is_that_of_a_part(ax, monkeypatch):
    fit = fitted("faithful")
    monkeypatch.setattr(clustering, "SHOWN_ROWS", 50)
    fit.plot("similarity", ax)
    sizes = fit.partition().sizes
    assert ax.images[0].get_array().shape == (50, 50) and ax.get_xlabel() == "50 of 272 rows, by cluster of the point estimate"
    shown = [square.get_width() for square in ax.patches]
    assert sum(shown) == 50 and abs(shown[0] - 50 * sizes.max() / 272) <= 1


def test_clusters_in_the_plane(ax):
    fit, observed = fitted("faithful"), nm.datasets.load_faithful().to_numpy()
    fit.plot("clusters", ax)
    found = fit.predict(kind="cluster")
    estimate = fit.partition().labels
    sizes = np.bincount(estimate)
    order = np.argsort(-sizes, kind="stable")
    assert legend(ax)[: len(order)][:8] == [f"cluster {c} ({sizes[c]})" for c in order][:8]
    for rank, (cluster, marks) in enumerate(zip(order, ax.collections, strict=True)):
        assert np.array_equal(marks.get_offsets(), observed[estimate == cluster])
        color = marks.get_facecolor()
        assert to_hex(color[0]) == style.CYCLE[rank % 8].lower()
        assert np.allclose(color[:, 3], 0.25 + 0.75 * found["probability"].to_numpy()[estimate == cluster])


def test_clusters_of_one_response_in_rows(ax):
    fit = fitted("galaxy")
    fit.plot("clusters", ax)
    drawn = np.concatenate([marks.get_offsets() for marks in ax.collections])
    assert np.array_equal(np.sort(drawn[:, 0]), np.sort(nm.datasets.load_galaxy()["velocity_km_s"]))
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    for rank, marks in enumerate(ax.collections):
        assert (np.round(marks.get_offsets()[:, 1]) == min(rank, 8)).all()
        assert rank >= 8 or names[rank] == marks.get_label()


def test_the_legend_names_the_eight_largest(ax):
    labels = np.repeat(np.arange(10), np.arange(10, 0, -1))
    found = clustering.Clustering(labels, np.ones(len(labels)))
    found.scatter(ax, labels.astype(float), labels.astype(float))
    assert [handle.get_label() for handle in found.handles(ax)] == [f"cluster {c} ({10 - c})" for c in range(8)] + ["and 2 more"]
    looks = {(to_hex(marks.get_facecolor()[0]), len(marks.get_paths()[0])) for marks in ax.collections}
    assert len(looks) == 10


def test_pairs_and_principal_components():
    axes = fitted("four").plot("clusters")
    try:
        assert axes.shape == (3, 3) and [one.get_xlabel() for one in axes[2]] == ["a", "b", "c"]
        offsets = np.concatenate([marks.get_offsets() for marks in axes[2, 1].collections])
        assert np.array_equal(np.sort(offsets, axis=0), np.sort(table()[["b", "d"]], axis=0))
    finally:
        pyplot.close(axes[0, 0].figure)
    ax = fitted("seven").plot("clusters", Figure().subplots())
    offsets = np.concatenate([marks.get_offsets() for marks in ax.collections])
    correlation = np.corrcoef(table()[[*"abcdefg"]].T)
    largest = np.linalg.eigvalsh(correlation)[::-1][:2]
    assert np.allclose(offsets.var(axis=0), largest) and f"({largest[0] / 7:.0%} of the variance)" in ax.get_xlabel()


@pytest.mark.filterwarnings("ignore:.*quartile ranges away:UserWarning")
def test_a_few_rows_far_away_do_not_press_the_others_flat():
    rng = np.random.default_rng(0)
    near = rng.normal(size=(96, 6)) * [3.0, 2, 1, 1, 1, 1]
    fit = nm.Model(data=np.concatenate([near, 500.0 + rng.normal(size=(4, 6))])).fit(**RUN)
    labels = fit.partition().labels
    ax = fit.plot("clusters", Figure().subplots())
    (low, high), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    offsets = np.concatenate([marks.get_offsets() for marks in ax.collections])
    inside = (offsets >= [low, bottom]).all(axis=1) & (offsets <= [high, top]).all(axis=1)
    assert len(offsets) == 100 and inside.sum() == 96 and high - low < 1.2 * np.ptp(offsets[inside], axis=0)[0]
    component, outside = ax.get_xlabel().split("\n")
    correlation = np.linalg.eigvalsh(np.corrcoef(near.T))[::-1]
    assert f"({correlation[0] / 6:.0%} of the variance)" in component
    assert outside == f"outside: 4 rows (4 of cluster {labels[-1]})"
    many = nm.Model(data=np.concatenate([near, 500.0 + rng.normal(size=(20, 6))])).fit(**RUN).plot("clusters", Figure().subplots())
    assert "outside" not in many.get_xlabel(), "a cluster of one row in six belongs into the picture"


def test_panels_that_are_left_out_are_counted():
    fit = nm.Model(data=np.random.default_rng(0).normal(size=(30, 14))).fit(**RUN)
    axes = fit.plot("ppc", draws=2)
    try:
        assert [one.get_title(loc="right") for one in axes] == [""] * 11 + ["12 of 14 responses; others by response="]
    finally:
        pyplot.close(axes[0].figure)
    assert fit.plot("ppc", Figure().subplots(), response="y14", draws=2).get_title(loc="right") == ""


def test_clusters_over_covariates(ax):
    fitted("mcycle").plot("clusters", ax)
    offsets = np.concatenate([marks.get_offsets() for marks in ax.collections])
    assert np.array_equal(np.sort(offsets, axis=0), np.sort(nm.datasets.load_mcycle(), axis=0))
    plane = fitted("mixed").plot("clusters", Figure().subplots())
    assert (plane.get_xlabel(), plane.get_ylabel()) == ("x", "group")
    assert [tick.get_text() for tick in plane.get_yticklabels()] == ["blue", "red"]
    offsets = np.concatenate([marks.get_offsets() for marks in plane.collections])
    place = dict(zip(offsets[:, 0], np.round(offsets[:, 1]), strict=True))
    assert [place[x] for x in table()["x"]] == list((table()["group"] == "red").astype(float))


def test_without_a_prior_the_posterior_is_drawn(ax, monkeypatch):
    def refuse(_model):
        raise ValueError("too many rows")

    monkeypatch.setattr(nm.Model, "prior_n_clusters", refuse)
    fitted("galaxy").plot("n_clusters", ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["posterior (the prior cannot be computed for so many rows)"]
