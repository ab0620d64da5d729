"""Held-out log density on the cosmic microwave background, the setting of Foti & Williamson (2012, section 4.2).

    NRMMIX_DATA_DIR=... python -m benchmarks.microwave_background [--data-only] [--json FILE.json]

The first 600 multipole moments at 18 time stamps, power standardised, 60 rows held out; the paper fixes the variance at 0.02 and reports
-0.15 to -0.41.  With --data-only nothing is fitted: the file has what pictures show of the data, their mean and spread at each stamp.  The
table (WMAP, first year) does not come with the package: the variable names the folder that has wmap_tt_1yr.csv.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import nrmmix as nm
from benchmarks import record

SPLITS = 5
FAMILIES = {
    "variance 0.02": lambda: nm.Gaussian(known_covariance=0.02, m=0, r=0.02), "variance unknown": lambda: nm.Gaussian(),
    "lines": lambda: None,
}
KERNELS = {"SE, width 0.05": nm.SquaredExponential(0.05), "box, width 0.2": nm.Box(0.2), "per-atom widths": nm.SquaredExponential()}


def table() -> pd.DataFrame:
    folder = os.environ.get("NRMMIX_DATA_DIR")
    if not folder:
        raise SystemExit("NRMMIX_DATA_DIR must name the folder of wmap_tt_1yr.csv.")
    first = pd.read_csv(Path(folder) / "wmap_tt_1yr.csv").iloc[:600]
    moment = (first["ell"] - first["ell"].min()) / np.ptp(first["ell"])
    stamps = 0.05 * np.clip(np.round(moment / 0.05), 1, 18)
    return pd.DataFrame({"moment": stamps, "power": (first["power_uK2"] - first["power_uK2"].mean()) / first["power_uK2"].std(ddof=0)})


def observed() -> list[dict[str, Any]]:
    """Of each stamp the number of moments, and the mean and the 2.5% and 97.5% quantiles of the power."""
    return [
        {"x": round(float(stamp), 2), "rows": len(power), "mean": power.mean(), "low": power.quantile(0.025), "high": power.quantile(0.975)}
        for stamp, power in table().groupby("moment")["power"]
    ]


def run() -> list[dict[str, Any]]:
    data, rows = table(), []
    for family, built in FAMILIES.items():
        for kernel_name, kernel in KERNELS.items():
            scores = []
            for split in range(SPLITS):
                test = data.sample(60, random_state=split)
                train = data.drop(test.index)
                fit = nm.fit("power ~ moment", train, family=built(), kernel=kernel, draws=500, thin=4, tune=1000, chains=2, rng=split)
                scores.append(float(fit.log_density(test).mean()))
            print(f"{family:<18}{kernel_name:<18}{np.mean(scores):7.2f} (sd over splits {np.std(scores, ddof=1):.2f})", flush=True)
            rows += [{"family": family, "kernel": kernel_name, "split": split, "score": score} for split, score in enumerate(scores)]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-only", action="store_true", help="fit nothing")
    record.option(parser)
    options = parser.parse_args()
    results = {"observed": observed()} | ({} if options.data_only else {"scores": run()})
    if options.json:
        record.write(options.json, "microwave_background", {"splits": SPLITS, "data_only": options.data_only}, results)


if __name__ == "__main__":
    main()
