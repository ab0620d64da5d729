"""Point estimates of partitions against enumeration of all partitions, and losses against their definitions."""

import dataclasses
import itertools
import math

import naive
import numpy as np
import pytest
from support.cover import each_once

from nrmmix.kernels import partitions as kernels
from nrmmix.posterior import partition as pt

LOSSES = ("vi", "binder")


@pytest.fixture
def rng():
    return np.random.default_rng(20250601)


# ---- references


def naive_vi(a, b):
    """H(a | b) + H(b | a) from the joint probabilities of cluster numbers."""
    n, total = len(a), 0.0
    for x in set(a):
        for y in set(b):
            both = sum(u == x and v == y for u, v in zip(a, b, strict=True)) / n
            if both:
                p, q = sum(u == x for u in a) / n, sum(v == y for v in b) / n
                total -= both * (math.log(both / p) + math.log(both / q))
    return total


def naive_binder(a, b):
    n = len(a)
    return sum((a[i] == a[j]) != (b[i] == b[j]) for i in range(n) for j in range(n)) / n**2


NAIVE = {"vi": naive_vi, "binder": naive_binder}
PUBLIC = {"vi": pt.vi, "binder": pt.binder}


def noisy(n, T, K, noise, rng):
    """One partition, every label of which is redrawn with probability `noise` in every draw."""
    draws = np.tile(rng.integers(0, K, n), (T, 1))
    anew = rng.random((T, n)) < noise
    draws[anew] = rng.integers(0, K + 2, anew.sum())
    return draws.astype(np.int32)


def some_draws(n, kind, rng):
    T = int(rng.integers(1, 12))
    return rng.integers(0, n, (T, n)).astype(np.int32) if kind == "scattered" else noisy(n, T, 3, 0.3, rng)


# ---- labels


def test_canonical_numbers_by_first_appearance():
    labels, K = pt.canonical(np.array([9, -1, 9, 4, -1]))
    np.testing.assert_array_equal(labels, [0, 1, 0, 2, 1])
    assert K == 3


# ---- similarity


@pytest.mark.parametrize(("n", "T"), [(1, 1), (3, 7), (17, 5), (300, 11)])
def test_similarity_is_the_share_of_draws(n, T, rng):
    draws = noisy(n, T, 4, 0.5, rng)
    found = pt.similarity(draws)
    assert found.dtype == np.float32 and found.shape == (n, n)
    wanted = np.mean([row[:, None] == row[None, :] for row in draws], axis=0)
    np.testing.assert_array_equal(found, wanted.astype(np.float32))


def test_similarity_has_a_limit():
    with pytest.raises(ValueError, match=r"25,000 observations would take 2\.5 GB; the limit is 20,000"):
        pt.similarity(np.zeros((1, 25_000), np.int32))


