"""Patches of natural images from disk: memoized inference with births and merges, and what its mixture is worth in taking noise away.

    NRMMIX_DATA_DIR=FOLDER python -m benchmarks.patches [--patches 1000000] [--passes 12] [--rows 100000] [--json FILE.json]

Patches of 8 x 8 pixels go to a file of NumPy: some of all that there are in the images for training, overlapping ones too, at random, but
no flat ones; without their means, as their 63 coordinates in the discrete cosine basis.  `memoized_vb` reads them from there, from one
component on; beside it full inference from 200 components on some of the same patches, in memory (Hughes and Sudderth 2013, section
4.4).  Both mixtures then take noise of a standard deviation of 25 / 255 from parts of images that were held out, by half-quadratic
splitting (Zoran and Weiss 2011), and, where the folder has them, from 30 test images of Berkeley, whole.  On the same patches as full
inference, memoized and stochastic inference from 100 components and births from one: the bound by passes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.fft import idctn

import nrmmix as nm
from benchmarks import record

SIDE = 8
SIGMA = 25 / 255
BERKELEY = "bsd68_gray30.npz"
SEVERAL = 100  # components at the start of the paper's curves
HELD_OUT = {"camera": (60, 180), "chelsea": (60, 100), "coffee": (120, 220)}  # upper left corners
PART = 160  # pixels a side of what noise is taken from
BETAS = (1.0, 4.0, 8.0, 16.0, 32.0)
BLOCK = 4096  # patches at a time
GREY = np.array([0.299, 0.587, 0.114])


def basis() -> np.ndarray:
    """(63, 64): rows are the patterns of the discrete cosine transform, but for the constant one."""
    found = np.empty((SIDE * SIDE, SIDE, SIDE))
    for j in range(SIDE * SIDE):
        one = np.zeros(SIDE * SIDE)
        one[j] = 1.0
        found[j] = idctn(one.reshape(SIDE, SIDE), norm="ortho")
    return found.reshape(SIDE * SIDE, -1)[1:]


def images() -> dict[str, np.ndarray]:
    """Grey, from 0 to 1, by name."""
    folder = os.environ.get("NRMMIX_DATA_DIR")
    if not folder:
        raise SystemExit("NRMMIX_DATA_DIR must name the folder of natural_images.npz, which does not come with the package.")
    with np.load(Path(folder) / "natural_images.npz") as kept:
        return {name: (kept[name] @ GREY if kept[name].ndim == 3 else kept[name]) / 255.0 for name in kept}


def patches_of(image: np.ndarray) -> np.ndarray:
    """(patches, 64): all that overlap, row by row."""
    return sliding_window_view(image, (SIDE, SIDE)).reshape(-1, SIDE * SIDE)


def write(path: Path, training: dict[str, np.ndarray], n: int, rng: np.random.Generator) -> None:
    """So many patches at random of all that are not flat, in a random order."""
    found = []
    for image in training.values():
        part = patches_of(image)
        found.append(part[np.ptp(part, axis=1) > 1.5 / 255])
    each = np.array([len(part) for part in found])
    if n > each.sum():
        raise SystemExit(f"there are {each.sum():,} patches; --patches must be at most that.")
    to = np.lib.format.open_memmap(path, "w+", np.float64, (n, SIDE * SIDE - 1))
    chosen = rng.permutation(each.sum())[:n]
    for first in range(0, n, 100_000):
        some = chosen[first : first + 100_000]
        image = np.searchsorted(np.cumsum(each), some, side="right")
        rows = np.array([found[i][j] for i, j in zip(image, some - (np.cumsum(each) - each)[image], strict=True)])
        to[first : first + len(some)] = rows @ basis().T
    to.flush()


def centred(rows: np.ndarray) -> nm.Gaussian:
    """Components of known mean 0 and a scale that is fixed at 0.2 nu times the mean squares of rows (n, d), which may be on disk."""
    n, d = rows.shape
    squares = sum((rows[first : first + 100_000] ** 2).sum(axis=0) for first in range(0, n, 100_000)) / n
    return nm.Gaussian(known_mean=0.0, scale=0.2 * (d + 1) * np.diag(squares))


def mixture_of(fit: Any) -> tuple[np.ndarray, np.ndarray]:
    """(K,) weights and (K, 63, 63) expected covariances of a variational fit of centred Gaussians."""
    factors, scale, nu = fit.posterior.factors, np.asarray(fit.model.family.scale), fit.model.family.nu
    d, root = len(scale), np.linalg.cholesky(scale)  # statistics are those of the rows with the scale taken out
    covariances = np.empty((len(factors.N), d, d))
    for k in range(len(factors.N)):
        S = np.zeros((d, d))
        S[np.triu_indices(d)] = factors.s[k]
        covariances[k] = root @ (np.eye(d) + S + np.triu(S, 1).T) @ root.T / (nu + factors.N[k] - d - 1)
    return factors.N / factors.N.sum(), covariances


def denoised(noisy: np.ndarray, mixture: tuple[np.ndarray, np.ndarray], sigma: float = SIGMA) -> np.ndarray:
    """The image of highest posterior density, roughly: patches by their most probable component, then the image, in turns."""
    weights, covariances = mixture
    variances, axes = np.linalg.eigh(covariances)  # (K, 63), (K, 63, 63)
    to, image = basis(), noisy.copy()
    counts = added(np.ones((len(patches_of(noisy)), SIDE * SIDE)), noisy.shape)
    for beta in BETAS:
        precision = beta / sigma**2
        rows = patches_of(image)
        means = rows.mean(axis=1, keepdims=True)
        y = (rows - means) @ to.T
        total = variances + 1 / precision
        for first in range(0, len(y), BLOCK):
            part = y[first : first + BLOCK]
            best, score = np.zeros(len(part), np.int64), np.full(len(part), -np.inf)
            for k, weight in enumerate(weights):
                one = np.log(weight) - 0.5 * np.log(total[k]).sum() - 0.5 * (part @ axes[k]) ** 2 @ (1 / total[k])
                best[one > score], score = k, np.maximum(one, score)
            for k in np.unique(best):
                part[best == k] = part[best == k] @ axes[k] * (variances[k] / total[k]) @ axes[k].T
        image = (noisy / sigma**2 + precision * added(y @ to + means, noisy.shape) / counts) / (1 / sigma**2 + precision)
    return np.clip(image, 0.0, 1.0)


def added(rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The sum of overlapping patches, each in its place."""
    out, height, width = np.zeros(shape), shape[0] - SIDE + 1, shape[1] - SIDE + 1
    parts = rows.reshape(height, width, SIDE, SIDE)
    for i in range(SIDE):
        for j in range(SIDE):
            out[i : i + height, j : j + width] += parts[:, :, i, j]
    return out


