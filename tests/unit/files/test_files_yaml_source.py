"""Reading YAML: what is refused, and the line of everything."""

import os
from pathlib import Path

import pytest

from muster.files.errors import InputError
from muster.files.source.yaml_source import MAX_FILE_BYTES, read_source


def error_of(path: Path) -> str:
    """The line of a refused file, without its directory."""
    with pytest.raises(InputError) as caught:
        read_source(path)
    return str(caught.value).removeprefix(f"{path.parent}/")


def test_values_stay_as_written_and_know_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("\ufeff# hello\na: 007\nb:\n  - no\n  - {c: 12:30, d: ''}\n", encoding="utf-8")
    source = read_source(path)
    assert source.data == {"a": "007", "b": ["no", {"c": "12:30", "d": ""}]}
    assert source.lines == {
        (): 2,
        ("a",): 2,
        ("b",): 3,
        ("b", 0): 4,
        ("b", 1): 5,
        ("b", 1, "c"): 5,
        ("b", 1, "d"): 5,
    }
    assert source.line(("b", 1, "nowhere")) == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.yaml: is empty"),
        ("# only a comment\n", "a.yaml: is empty"),
        ("~\n", "a.yaml: is empty"),
        ("a: {b: c\n", "a.yaml:2: is not valid YAML: did not find expected ',' or '}'"),
        ("a: [\n", "a.yaml:2: is not valid YAML: did not find expected node content"),
        ("a:\n\tb: c\n", "a.yaml:2: is not valid YAML: found character that cannot start any token"),
        ("a: b\nc: \x07\n", "a.yaml:2: contains the character U+0007"),
        ("a: 1\nb: 2\na: 3\n", "a.yaml:3: a: is given twice (first on line 1)"),
        ("x:\n  a: 1\n  a: 1\n", "a.yaml:3: x.a: is given twice (first on line 2)"),
        ("a: &x 1\nb: *x\n", "a.yaml:1: a: anchors such as &x are not allowed"),
        ("a: *x\n", "a.yaml:1: a: aliases such as *x are not allowed"),
        ("a: !!python/name:os.system x\n", "a.yaml:1: a: tags such as !!str are not allowed"),
        ("a: !mine {}\n", "a.yaml:1: a: tags such as !!str are not allowed"),
        ("a: 1\n---\nb: 2\n", "a.yaml:2: contains more than one document"),
        ("a:\n", "a.yaml:1: a: has no value; add one or remove the line"),
        ("a: [1, null]\n", "a.yaml:1: a[1]: has no value; add one or remove the line"),
        ("? [a]\n: b\n", "a.yaml:1: a key must be a scalar"),
        ("'': b\n", "a.yaml:1: a key is empty"),
        ("[" * 5000, "a.yaml:1: is nested deeper than 10 levels"),
        ("[" * 500_000, "a.yaml:1: is nested deeper than 10 levels"),
        ("- " * 5000, "a.yaml:1: is nested deeper than 10 levels"),
        (
            "".join(" " * i + "a:\n" for i in range(1000)),
            "a.yaml:11: is nested deeper than 10 levels",
        ),
        (
            "n: {rack: r[1-2]}\n",
            "a.yaml:1: is not valid YAML: did not find expected ',' or '}' "
            '(between { } a range needs quotes: "r[1-2]")',
        ),
    ],
)
def test_refused_texts(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text, encoding="utf-8")
    assert error_of(path) == message


def test_what_is_not_a_readable_file(tmp_path: Path) -> None:
    assert error_of(tmp_path / "none.yaml") == "none.yaml: does not exist"
    (tmp_path / "folder").mkdir()
    assert error_of(tmp_path / "folder") == "folder: is a directory, not a file"
    os.mkfifo(tmp_path / "pipe")
    assert error_of(tmp_path / "pipe") == "pipe: is not a regular file"
    assert error_of(tmp_path / "a\0b") == "a\\x00b: is not a path"
    assert error_of(tmp_path / ("x" * 300)).endswith(": cannot be read: File name too long")


def test_what_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: b\nc: \xff\n")
    assert error_of(path) == "a.yaml:2: is not UTF-8 text"
    path.write_text("a: b\n", encoding="utf-16")
    assert error_of(path) == "a.yaml:1: is not UTF-8 text"


def test_a_ten_megabyte_file_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: b\n" * 2_000_000)
    monkeypatch.delattr(Path, "read_bytes")
    assert error_of(path) == "a.yaml: is too large: 10.0 MB (limit: 1 MB)"


def test_the_largest_file_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: " + b"x" * (MAX_FILE_BYTES - 3))
    assert read_source(path).lines == {(): 1, ("a",): 1}
    path.write_bytes(b"a: " + b"x" * (MAX_FILE_BYTES - 2))
    assert error_of(path) == "a.yaml: is too large: 1.0 MB (limit: 1 MB)"


def test_an_error_is_one_printable_line_whatever_the_file_holds() -> None:
    error = InputError.at("a\nb.yaml", "x\ty\x1b[31m" * 100, line=3, field="é\r" * 100)
    assert str(error).isprintable()
    assert str(error).startswith("a\\nb.yaml:3: é\\ré\\r")
    assert len(str(error)) < 2000
