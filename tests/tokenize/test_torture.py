from __future__ import annotations

from headrace.tokenize.torture import torture_set

TOKENS = ["<|endoftext|>", "<s>"]


def test_the_set_is_the_same_every_time_and_all_of_it_is_utf8() -> None:
    texts = torture_set(TOKENS)
    assert texts == torture_set(TOKENS)
    assert 40_000 < sum(len(text.encode()) for text in texts) < 200_000


def test_it_holds_what_tokenizers_were_seen_to_differ_on() -> None:
    texts = torture_set(TOKENS)
    joined = "".join(texts)
    for oddity in (
        "\u180e",
        "\U00016ea0",
        "\x85",
        "\r\n",
        "'\u017f",
        "\0",
        "\U0010ffff",
        "\ufeff",
        " " * 513,
    ):
        assert oddity in joined
    assert "" in texts
    assert "<s>" in texts


def test_tokens_are_spelt_alone_and_in_text() -> None:
    with_tokens, without = set(torture_set(TOKENS)), set(torture_set())
    assert any("a<s>b" in text for text in with_tokens - without)