# ---- losses


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_follow_their_definitions(loss, rng):
    for n in (1, 2, 5, 12, 30):
        for _ in range(10):
            a, b = rng.integers(0, 5, (2, n))
            assert PUBLIC[loss](a, b) == pytest.approx(NAIVE[loss](a.tolist(), b.tolist()), abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_are_metrics(loss):
    everything = list(naive.partitions(4))
    distance = np.array([[PUBLIC[loss](a, b) for b in everything] for a in everything])
    np.testing.assert_array_equal(distance == 0.0, np.eye(len(everything), dtype=bool))
    np.testing.assert_allclose(distance, distance.T, atol=1e-14)
    assert (distance[:, :, None] + distance[None, :, :] >= distance[:, None, :] - 1e-12).all()
    assert distance.max() <= math.log(4) + 1e-12 if loss == "vi" else distance.max() == 0.75


def test_known_values():
    n = 50
    one, each, halves = np.zeros(n, int), np.arange(n), np.arange(n) % 2
    assert pt.vi(one, each) == pytest.approx(math.log(n))
    assert pt.vi(one, halves) == pytest.approx(math.log(2))
    assert pt.vi(each, halves) == pytest.approx(math.log(n / 2))
    assert pt.binder(one, each) == pytest.approx(1 - 1 / n)
    assert pt.binder(one, halves) == pytest.approx(0.5)


@pytest.mark.parametrize("loss", LOSSES)
def test_numbering_does_not_matter(loss, rng):
    a, b = rng.integers(0, 6, (2, 40))
    wanted = PUBLIC[loss](a, b)
    assert PUBLIC[loss](10**12 - 7 * a, b) == wanted
    assert PUBLIC[loss]((5 - a).astype(np.uint8), b[::-1][::-1]) == wanted
    assert PUBLIC[loss](a, 10**12 - a) == 0.0


def test_equal_partitions_of_many_observations_are_at_distance_zero(rng):
    a = rng.integers(0, 300, 200_000)
    assert pt.vi(a, 299 - a) == 0.0
    b = a.copy()
    b[0] = (b[0] + 1) % 300
    assert 0.0 < pt.vi(a, b) < 1e-3


@pytest.mark.parametrize("loss", LOSSES)
def test_expected_loss_is_the_average(loss, rng):
    draws, candidates = noisy(25, 40, 4, 0.3, rng), noisy(25, 3, 4, 0.3, rng)
    wanted = [np.mean([NAIVE[loss](c.tolist(), row.tolist()) for row in draws]) for c in candidates]
    np.testing.assert_allclose(pt.expected_loss(candidates, draws, loss), wanted, rtol=1e-12)
    single = pt.expected_loss(candidates[0], draws, loss)
    assert isinstance(single, float) and single == pytest.approx(wanted[0])


# ---- estimates


@pytest.mark.parametrize(("loss", "kind"), each_once(LOSSES, ["scattered", "noisy"]))
def test_the_estimate_is_the_best_of_all_partitions(loss, kind, rng):
    for n, repeats in ((2, 5), (3, 10), (4, 15), (5, 20), (6, 25)):
        everything = np.array(list(naive.partitions(n)))
        for _ in range(repeats):
            draws = some_draws(n, kind, rng)
            least = pt.expected_loss(everything, draws, loss).min()
            found = pt.estimate(draws, loss, rng=rng)
            assert found.expected_loss == pytest.approx(least, abs=1e-10)
            assert found.expected_loss == pt.expected_loss(found.labels, draws, loss)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bound", [1, 2, 3])
def test_a_bound_on_the_number_of_clusters(loss, bound, rng):
    everything = np.array([c for c in naive.partitions(6) if max(c) < bound])
    for _ in range(10):
        draws = some_draws(6, "scattered", rng)
        found = pt.estimate(draws, loss, max_clusters=bound, rng=rng)
        assert found.n_clusters <= bound
        assert found.expected_loss == pytest.approx(pt.expected_loss(everything, draws, loss).min(), abs=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_estimate_beats_all_draws_and_finds_the_signal(loss, rng):
    draws = noisy(120, 150, 5, 0.2, rng)
    found = pt.estimate(draws, loss, rng=1)
    assert found.expected_loss < pt.expected_loss(draws, draws, loss).min()
    # Which label each observation has most often.
    common = [np.bincount(column).argmax() for column in draws.T]
    assert PUBLIC[loss](found.labels, common) == 0.0
    # No single move improves it.
    for i in range(0, 120, 7):
        for k in range(found.n_clusters + 1):
            moved = found.labels.copy()
            moved[i] = k
            assert pt.expected_loss(moved, draws, loss) >= found.expected_loss - 1e-12


def test_the_number_of_threads_changes_nothing(rng, monkeypatch):
    draws = noisy(60, 80, 5, 0.4, rng)
    estimates, matrices = [], []
    for cores in (1, 3):
        monkeypatch.setattr(pt, "available_cores", lambda cores=cores: cores)
        estimates.append(pt.estimate(draws, rng=3).labels)
        matrices.append(pt.similarity(draws))
    np.testing.assert_array_equal(*estimates)
    np.testing.assert_array_equal(*matrices)


def test_more_clusters_than_any_draw_has(rng):
    """Pairs are together in few draws: Binder's loss prefers singletons, beyond the columns that a run begins with."""
    draws = rng.integers(0, 4, (60, 70))
    assert (pt.similarity(draws) - np.eye(70) < 0.5).all()
    found = pt.estimate(draws, "binder", runs=2, rng=1)
    np.testing.assert_array_equal(found.labels, np.arange(70))


def test_more_draws_than_the_search_uses(rng, monkeypatch):
    draws = noisy(30, 200, 3, 0.3, rng)
    whole = pt.estimate(draws, rng=1)
    monkeypatch.setattr(pt, "SEARCH_DRAWS", 50)
    part = pt.estimate(draws, rng=1)
    assert part.expected_loss == pt.expected_loss(part.labels, draws)
    assert part.expected_loss == pytest.approx(whole.expected_loss, rel=0.05)
    monkeypatch.setattr(pt, "SEARCH_CELLS", 500)  # room for few draws and few clusters
    monkeypatch.setattr(pt, "SCREENING", 1)
    little = pt.estimate(draws, rng=1)
    assert little.expected_loss == pt.expected_loss(little.labels, draws) >= part.expected_loss - 0.1


def around(rng, n, draws, share=0.25):
    """Draws around five clusters, in each of which a share of the observations is somewhere else, and some draws join two."""
    truth = rng.integers(5, size=n)
    out = np.where(rng.uniform(size=(draws, n)) < share, rng.integers(7, size=(draws, n)), truth)
    out[: draws // 3] = np.where(out[: draws // 3] == 4, 3, out[: draws // 3])
    return out


@pytest.mark.parametrize("loss", LOSSES)
def test_a_search_by_a_sample_is_nearly_as_good(loss, rng, monkeypatch):
    """Of many rows: the loss is exact, nearly that of the search among all, and the estimate says how it was sought."""
    draws = around(rng, 3000, 120)
    monkeypatch.setattr(pt, "SEARCH_WORK", math.inf)
    whole = pt.estimate(draws, loss, rng=1)
    monkeypatch.setattr(pt, "SEARCH_WORK", 1e6)
    for name, value in (("SAMPLE", 500), ("SAMPLE_WORK", 2e5), ("SCAN_WORK", 1e6)):
        monkeypatch.setattr(pt, name, value)
    found = pt.estimate(draws, loss, rng=1)
    assert found.sampled == 500 and "sought by a sample of 500 of 3,000 rows" in repr(found)
    assert not whole.sampled and "sample" not in repr(whole)
    assert found.expected_loss == pytest.approx(pt.expected_loss(found.labels, draws, loss))
    assert whole.expected_loss - 1e-9 <= found.expected_loss <= 1.01 * whole.expected_loss
    assert found.expected_loss < pt.expected_loss(draws, draws, loss).min()
    assert (pt.estimate(draws, loss, rng=1).labels == found.labels).all(), "the seed decides"
    assert pt.estimate(draws, loss, rng=1, max_clusters=3).n_clusters <= 3


def test_many_clusters_of_many_rows(rng, monkeypatch):
    """As many as a tenth of the rows: tables stay within their room, and the estimate has them."""
    for name, value in (("SAMPLE", 300), ("SEARCH_WORK", 1e4), ("SAMPLE_WORK", 1e4), ("SCAN_WORK", 1e4), ("SEARCH_CELLS", 2**18)):
        monkeypatch.setattr(pt, name, value)
    kept, init = [], kernels.Search.__init__
    monkeypatch.setattr(kernels.Search, "__init__", lambda self, *a: init(self, *a) or kept.append(self.cells))
    truth = np.repeat(np.arange(120), 10)
    draws = np.where(rng.uniform(size=(60, 1200)) < 0.02, rng.integers(120, size=(60, 1200)), truth)
    found = pt.estimate(draws, rng=1)
    assert found.sampled == 300 and max(kept) <= 2**19
    assert found.expected_loss <= pt.expected_loss(draws, draws).min() and abs(found.n_clusters - 120) < 12


def test_few_rows_are_searched_among_all(rng, monkeypatch):
    monkeypatch.setattr(pt, "SEARCH_WORK", 0)
    assert pt.estimate(around(rng, pt.SAMPLE, 4), runs=1, rng=1).sampled == 0


@pytest.mark.parametrize("loss", LOSSES)
def test_the_same_seed_gives_the_same_estimate(loss, rng):
    draws = rng.integers(0, 6, (30, 40))
    before = draws.copy()
    draws.setflags(write=False)
    one, two = (pt.estimate(draws, loss, rng=seed) for seed in (3, np.random.SeedSequence(3)))
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_array_equal(draws, before)
    assert pt.estimate(np.asfortranarray(draws), loss, rng=np.random.default_rng(3)).expected_loss == one.expected_loss


def test_no_global_generator(rng):
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    pt.estimate(noisy(20, 10, 3, 0.3, rng))
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.parametrize("loss", LOSSES)
def test_one_draw_is_its_own_estimate(loss):
    found = pt.estimate([[4, 4, 2, 0, 2]], loss, rng=1)
    np.testing.assert_array_equal(found.labels, [0, 0, 1, 2, 1])
    assert found.expected_loss == 0.0 and found.credible_ball.radius == 0.0
    np.testing.assert_array_equal(found.credible_ball.horizontal, [found.labels])


@pytest.mark.parametrize("loss", LOSSES)
def test_one_observation(loss):
    found = pt.estimate(np.zeros((5, 1), np.int32), loss, rng=1)
    assert found.labels.tolist() == [0] and found.n_clusters == 1 and found.expected_loss == 0.0
    assert found.credible_ball.vertical_lower.tolist() == [[0]]


def test_partition_is_frozen_and_prints_briefly(rng):
    draws = noisy(8, 30, 2, 0.1, rng)
    found = pt.estimate(draws, rng=1)
    assert found.draws is draws
    sizes = ", ".join(str(size) for size in sorted(found.sizes, reverse=True))
    assert repr(found) == f"Partition({found.n_clusters} clusters of sizes {sizes}; expected vi loss {found.expected_loss:.4g})"
    assert "sizes 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ...;" in repr(dataclasses.replace(found, labels=np.arange(20)))
    assert found.sizes.sum() == 8 and len(found.sizes) == found.n_clusters
    assert found.labels.dtype == np.int64
    assert found.credible_ball is found.credible_ball and found.credible_ball.level == 0.95
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.loss = "binder"


# ---- credible balls


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("level", [0.05, 0.5, 0.8, 0.95, 1.0])
def test_credible_balls_by_their_definition(loss, level, rng):
    for _ in range(5):
        draws = noisy(6, 20, 3, 0.3, rng)
        found = pt.estimate(draws, loss, rng=rng)
        ball = found.ball(level)
        rows = [naive.canonical(row) for row in draws]
        away = [round(NAIVE[loss](found.labels.tolist(), row), 9) for row in rows]
        radius = min(r for r in away if sum(d <= r for d in away) >= round(level * 20))
        inside = {row: d for row, d in zip(rows, away, strict=True) if d <= radius}

        def farthest(among, inside=inside):
            return {row for row in among if inside[row] == max(inside[other] for other in among)}

        fewest, most = min(map(max, inside)), max(map(max, inside))
        assert ball.level == level and ball.radius == pytest.approx(radius, abs=1e-8)
        for bound, wanted in (
            (ball.horizontal, farthest(inside)),
            (ball.vertical_upper, farthest([row for row in inside if max(row) == fewest])),
            (ball.vertical_lower, farthest([row for row in inside if max(row) == most])),
        ):
            assert {tuple(row) for row in bound.tolist()} == wanted and len(bound) == len(wanted)


def test_wrong_levels():
    found = pt.estimate([[0, 0, 1]], rng=1)
    for level in (0.0, -0.1, 1.01, math.nan):
        with pytest.raises(ValueError, match="level must be above 0"):
            found.ball(level)


# ---- bad input


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros((2, 3, 4), int), 'two axes.*not 3; `fit.draws.flat\\("labels"\\)` joins'),
        ([0, 1, 1], "two axes.*not 1"),
        (np.zeros((0, 3), int), "empty: there are 0 partitions of 3"),
        (np.zeros((3, 0), int), "empty: there are 3 partitions of 0"),
        ([[0, 1], [0, -2]], "not be negative: row 1 has -2 for observation 1"),
        ([[0.0, 1.0]], "integers, not float64"),
        ([["a", "b"]], "integers"),
        ([[0, 1], [0]], "differ in length"),
    ],
)
def test_draws_that_are_none(labels, message):
    for function in (pt.similarity, pt.estimate, lambda x: pt.expected_loss([0, 0], x)):
        with pytest.raises(ValueError, match=message):
            function(labels)


