"""Jobs that ship their folder run what was there at submission."""

from pathlib import Path

from tests.live.daemons import Daemon


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_shipped_job_runs_the_code_as_it_was_submitted(daemon: Daemon, tmp_path: Path) -> None:
    code = write(
        tmp_path / "code",
        {
            "src/train.py": "import lib\nopen('out', 'w').write('x')\nprint(lib.WORD)\n",
            "src/lib.py": "WORD = 'before'\n",
            ".gitignore": "secret.txt\n",
            "secret.txt": "do not ship",
        },
    )
    daemon.muster("run", "-y", "-d", "4", "--name", "first", "--", "sleep", "600")
    ship = ("run", "-y", "--name", "shipped", "--ship", str(code), "--folder", str(code / "src"))
    done = daemon.muster(*ship, "--", "sh", "-c", "python3 train.py; ls -a .. | tr '\\n' ' '")
    assert done.returncode == 0, done.stderr
    write(code, {"src/lib.py": "WORD = 'after'\n"})  # while it waits
    shown = daemon.muster("show", "shipped").stdout
    assert "src of a shipped folder, sha256:" in shown
    daemon.muster("stop", "first")
    assert daemon.muster("wait", "shipped").returncode == 0
    printed = daemon.muster("logs", "shipped").stdout
    assert "before" in printed and "after" not in printed
    assert ".gitignore" in printed and "secret.txt" not in printed
    assert not (code / "src" / "out").exists()  # it has a folder of its own


def test_a_script_is_shipped_from_python_and_uploaded_once(daemon: Daemon, tmp_path: Path) -> None:
    code = write(tmp_path / "code", {"go.py": "print('hello')\n"})
    before = set((daemon.data / "packs").glob("*.tgz"))
    record = {"name": "a", "command": ["python3", "go.py"], "ship": str(code)}
    first = daemon.client.submit(record)
    first.wait()
    second = daemon.client.submit({**record, "name": "b"})
    second.wait()
    assert [list(job.logs()) for job in (first, second)] == [["1/worker-0 | hello"]] * 2
    assert len(set((daemon.data / "packs").glob("*.tgz")) - before) == 1


def test_a_pack_that_was_never_uploaded_is_refused(daemon: Daemon) -> None:
    digest = "sha256:" + "0" * 64
    done = daemon.muster("run", "-y", "--set", f"ship={digest}", "--", "true")
    assert done.returncode != 0
    assert "has not uploaded" in done.stderr
