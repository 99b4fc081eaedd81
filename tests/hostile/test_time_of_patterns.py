"""A text from a table, a user or a server takes time in proportion to its length, whatever it holds: masking, and every regular expression."""

from __future__ import annotations

import ast
import base64
import importlib
import random
import re
import time
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any
from zlib import crc32

import pytest
from support.sources import MODULES, name, names, text

from pyhudi_core.doctor.incident import masked_file
from pyhudi_core.model.masking import is_secret, masked_text

KINDS = {
    "one letter": "a", "a long word": "password", "a word that ends with an underscore": "a_b.c-", "assignments": "password=", "keys and values": "key=value&",
    "options": "fs.s3a.secret.key: x ", "urls": "https://user:pw@host/p?sig=x&token=y ", "starts of urls": "://", "urls that do not end": "://a:",
    "addresses": "://a:@", "at": "@", "quotes": '"', "both quotes": "'\"", "json": '"password": "x", ', "base64": base64.b64encode(random.Random(1).randbytes(3000)).decode(),
    "spaces": " ", "a word and spaces": "password        ", "lines": "\n", "nested": '{"password":{', "brackets": "[", "amazon": "AKIA", "keys of amazon": "AKIA" + "A" * 16 + ":",
    "parameters": "?sig=", "encoded parameters": "%3Ftoken%3D", "escaped parameters": "\\u0026key=", "dots": ".", "lists": "password=[", "lists in quotes": "password=['", "lists with escapes": 'password=[\\"',
    "a list of quotes": "password=['\",", "blocks": "password: |\n x\n", "block lists": "password:\n- x\n", "starts of blocks": "password:|", "blocks without end": "password: |\n\n",
    "tokens in addresses": "https://a", "tokens of json": "eyJa.", "starts of tokens": "eyJ", "oracle": "jdbc:oracle:thin:u/p", "oracle without a user": "jdbc:oracle:thin:",
    "digests": "digest:", "digests of users": "digest:u:", "digests in quotes": "digest','u", "encoded keys": "password%3D", "colons": ":", "equals": "=",
    "arguments": "--password x ", "arguments without values": "--password ", "dashes": "-", "dashes and dots": ".-", "authorizations": "authorization: digest ", "usual names": "token=", "usual names with values": "sig=abcdefghijklmnopq ",
    "encoded addresses": "://a%3Ab%40", "starts of encoded addresses": "%3A%2F%2Fa%3A", "tokens of services": "ghp_", "other letters": "é", "zeros": "\0",
}  # fmt: skip
"""What a text is made of: the piece is repeated."""
MEGABYTE = 1_000_000
SECONDS = 3.0
"""Processor time of a megabyte; it takes 0.1 to 0.7 s on an idle machine."""


def _seconds(call: Callable[[], object], enough: float, tries: int = 3) -> float:
    """Processor time of the quickest call; one is enough if it takes at most so long."""
    best = float("inf")
    for _ in range(tries):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
        if best <= enough:
            break
    return best


def _repeated(piece: str, length: int) -> str:
    return (piece * (length // len(piece) + 1))[:length]


@pytest.mark.parametrize("kind", KINDS)
def test_masking_takes_time_in_proportion_to_the_text(kind: str) -> None:
    long = _repeated(KINDS[kind], MEGABYTE)
    short = long[: MEGABYTE // 10]
    tenth = _seconds(lambda: masked_text(short), 0, tries=2)
    assert tenth <= SECONDS / 10
    assert _seconds(lambda: masked_text(long), 20 * tenth) <= min(SECONDS, max(20 * tenth, 0.1))
    assert _seconds(lambda: is_secret(long), SECONDS) <= SECONDS
    assert _seconds(lambda: masked_file(long.encode()), SECONDS) <= SECONDS


METHODS = ("search", "match", "fullmatch", "sub", "split", "findall", "finditer")
Use = tuple[re.Pattern[Any], str]


def _modules() -> Iterator[ModuleType]:
    for path in MODULES:
        dotted = name(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if not dotted.endswith("__main__"):
            yield importlib.import_module(dotted)


@cache
def _compiled() -> dict[str, Use]:
    """Each compiled pattern of a module, and each pattern that is a text in a call of `re`, with each method that is called."""
    sources = {path: text(path) for path in MODULES}
    whole = "\n".join(sources.values())
    found: dict[str, Use] = {}
    for module in _modules():
        for own, value in vars(module).items():
            if isinstance(value, re.Pattern):
                used = set(re.findall(rf"\b{own}\.({'|'.join(METHODS)})\b", whole)) or set(METHODS)
                found |= {f"{module.__name__}.{own}.{method}": (value, method) for method in used}
    for path, source in sources.items():
        if re.search(rf"\bre\.({'|'.join(METHODS)})\(", source) is None:
            continue
        for node in names(path).nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
                first = node.args[0] if node.args and ast.unparse(node.func.value) == "re" else None
                if isinstance(first, ast.Constant):
                    found[f"{name(path)}:{node.lineno} {node.func.attr}"] = (re.compile(first.value), node.func.attr)
    return found


def _called(pattern: re.Pattern[Any], method: str, given: Any) -> None:
    if method == "sub":
        pattern.sub(given[:0], given)
    elif method == "finditer":
        for _ in pattern.finditer(given):
            pass
    else:
        getattr(pattern, method)(given)


def _hostile(pattern: re.Pattern[Any]) -> Iterator[str]:
    """Texts of one piece: those of all kinds, each letter and word of the pattern, and two letters that follow each other."""
    source = pattern.pattern.decode() if isinstance(pattern.pattern, bytes) else pattern.pattern
    letters = sorted({*re.sub(r"\\[a-zA-Z]|[()|?*+]", "", source), *"0aA_-.: \t/%"})
    yield from KINDS.values()
    yield from letters
    for word in re.findall(r"\w{2,}\W{0,2}", re.sub(r"[()?*+]|\\(?=\W)", "", source)):
        yield from (word, word[:-1])
    yield from (one + two for one, two in zip(letters, letters[1:], strict=False))


LENGTHS = (20, 500, 10_000)
"""Letters. The next length is tried if a shorter one was quick: also the time of an exponential pattern is bounded."""
ENOUGH = 0.01
"""Processor time for a text; the longest takes a linear pattern about 0.0003 s, a quadratic one more than 0.03 s."""


def _slow(pattern: re.Pattern[Any], method: str) -> Iterator[str]:
    """The pieces whose repetition takes too much time."""
    for piece in dict.fromkeys(_hostile(pattern)):
        for length in LENGTHS:
            made = f"x{_repeated(piece, length)}\x01"
            given = made.encode() if isinstance(pattern.pattern, bytes) else made
            if _seconds(lambda given=given: _called(pattern, method, given), ENOUGH) > ENOUGH:  # type: ignore[misc]
                yield piece
                break


PARTS = 12


@pytest.mark.one_in(4)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_regular_expression_takes_time_in_proportion_to_the_text(part: int) -> None:
    uses = {use: found for use, found in sorted(_compiled().items()) if crc32(use.encode()) % PARTS == part}
    assert uses
    slow = {use: found for use, (pattern, method) in uses.items() if (found := [*_slow(pattern, method)])}
    assert not slow, "a start of these patterns reads to the end of a piece that other starts read, too"


@pytest.mark.parametrize("source", [r"a+b", r"\s*Z$", r"(x+)+y", r"\[([^\]]*)\]", r"mark:(\{.*?\}):end"])
def test_a_pattern_that_takes_more_is_found(source: str) -> None:
    assert next(_slow(re.compile(source), "search"), None) is not None
