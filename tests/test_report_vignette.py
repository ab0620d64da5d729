"""Vignettes: cells, their output and pictures, and cells that fail."""

import re
from pathlib import Path

import pytest

from nrmmix.report.recorded import FAST
from nrmmix.report.vignette import VignetteError, cells, digest, made_by, main, play, run, shortened

SCRIPT = '''"""For readers of the script."""

# %% [markdown]
# # Title
#
# Text with $x$.

# %%
x = 2


def double(y):
    return 2 * y

# %%
print("said")
double(x)

# %%
from matplotlib import pyplot

_, axes = pyplot.subplots(1, 2)
axes

# %% raises
double(1, 2)

# %% [bash]
# echo one \\
#   two
# echo three >&2

# %% [bash] raises
# exit 3

# %%
import os, warnings

os.chdir("/")
warnings.warn("look", UserWarning, stacklevel=1)
double(x);
'''


def write(tmp_path, text, name="page.py"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_page_has_cells_output_and_pictures(tmp_path):
    page = run(write(tmp_path, SCRIPT), tmp_path)
    text = page.read_text(encoding="utf-8")
    assert page == tmp_path / "page.md" and text.startswith("# Title\n\nText with $x$.\n\n```python\nx = 2\n")
    assert '```python\nprint("said")\ndouble(x)\n```\n\n```text\nsaid\n4\n```\n' in text
    assert "Axes" not in text.replace("axes", "") and "![](page/01.png)" in text
    assert (tmp_path / "page" / "01.png").read_bytes().startswith(b"\x89PNG")
    assert re.search(r"```text\nTypeError: double\(\) takes 1 positional argument but 2 were given\n```", text)
    assert "```console\n$ echo one \\\n  two\none two\n$ echo three >&2\nthree\n```" in text
    assert "$ exit 3\n[exit status 3]" in text
    assert "UserWarning: look" in text


def test_a_page_says_by_which_code_it_was_made(tmp_path):
    path = write(tmp_path, SCRIPT)
    assert run(path, tmp_path).read_text(encoding="utf-8").splitlines()[-1] == made_by(SCRIPT)
    assert re.fullmatch(r"<!-- made: [0-9a-f]{16} nrmmix [\d.]+ -->", made_by(SCRIPT))


@pytest.mark.parametrize(("before", "after", "is_other"), [
    ("Text with", "Words with", False), ("For readers", "For the reader", False),
    ("# %% [markdown]", "# %% [markdown]\n# More\n# %% [markdown]", False),
    ("x = 2", "x = 3", True), ("# echo three", "# echo four", True), ("# %% raises", "# %%", True),
    ("double(1, 2)", "double(1, 2)  # %%", True), ('print("said")', 'double(1)\n# %%\nprint("said")', True),
])
def test_the_digest_is_of_code_and_not_of_text(before, after, is_other):
    assert before in SCRIPT
    assert (digest(SCRIPT.replace(before, after)) != digest(SCRIPT)) is is_other


def test_the_digest_is_of_what_stands_in_braces_too():
    prose = "# %% [prose]\n# The mean is {mean:.2f} of {{all}}.\n"
    assert digest(prose) == digest(prose.replace("mean is", "average is").replace("all", "some"))
    assert digest(prose) != digest(prose.replace("{mean:.2f}", "{mean:.3f}"))


def test_the_digest_is_of_tables_that_are_read(tmp_path, monkeypatch):
    from nrmmix.datasets import loaders

    scripts = "# %%\nnm.datasets.load_mcycle()\n", "# %% [bash]\n# nrmmix fit y --data mcycle\n", "# %%\nnm.datasets.load_iris()\n"
    before = [digest(one) for one in scripts]
    (tmp_path / "mcycle.csv").write_text("other\n", encoding="utf-8")
    found = loaders.file_of
    monkeypatch.setattr(loaders, "file_of", lambda name: tmp_path / name if name == "mcycle.csv" else found(name))
    assert [digest(one) != old for one, old in zip(scripts, before, strict=True)] == [True, True, False]


LONG = """# short: draws = 25_000 -> draws = 40

# %% [markdown]
# draws = 25_000 are many.

# %%
draws = 25_000
draws
"""


def test_a_short_form_replaces_code_and_the_page_shows_what_ran(tmp_path, monkeypatch):
    path = write(tmp_path, LONG)
    monkeypatch.delenv(FAST, raising=False)
    long = play(path)
    assert "```python\ndraws = 25_000\ndraws\n```\n\n```text\n25000\n```" in long.markdown() and "short" not in long.markdown()
    monkeypatch.setenv(FAST, "1")
    short = play(path)
    assert "draws = 25_000 are many." in short.markdown() and "```python\ndraws = 40\ndraws\n```\n\n```text\n40\n```" in short.markdown()
    assert short.made == long.made  # by the same script


@pytest.mark.parametrize(("before", "after", "message"), [
    ("draws = 25_000\ndraws", "draws = 26_000\ndraws", "line 1: 'draws = 25_000' must be in the cells of Python once; it is there 0 times"),
    ("draws\n", "draws = 25_000\n", "it is there 2 times"), ("draws\n", "draws = 25_000; draws = 25_000\n", "it is there 3 times"),
    (" -> ", " to ", "cannot be read; write '# short: CODE -> INSTEAD'"),
])
def test_a_short_form_that_does_not_fit_is_refused_in_the_long_form_too(tmp_path, monkeypatch, before, after, message):
    monkeypatch.delenv(FAST, raising=False)
    text = LONG.replace(before, after)
    assert text != LONG
    with pytest.raises(ValueError, match=re.escape(message)):
        shortened(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        play(write(tmp_path, text))


def test_pages_repeat_themselves(tmp_path):
    path = write(tmp_path, SCRIPT)
    first = (run(path, tmp_path).read_bytes(), (tmp_path / "page" / "01.png").read_bytes())
    assert (run(path, tmp_path).read_bytes(), (tmp_path / "page" / "01.png").read_bytes()) == first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# %%\nx = 1\ny = z\n", r"(?s)page\.py: the cell at line 2 failed:.*page\.py\", line 3.*NameError"),
        ("# %% raises\nx = 1\n", "the cell at line 2 should raise an exception, and did not"),
        ("# %% [bash]\n# false\n", "'?false'? ended with status 1"),
        ("# %% [bash] raises\n# true\n", "'?true'? should fail, and did not"),
    ],
)
def test_cells_that_fail_leave_no_page(tmp_path, text, message):
    with pytest.raises(VignetteError, match=message):
        run(write(tmp_path, text), tmp_path)
    assert not (tmp_path / "page.md").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# %% [latex]\n# x\n", r"line 1: '# %% \[latex\]' is no cell"),
        ("# %% raise\n", "line 1: .* is no cell"),
        ("# %% [markdown]\n# a\nb\n", "line 3: 'b' is in a cell of text"),
    ],
)
def test_scripts_that_cannot_be_read(text, message):
    with pytest.raises(ValueError, match=message):
        cells(text)


def test_relative_paths_are_those_of_the_start(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, SCRIPT)
    assert run("page.py", ".") == tmp_path / "page.md" and Path.cwd() == tmp_path


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        run(write(tmp_path, SCRIPT), tmp_path / "docs")


def test_the_command_line(tmp_path, capsys):
    good, bad = write(tmp_path, SCRIPT), write(tmp_path, "# %%\n1 / 0\n", "bad.py")
    assert main([str(good), "--to", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'page.md'}\n"
    assert main([str(bad), str(good), "--to", str(tmp_path)]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err and not (tmp_path / "bad.md").exists()
