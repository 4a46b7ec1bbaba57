"""A predicate over lineage, as a user writes it: `source glob 'web/*' and tokens > 10`. Parsed by hand, never evaluated as code.

    expression  = conjunction { "or" conjunction }
    conjunction = negation { "and" negation }
    negation    = "not" negation | "(" expression ")" | test
    test        = COLUMN ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) LITERAL
                | COLUMN "glob" STRING
                | COLUMN "in" "(" LITERAL { "," LITERAL } ")"
                | COLUMN "is" [ "not" ] "null"

Null is as in SQL: a test of a null is neither true nor false, and only what is true is selected. docs/versions.md says what
each column takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from headrace.dataeng.lineage import SCHEMA
from headrace.errors import UsageError

_TOKEN: Final = re.compile(
    r"(?P<space>\s+)|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<integer>-?[0-9]{1,4000})(?![\w.])"
    r"|(?P<string>'(?:[^']|'')*')|(?P<symbol>!=|<=|>=|[=<>(),])"
)
_MAX_CHARS: Final = 1 << 20
_MAX_DEPTH: Final = 100  # of parentheses and "not": the parser and the evaluation are recursive
_ORDER: Final[dict[str, Callable[..., Any]]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_KEYWORDS: Final = frozenset({"and", "or", "not", "glob", "in", "is", "null"})


@dataclass(frozen=True, slots=True)
class Predicate:
    """columns: those of the lineage that it looks at. `selects`: a table with them to a BooleanArray without nulls."""

    columns: tuple[str, ...]
    _evaluate: Callable[[Any], Any]

    def selects(self, lineage: Any) -> Any:
        found = self._evaluate(lineage)
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        return pc.fill_null(found, False)


def parse(text: str) -> Predicate:
    """Raises UsageError that shows where the text is no predicate."""
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise UsageError("--where: the predicate is not UTF-8")
    if len(text) > _MAX_CHARS:
        raise UsageError(
            f"--where: a predicate of more than {_MAX_CHARS:,} characters; give lists as --documents-from"
        )
    return _Parser(text).parse()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # word, integer, string, symbol, end
    text: str
    at: int

    @property
    def keyword(self) -> str:
        """Lower-case for a word, since SQL is often written in capitals."""
        return self.text.lower() if self.kind == "word" else self.text if self.kind == "symbol" else ""


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._next = 0
        self._depth = 0
        self._columns: dict[str, None] = {}

    def parse(self) -> Predicate:
        evaluate = self._expression()
        if self._peek().kind != "end":
            self._fail(self._peek(), "expected `and`, `or` or the end")
        return Predicate(tuple(self._columns), evaluate)

    def _split(self) -> Iterator[_Token]:
        at = 0
        while at < len(self._text):
            match = _TOKEN.match(self._text, at)
            if match is None:
                self._fail(
                    _Token("end", self._text[at], at),
                    "expected a column, a keyword, an integer or a 'string' in single quotes",
                )
            assert match.lastgroup is not None
            if match.lastgroup != "space":
                yield _Token(match.lastgroup, match[0], at)
            at = match.end()
        yield _Token("end", "", at)

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def _accept(self, keyword: str) -> bool:
        if self._peek().keyword != keyword:
            return False
        self._take()
        return True

    def _expect(self, keyword: str) -> None:
        if not self._accept(keyword):
            self._fail(self._peek(), f"expected `{keyword}`")

    def _fail(self, token: _Token, problem: str) -> NoReturn:
        begin, end = max(0, token.at - 60), token.at + 20
        line = re.sub(r"\s", " ", self._text[begin:end])
        found = "the end" if token.kind == "end" and not token.text else repr(token.text[:40])
        raise UsageError(
            f"--where, character {token.at + 1}: {problem}, found {found}\n  {line}\n  {' ' * (token.at - begin)}^"
        )

    def _expression(self) -> Callable[[Any], Any]:
        return self._chain("or", pc.or_kleene, lambda: self._chain("and", pc.and_kleene, self._negation))

    def _chain(
        self, keyword: str, join: Callable[..., Any], part: Callable[[], Callable[[Any], Any]]
    ) -> Callable[[Any], Any]:
        parts = [part()]
        while self._accept(keyword):
            parts.append(part())

        def evaluate(table: Any) -> Any:
            found = parts[0](table)
            for each in parts[1:]:
                found = join(found, each(table))
            return found

        return evaluate if len(parts) > 1 else parts[0]

    def _negation(self) -> Callable[[Any], Any]:
        token = self._peek()
        if token.keyword not in ("not", "("):
            return self._test()
        self._take()
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail(token, f"nested deeper than {_MAX_DEPTH}")
        if token.keyword == "not":
            inner = self._negation()
        else:
            inner = self._expression()
            self._expect(")")
        self._depth -= 1
        return inner if token.keyword == "(" else lambda table: pc.invert(inner(table))

    def _test(self) -> Callable[[Any], Any]:
        token = self._take()
        column = token.text
        if token.kind != "word" or column.lower() in _KEYWORDS or column not in SCHEMA.names:
            self._fail(token, f"expected a column ({', '.join(SCHEMA.names)})")
        self._columns[column] = None
        kind = SCHEMA.field(column).type
        operator = self._take()
        if operator.keyword == "is":
            negated = self._accept("not")
            self._expect("null")
            test = pc.is_valid if negated else pc.is_null
            return lambda table: test(table[column])
        if operator.keyword == "in":
            values = pa.array(self._list(kind), kind)
            # As `=` of each: a null is in nothing, and not in nothing either.
            return lambda table: pc.if_else(
                pc.is_valid(table[column]), pc.is_in(table[column], value_set=values), None
            )
        if operator.keyword == "glob" and pa.types.is_string(kind):
            pattern = self._take()
            if pattern.kind != "string":
                self._fail(pattern, "expected a pattern in single quotes")
            regex = _glob(_unquoted(pattern))
            try:
                pc.match_substring_regex(pa.array([""], kind), regex)
            except pa.ArrowInvalid:
                self._fail(
                    pattern, f"expected a pattern that is shorter than {len(pattern.text):,} characters"
                )
            return lambda table: pc.match_substring_regex(table[column], regex)
        allowed = list(_ORDER) if pa.types.is_integer(kind) else ["=", "!="]
        if operator.keyword not in allowed:
            words = [*allowed, "in", "is", *(["glob"] if pa.types.is_string(kind) else [])]
            self._fail(operator, f"expected one of {' '.join(words)} behind {column}")
        value = pa.scalar(self._literal(kind), kind)
        compare = _ORDER[operator.keyword]
        return lambda table: compare(table[column], value)

    def _list(self, kind: Any) -> list[Any]:
        self._expect("(")
        values = [self._literal(kind)]
        while self._accept(","):
            values.append(self._literal(kind))
        self._expect(")")
        return values

    def _literal(self, kind: Any) -> Any:
        token = self._take()
        if pa.types.is_integer(kind):
            value = int(token.text) if token.kind == "integer" else None
            if value is None or not -(1 << (kind.bit_width - 1)) <= value < 1 << (kind.bit_width - 1):
                self._fail(token, f"expected an integer of {kind.bit_width} bits")
            return value
        if token.kind != "string":
            self._fail(token, "expected a 'string' in single quotes")
        text = _unquoted(token)
        if pa.types.is_string(kind):
            return text
        if not re.fullmatch(rf"[0-9a-fA-F]{{{2 * kind.byte_width}}}", text):
            self._fail(token, f"expected {2 * kind.byte_width} hexadecimal digits in single quotes")
        return bytes.fromhex(text)


def _unquoted(token: _Token) -> str:
    return token.text[1:-1].replace("''", "'")


def _glob(pattern: str) -> str:
    """`*` is any text, slashes too; `?` is one character. For RE2, which takes linear time whatever the pattern."""
    parts = {"*": ".*", "?": "."}
    return r"\A(?s:" + "".join(parts.get(char, re.escape(char)) for char in pattern) + r")\z"
