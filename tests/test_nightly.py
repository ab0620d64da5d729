"""`make nightly`: what has passed with the same sources is not run again, a failure stops nothing, and no nightly test is left out."""

import json
import re
import subprocess
from collections import Counter

import pytest

from tests import nightly
from tests.nightly import PARTS, Part, is_passed, page, read, run

HERE = {"machine": "one of ours", "commit": "abc"}
NOTED = "from pathlib import Path; runs = Path('runs.txt'); runs.open('a').write('{}\\n'); "


def part_of(name, code=""):
    return Part(name, f"part {name}", ("-c", NOTED.format(name) + code), (f"tests/{name}.py",))


@pytest.fixture
def root(tmp_path):
    for name in ("nrmmix/one.py", "data/table.csv", "tests/a.py", "tests/b.py", "docs/page.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1\n", encoding="utf-8")
    return tmp_path


def runs(root):
    return (root / "runs.txt").read_text(encoding="utf-8").split()


def test_a_part_runs_again_only_where_its_sources_have_changed(root, capfd):
    parts = [part_of("a"), part_of("b")]
    assert run(parts, parts, HERE, root) == 0 and runs(root) == ["a", "b"]
    assert run(parts, parts, HERE, root) == 0 and runs(root) == ["a", "b"]
    (root / "tests" / "b.py").write_text("2\n", encoding="utf-8")
    assert run(parts, parts, HERE, root) == 0 and runs(root) == ["a", "b", "b"]
    (root / "nrmmix" / "one.py").write_text("2\n", encoding="utf-8")  # both depend on the package
    assert run(parts, parts, HERE, root) == 0 and runs(root) == ["a", "b", "b", "a", "b"]
    (root / "docs" / "page.md").write_text("2\n", encoding="utf-8")  # and none on this
    assert run(parts, parts, HERE, root) == 0 and len(runs(root)) == 5
    other = [part_of("a", "import sys")]  # another command
    assert run(other, parts, HERE, root) == 0 and len(runs(root)) == 6
    assert "a: passed on" in capfd.readouterr().out


def test_a_failure_stops_nothing_and_is_run_again(root, capfd):
    fails = "raise SystemExit(0 if Path('well').exists() else 3)"
    parts = [part_of("a", fails), part_of("b")]
    assert run(parts, parts, HERE, root) == 1 and runs(root) == ["a", "b"]
    assert read(root)["a"]["failed"]["why"] == "exit status 3" and "passed" not in read(root)["a"]
    assert "| never | – | – | – | **failed** on" in (root / nightly.PAGE).read_text(encoding="utf-8")
    assert run(parts, parts, HERE, root) == 1 and runs(root) == ["a", "b", "a"]
    (root / "well").touch()
    assert run(parts, parts, HERE, root) == 0 and runs(root) == ["a", "b", "a", "a"]
    assert set(read(root)["a"]) == {"passed"}
    (root / "well").unlink()
    (root / "tests" / "a.py").write_text("2\n", encoding="utf-8")
    assert run(parts, parts, HERE, root) == 1
    assert set(read(root)["a"]) == {"passed", "failed"} and not is_passed(parts[0], read(root), root)  # the page has both
    assert "failed: a" in capfd.readouterr().out


def test_a_part_that_takes_too_long_fails(root):
    parts = [part_of("a", "import time; time.sleep(60)"), part_of("b")]
    assert run(parts, parts, HERE, root, limit=3.0) == 1
    found = read(root)["a"]["failed"]
    assert found["why"].startswith("longer than") and found["seconds"] < 30 and "passed" in read(root)["b"]


def test_sources_that_change_while_a_part_runs_are_not_what_has_passed(root):
    parts = [part_of("a", "Path('tests/a.py').write_text('2')")]
    assert run(parts, parts, HERE, root) == 1 and read(root)["a"]["failed"]["why"] == "sources changed while it ran"


def test_a_night_that_is_ended_goes_on(root):
    """What came of earlier parts is kept; the part that was ended is not."""
    parts = [part_of("a"), part_of("b")]
    ended = nightly.ended

    def interrupted(part, *rest):
        if part.name == "b":
            raise KeyboardInterrupt
        return ended(part, *rest)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(nightly, "ended", interrupted)
        run(parts, parts, HERE, root)
    assert set(read(root)) == {"a"}
    assert run(parts, parts, HERE, root) == 0 and runs(root) == ["a", "b"]


def test_the_commit_says_where_sources_differ_from_it(root):
    def git(*words):
        subprocess.run(["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)

    assert nightly.commit(part_of("a"), root) == "none"
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "all")
    assert re.fullmatch(r"[0-9a-f]{12}", nightly.commit(part_of("a"), root))
    (root / "tests" / "a.py").write_text("2\n", encoding="utf-8")
    assert nightly.commit(part_of("a"), root).endswith("+") and not nightly.commit(part_of("b"), root).endswith("+")


def test_sources_that_are_not_there_are_refused(root):
    with pytest.raises(ValueError, match=r"part 'c': 'tests/c\.py' names no file"):
        nightly.digest(part_of("c"), root)


# ---- the real ones


def test_every_part_has_its_sources():
    assert len({part.name for part in PARTS}) == len(PARTS)
    assert len({nightly.digest(part) for part in PARTS}) == len(PARTS)


def test_every_test_that_is_longer_by_night_is_in_one_part():
    """Files that have some are each in one part, and of the joint distribution tests every function."""
    targets = Counter(word for part in PARTS for word in part.command if word.startswith("tests/"))
    assert set(targets.values()) == {1}
    marked = {
        path.relative_to(nightly.ROOT).as_posix() for path in (nightly.ROOT / "tests").rglob("test_*.py")
        if re.search(r"mark\.nightly\b|by_day\(|by_turns\(|each_once\(|\bonly\(", path.read_text(encoding="utf-8"))
    }
    functions = re.findall(r"^def (test_\w+)", (nightly.ROOT / nightly.GEWEKE).read_text(encoding="utf-8"), re.MULTILINE)
    wanted = marked - {nightly.GEWEKE} | {f"{nightly.GEWEKE}::{name}" for name in functions}
    assert wanted <= set(targets), f"no part of tests/nightly.py runs {sorted(wanted - set(targets))}"


def test_the_page_is_that_of_the_results():
    kept = json.loads((nightly.ROOT / nightly.FILE).read_text(encoding="utf-8"))
    assert set(kept) <= {part.name for part in PARTS}
    assert page(PARTS, kept) == (nightly.ROOT / nightly.PAGE).read_text(encoding="utf-8"), "run `python -m tests.nightly --page`"
    assert not re.search(r"/(home|work|Users|tmp)/", json.dumps(kept))


def test_unknown_parts_are_refused(capsys):
    with pytest.raises(SystemExit):
        nightly.main(["fuz"])
    assert "there is no part fuz; parts are matrix" in capsys.readouterr().err
