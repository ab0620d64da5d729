"""Summary tables of the result of a search."""

from __future__ import annotations

from nrmmix.report.clusters import clusters
from nrmmix.report.summary import WIDTH, cluster_tables, model_table, prior_table, three_pairs, word_tables
from nrmmix.report.tables import Report, Table
from nrmmix.results.search import SearchResult


def summary(fit: SearchResult) -> Report:
    """Tables of the model, the search and the clusters; see `SearchResult.summary`."""
    found = clusters(fit)
    tables = [
        model_table(fit, WIDTH), prior_table(fit, WIDTH), _search_table(fit, WIDTH), *cluster_tables(found, WIDTH, stability=False),
        *word_tables(found, WIDTH),
    ]
    note = (
        f"One partition, found by a search ({fit.method}), not samples from the posterior: nothing here says how sure it is. Parameters: "
        "posterior mean ± standard deviation given this partition."
    )
    if found.n_left_out:
        note += f" {found.n_left_out} parameters more are not shown."
    return Report(tables, [note], WIDTH)


def _search_table(fit: SearchResult, width: int) -> Table:
    used, rows = fit.model.n_obs, len(fit.model.frame.used)
    hyper = [(f"{name}:", f"{value:.4g}") for name, value in fit.hyper.items()]
    pairs = [
        ("Observations:", used), ("Method:", fit.method), ("Log joint:", f"{fit.log_joint:.2f}"),
        ("Dropped rows:", rows - used), ("Passes:", len(fit.bounds)), ("Lower bound:", f"{fit.lower_bound:.2f}"),
        ("Clusters:", fit.n_clusters), ("Seconds:", f"{fit.seconds:.2f}"), ("Interrupted:", "yes" if fit.interrupted else "no"),
        *hyper,
    ]
    pairs += [("", "")] * (-len(pairs) % 3)
    cells = [[cell for pair in pairs[row : row + 3] for cell in pair] for row in range(0, len(pairs), 3)]
    return three_pairs(cells, (13, 8, 12), width)
