"""Vignettes: cells, their output and pictures, and cells that fail."""

import re
from pathlib import Path

import pytest

from nrmmix.report.vignette import VignetteError, cells, main, run

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