def psnr(image: np.ndarray, truth: np.ndarray) -> float:
    """Peak signal-to-noise ratio, in decibels."""
    return float(-10.0 * np.log10(np.mean((image - truth) ** 2)))


def fitted(name: str, data: Any, method: Any) -> tuple[Any, dict[str, Any]]:
    """A fit of patches, in memory or in a file, and what is said of it."""
    began, wall = time.process_time(), time.perf_counter()
    fit = nm.fit(data=data, family=centred(np.load(data, mmap_mode="r") if isinstance(data, str) else data), method=method, rng=1)
    told = {
        "method": name, "patches": fit.model.n_obs, "components": fit.n_components, "clusters": fit.n_clusters,
        "passes": len(fit.passes), "bound a patch": fit.elbo / fit.model.n_obs, "CPU s": time.process_time() - began,
        "wall s": time.perf_counter() - wall,
    }
    print(told, flush=True)
    return fit, told


def berkeley() -> dict[str, np.ndarray]:
    """Grey test images by name; none where their file is not at hand."""
    path = Path(os.environ["NRMMIX_DATA_DIR"]) / BERKELEY
    if not path.is_file():
        print(f"no {BERKELEY}: no noise is taken from images of Berkeley.")
        return {}
    with np.load(path) as kept:
        return {name: kept[name] / 255.0 for name in kept}