@pytest.mark.parametrize(("name", "hint"), [("VI", "'vi'?"), ("bindr", "did you mean 'binder'?"), ("zzz", "'vi', 'binder', not 'zzz'.")])
def test_unknown_losses(name, hint):
    for call in (lambda: pt.estimate([[0, 1]], name), lambda: pt.expected_loss([0, 1], [[0, 1]], name)):
        with pytest.raises(ValueError) as error:
            call()
        assert hint in str(error.value)


def test_other_wrong_arguments():
    for name, value in itertools.product(("runs", "max_clusters"), (0, -1, 1.5, True, "2")):
        with pytest.raises(ValueError, match=f"{name} must be an integer of at least 1"):
            pt.estimate([[0, 1]], **{name: value})
    with pytest.raises(ValueError, match="differ in length: 3 observations against 2"):
        pt.vi([0, 0, 1], [0, 1])
    with pytest.raises(ValueError, match="differ in length: 3 observations against 2"):
        pt.expected_loss([[0, 0, 1]], [[0, 1]])
    with pytest.raises(ValueError, match="must have one axis"):
        pt.binder([[0, 0]], [[0, 0]])


# ---- kernels


def test_one_compilation_of_every_kernel(rng):
    for draws in (noisy(30, 20, 3, 0.3, rng), np.asfortranarray(rng.integers(0, 3, (5, 6)))):
        pt.similarity(draws)
        for loss in LOSSES:
            pt.estimate(draws, loss, max_clusters=None, rng=1)
            _ = pt.estimate(draws, loss, max_clusters=2, rng=1).credible_ball
    for name, value in vars(kernels).items():
        if hasattr(value, "signatures"):
            assert len(value.signatures) <= 1, name  # none where a caller came from the cache