def run(n: int, passes: int, rows: int, json: str | None = None, components: int = 200, pictures: str | None = None) -> None:
    every, rng = images(), np.random.default_rng(1)
    training = {name: image for name, image in every.items() if name not in HELD_OUT}
    settings = {"patches": n, "passes": passes, "rows of full inference": rows, "components": components}
    fits, results = {}, dict[str, list[dict[str, Any]]](fits=[], curves=[])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "patches.npy"
        write(path, training, n, rng)
        print(f"{n:,} patches of {len(training)} images in {path.stat().st_size / 1e6:.0f} MB", flush=True)
        part = np.load(path, mmap_mode="r")[:rows].copy()
        for name, data, method in (
            ("memoized, births and merges", str(path), nm.MemoizedVB(passes=passes, batches=max(n // 20_000, 1))),
            (f"full, from {components}", part, nm.VB(components=components, passes=3 * passes, merges=False)),
        ):
            fit, told = fitted(name, data, method)
            fits[name] = mixture_of(fit)
            results["fits"].append(told)
    for name, method in (
        ("memoized, births and merges", nm.MemoizedVB(passes=3 * passes, batches=20)),
        (f"memoized, from {SEVERAL}", nm.MemoizedVB(components=SEVERAL, births=False, passes=3 * passes, batches=20)),
        (f"stochastic, from {SEVERAL}", nm.StochasticVB(components=SEVERAL, kappa=0.5, delay=10, passes=3 * passes)),
    ):
        fit, told = fitted(name, part, method)
        by_pass = fit.passes["elbo"]
        results["curves"].append({**told, "pass": by_pass.index, "bound": by_pass / len(part)})
    noise, results["denoising"], made = np.random.default_rng(2), [], {}
    for name, (top, left) in HELD_OUT.items():
        truth = every[name][top : top + PART, left : left + PART]
        row, made[name] = freed(name, truth, fits, noise)
        results["denoising"].append(row)
    for name, truth in berkeley().items():
        row, _ = freed(name, truth, fits, noise)
        results.setdefault("berkeley", []).append(row)
    if json:
        record.write(json, "patches", settings, results)
    if pictures:
        picture(made, ["image", "with noise", *fits], pictures)


def freed(
    name: str, truth: np.ndarray, fits: dict[str, tuple[np.ndarray, np.ndarray]], noise: np.random.Generator
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Ratios of signal to noise with noise and without, by mixture; the image, with noise, and without."""
    made = [truth, truth + SIGMA * noise.normal(size=truth.shape)]
    made += [denoised(made[1], mixture) for mixture in fits.values()]
    row = {"image": name, "noisy": psnr(made[1], truth)} | {
        label: psnr(one, truth) for label, one in zip(fits, made[2:], strict=True)
    }
    print(row, flush=True)
    return row, made


def picture(made: dict[str, list[np.ndarray]], titles: list[str], path: str) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(made), len(titles), figsize=(2.6 * len(titles), 2.7 * len(made)), squeeze=False, layout="constrained")
    for row, (name, several) in zip(axes, made.items(), strict=True):
        for ax, image, title in zip(row, several, titles, strict=True):
            ax.imshow(np.clip(image, 0, 1), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            ax.set_xticks([])
            ax.set_yticks([])
            below = f", {psnr(image, several[0]):.2f} dB" if image is not several[0] else ""
            ax.set_title(f"{name}: {title}{below}" if title == "image" else f"{title}{below}", fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patches", type=int, default=1_000_000)
    parser.add_argument("--passes", type=int, default=12)
    parser.add_argument("--rows", type=int, default=100_000, help="patches of full inference")
    parser.add_argument("--components", type=int, default=200, help="components of full inference at the start")
    parser.add_argument("--pictures", metavar="FILE.png", help="draw what noise is taken from")
    record.option(parser)
    given = parser.parse_args()
    run(given.patches, given.passes, given.rows, given.json, given.components, given.pictures)


if __name__ == "__main__":
    main()