def test_the_search_keeps_its_tables(rng):
    """After runs that moved, merged, destroyed and enlarged: tables and costs from scratch."""
    draws, _ = pt._draws(noisy(40, 25, 4, 0.5, rng))
    weight = np.arange(1.0, 26.0)
    search = kernels.Search(draws, weight, pt._gain("vi", 40), 30)
    for start in (np.full(40, -1), np.where(np.arange(40) < 30, draws[0], -1), np.arange(40) % 9):
        labels = search.run(start, rng)
        table = search.table
        K = table.number[0]
        assert sorted(set(labels.tolist())) == list(range(K))
        offset = np.cumsum(draws.max(axis=1) + 1) - draws.max(axis=1) - 1
        count = np.zeros_like(table.count)
        for t, row in enumerate(draws):
            np.add.at(count, (offset[t] + row, labels), 1)
        np.testing.assert_array_equal(table.count, count)
        np.testing.assert_array_equal(table.value, table.gain[count])
        np.testing.assert_array_equal(table.size, np.bincount(labels, minlength=len(table.size)))
        # Costs differ between clusters as expected losses do.
        kernels.score_clusters(table, 3, K)
        losses = []
        for k in range(K):
            moved = labels.copy()
            moved[3] = k
            losses.append(40 * weight @ np.array([pt.vi(moved, row) for row in draws]))
        np.testing.assert_allclose(table.score[:K] - table.score[0], np.array(losses) - losses[0], atol=1e-7)


def test_means_are_the_same_for_any_number_at_once(monkeypatch):
    """Rows go to threads by stretches, shorter ones where rows are long."""
    rng = np.random.default_rng(3)
    draws, rows = rng.integers(0, 4, (30, 12)), rng.integers(0, 5, (23, 12))
    expected = [pt.expected_loss(row, draws, "vi") for row in rows]
    for at_once in (1, 30, 2**22):
        monkeypatch.setattr(pt, "AT_ONCE", at_once)
        assert pt.expected_loss(rows, draws, "vi").tolist() == expected
