"""What a provider's refusal means, told from status, type, details and wording (V2, R8, R10).

Names of errors are believed first, then wordings. Providers and gateways word one refusal in dozens of ways, so what is looked for is not
their sentences but what these have in common: something that is sent (prompt, input, messages), a measure of it (tokens, context length),
and that it is over a limit. Numbers are known by the words around them; of two, the larger one is what was sent. What speaks of the
output's own limit, of money, or of tokens per minute is no overflow, whatever else it says, and what is not recognised is ``other``.
Wordings are from the providers' documents and from reports of their users. Texts are cut to ``MAX_CHARS`` and every repetition in a
pattern has a bound, so the work is linear in what is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from ..core.messages import JSON, Object
from ..core.rejection import Rejection, Why

MAX_CHARS = 20_000

_DROPPED = str.maketrans("", "", "`'\"’\\*")
_NAME_KEYS = ("error_code", "code", "type", "status", "reason")


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


_TOO_LONG_NAMES = _any(
    r"\b(?:model_)?context_(?:length|window|size)_exceeded\b",
    r"\bexceed(?:ed)?_context_(?:size|length|window)",
    r"\bcontext_(?:exceeded|overflow|too_long)\b",
    r"\bmodel_max_prompt_tokens_exceeded\b",
    r"\b(?:prompt|input)_(?:is_)?too_(?:long|large)\b",
    r"\bcontext(?:length|window)exceeded",
)
_BYTES = _any(
    r"\brequest_too_large|\brequest_body_too_large|\bpayload_too_large|\brequest_entity_too_large",
    r"\brequest exceeds the maximum size|\bmaximum (?:request|body|payload) size",
    r"\b(?:request|payload|content|body|entity|message)(?: (?:body|size|entity|payload)){0,2} (?:is |was )?too large",
    r"\b(?:request|payload|content|body)(?: (?:body|size|entity|payload)){1,2} exceed",
)
_MEDIUM = r"\b(?:images?|image\(s\)|pictures?|pdfs?|documents?|attachments?|videos?|screenshots?)\b"
_AMISS = (
    r"(?:exceed|too (?:large|big|many|long)|larger than|over the|maximum|at most|up to|dimensions?|not valid|invalid|corrupt|password"
    r"|(?:could not|unable to|failed to) (?:process|decode|download|load|fetch)|unsupported image|does not match|appears to be)"
)
_MEDIA = _any(rf"{_MEDIUM}.{{0,80}}{_AMISS}", rf"{_AMISS}.{{0,60}}{_MEDIUM}")
_MEDIA_NAMES = _any(
    r"\b(?:image|document|pdf|media)\w{0,20}_too_(?:large|big|many|long)\b",
    r"\btoo_many_(?:images|documents)\b",
    r"\bcontent\.\d{1,6}\.(?:[\w.]{0,60}\.)?(?:image|document|pdf)\.source\b.{0,200}(?:exceed|maximum|too |could not|invalid)",
)
_RATE = _any(
    r"rate[ _-]?limit|too many requests|\bthrottl|too many tokens, please wait|\bquotas?\b|resource[ _]exhausted|_per_minute",
    r"\b(?:tokens?|requests?) ?(?:per |/ ?)(?:min|minute|hour|day|second|sec)\b|\b(?:tpm|tpd|rpm|itpm|otpm)\b",
)
_SPENT = _any(
    r"insufficient[ _](?:quota|credits?|balance|funds)|spend(?:ing)?[ _](?:limit|cap)|ramp_limit_exceeded|credit balance|\bbilling\b",
    r"extra usage is required|requires more credits|can only afford",
)
_NEVER = _any(
    r"(?:string|array)_above_max_length|(?:string|array) too long",
    r"\bcompaction_\w|context_management\b|context window (?:is )?too small",
)
"""What sounds like it and is none: a field that is too long, an error in a level's own settings."""
_TRANSIENT = _any(
    r"\boverloaded|\binternal[ _](?:server[ _])?error|\bapi_error\b|\bserver_error\b|\btimeout_error\b|bad gateway|gateway time",
    r"service[ _]unavailable|temporarily|timed? ?out|deadline[ _]exceeded|try again later|at capacity|peer closed|incomplete chunked",
    r"connection (?:error|reset|aborted|closed|refused)|stream (?:ended|error|interrupted|disconnected)|premature(?:ly)? (?:close|end)",
)
_RETRIED = frozenset({408, 409, 425, 429})
"""Statuses under 500 that both SDKs send again."""
_REFUSES_THE_CALLER = frozenset({401, 402, 404, 407})

_OUTPUT_LIMIT = _any(
    r"max_(?:\w{1,12}_)?tokens\b.{0,60}?(?:>|too large|exceed|greater|larger|at most|should be|must be (?:<|less|at most|between|in))",
    r"(?:supports?|number of|up to) (?:at most )?(?:\d{1,12} )?(?:output|completion) tokens|budget_tokens",
)
_OF_OUTPUT = re.compile(r"\b(?:output|completion|generation|response)\b|\bmax_\w{0,12}tokens")
_OF_INPUT = re.compile(r"\b(?:inputs?|prompt|messages?|conversation|context|(?:input|prompt)_tokens)\b")
_BESIDE_OUTPUT = re.compile(r"\b(?:inputs?|prompt|messages|context[ _-](?:length|window|size|limit))\b")
_OF_REQUEST = re.compile(r"\b(?:request|requested|history|sequence|total|model)\b")
_NO_ROOM = re.compile(r"max_(?:\w{1,12}_)?tokens must be (?:at least|greater than or equal to|>=?|positive).{0,20}-\d")
"""What servers say that fill in the output limit themselves and are left with a negative number."""

_SENT = r"\b(?:prompt|inputs?|conversation|context|(?:chat |message )?history|messages|your message|sequence)"
_MEASURE = r"(?: (?:length|size|text|tokens?|token count|content|prompt))? (?:\(?(?:of )?[\d,_.]{1,16}k?(?: tokens?)?\)? )?"
_TOO = r"(?:is |are |was |has (?:become |grown ))?(?:much |far |way )?too (?:long|large|big)\b"
_CONTEXT = r"(?:context[ _-](?:length|window|size|limit|budget|capacity)|maximum (?:model |sequence )length|max_model_len|n_ctx|num_ctx)"
_ABOVE = (
    r"(?:exceed|too (?:long|large|many|big)|(?:longer|greater|larger|more|bigger) than|\bover\b|above|beyond|surpass"
    r"|\d\)?(?: tokens?)? ?>=? ?\d)"
)
_TOO_LONG = _any(
    _SENT + _MEASURE + _TOO,
    _SENT + _MEASURE + r"(?:has |have )?exceed\w{0,4}\b.{0,40}\b(?:length|limit|maximum|max|window|size)\b",
    r"\bmax\w{0,4} (?:sequence|context|prompt|input|model)(?: length| tokens| size)? exceed",
    rf"{_CONTEXT}.{{0,120}}(?:{_ABOVE}|overflow|\bfull\b|used up|reached|reduce)",
    rf"(?:{_ABOVE}|overflow|not fit|nt fit).{{0,80}}{_CONTEXT}",
    r"maximum context length (?:is|of) \d|\bcontext overflow|no room in|n_keep.{0,20}n_ctx|cannot truncate prompt",
    r"\brequest (?:is |was )?too (?:long|large) for\b|\blength of (?:all |the ){0,2}(?:messages|prompt|input)\b.{0,20}too (?:long|large)",
    r"reduce (?:the length of )?(?:the |your )(?:\w{1,10} ){0,2}(?:messages|prompt|input)\b|\binput length should be|\bprompt_too_long\b",
    r"current length is \d.{0,20}limit is \d|(?<!api )(?<!access )\btoken limit exceeded|\btoo many (?:input |prompt )?tokens\b",
    r"\b400(?: status code)? \(no body\)",
    r"上下文.{0,12}(?:过长|超|太长)|(?:超出|超过).{0,12}(?:上下文|最大长度)|压缩上下文|(?:输入|提示词|消息).{0,10}(?:过长|太长|超长|超出|超过)",
)
_TOKENS = r"(?:\b(?:input_|prompt_)?tokens?\b|token[ _]count|\b(?:input|prompt) length)"
_LIMIT = rf"(?:{_ABOVE}|\bmax|\blimit\b|\ballowed\b|(?:less|fewer) than|at most|{_CONTEXT})"
_TOKENS_AND_LIMIT = _any(rf"{_TOKENS}.{{0,100}}{_LIMIT}", rf"{_LIMIT}.{{0,100}}{_TOKENS}")
_SAYS_ABOVE = re.compile(_ABOVE)

_FULL = frozenset({"model_context_window_exceeded", "context_window_exceeded", "context_length_exceeded"})
_CUT = frozenset({"length", "max_tokens", "max_output_tokens"})

_N = r"(?<![\w.])(\d{1,3}(?:[,_]\d{3}){1,3}|\d{1,12})"
_SUM = re.compile(rf"{_N} ?\+ ?{_N} ?> ?{_N}")
_INPUT_PART = _any(
    rf"{_N}(?: tokens)? (?:in|of|from|for) (?:the |your |text |tool |image |input ){{0,3}}(?:messages?|prompt|inputs?|functions?|tools?)\b",
    rf"{_N} (?:inputs?|prompt) tokens|\(length {_N}\)",
)
_OUTPUT_PART = _any(
    rf"{_N}(?: tokens)? (?:in|of|from|for) (?:the |your |text ){{0,3}}(?:completion|output|response|generation)\b",
    rf"{_N} (?:output|completion) tokens|{_N} max_\w{{0,12}}tokens|tokens is too large: {_N}|output tokens \(at least {_N}\)",
)
_INPUT_NAMED = re.compile(rf"\b(?:input|prompt)(?: tokens| length)?(?: of|:)? ?\(?{_N}")
_OUTPUT_NAMED = re.compile(rf"\b(?:max_\w{{0,12}}tokens|output)(?: of|:)? ?\(?{_N}")
_SHARED_LIMIT = re.compile(
    r"(?:maximum (?:context|model|sequence|total) (?:length|window|size|tokens)|context (?:length|window|size|limit)|must be <=?|limit"
    rf"|exceed\w{{0,4}})(?: is| of)?(?: only)?[ :(]{{1,3}}{_N}"
)
_TOGETHER = re.compile(
    r"\b(?:input|prompt|messages)\w{0,6}(?: length| tokens| \(length \d{1,12}\))? ?(?:\+|and|plus) ?(?:the )?(?:number of )?(?:requested )?"
    r"(?:max_(?:\w{1,12}_)?tokens|output|completion|prediction)\b.{0,60}(?:exceed|must be|longer|greater|larger|\bover\b|>)"
)
_COUNT = re.compile(
    r"(?<![\w.,-])(\d{1,3}(?:[,_]\d{3}){1,3}|\d{1,12}(?:\.\d{1,3}(?= ?[km]))?)( ?[km])?(?!\w|\.\d|-(?!token))"
    r"(?! ?(?:[kmg]i?b\b|bytes?|pixels?|px|m?s\b|sec|min|char|images?|pages?|files?|messages|items|blocks|tools|times|%|\$))"
)
_NO_COUNT = re.compile(r"(?:code|status|http|error|\bid|\bport|\bline)\W{0,3}$")
_GAP = re.compile(r"\bby (?:at least |about )?$")
_AFTER_GAP = re.compile(r" tokens? (?:too|longer|over|above|more|beyond|past)\b")
_ROLE = _any(
    r"(?P<limit>max\w{0,6}(?: (?:allowed|input|prompt|context|sequence|model|total|token|number|of)){0,5}(?: (?:length|size|tokens|count))?"
    r"|limit\w{0,4}|allow\w{0,3}|\bup to|at most|n_ctx|<=?|configured|support\w{0,3}|\bonly|should be|cannot exceed|(?:less|fewer) than"
    r"|(?:exceeds?(?: the)?|(?:longer|greater|larger|more) than|\bover) \(?$|context (?:length|window|size)|capacity|\blength|\bwindow|> )",
    r"(?P<actual>request\w{0,3}|contain\w{0,2}|\bhas|\bhave|resulted in|\bsent|given|received|\bgot|counts?|passed|provided|n_prompt_tokens"
    r"|(?:current|input|prompt|total) length|too (?:long|large):?)",
)
_AFTER_LIMIT = re.compile(r"[ )]{0,2}(?:[ -]tokens? )?(?:max|limit|context|window|allowed)")
_AFTER_ACTUAL = re.compile(r"[ )]{0,2}[ -]?tokens?\b")
_LEAST_COUNT = 100
_OWN_CODES = ("(2013)",)
"""Error codes that stand where a limit could (MiniMax)."""
_IN_BYTES = re.compile(rf"{_N} ?(bytes?|[kmg]i?b)\b")
_UNITS = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_PLACE = re.compile(
    r"\b(?:messages|contents|input)[.\[](\d{1,6})\]?\.(?:content|parts)[.\[](\d{1,6})\]?(?:(?:\.tool_result)?\.content[.\[](\d{1,6}))?"
)
_MOST_PLACES = 1_000


def classify(
    status: int | None, message: str, *, type: str = "", details: Object | None = None, headers: Mapping[str, str] | None = None
) -> Rejection:
    """What a refusal means. ``status``: None, or 200, for an error inside a stream. ``message``: the provider's, or the whole body.
    ``type``: its own name for the error (``error.type``, or ``error.code`` at OpenAI). ``details``: the error object, or what Anthropic
    has under ``details``. Never raises.

    Where the input and the output asked for are both told, they decide between ``too_long`` and ``output_too_large``. Numbers are as
    told: servers that stop counting at the limit (vLLM) tell a gap of exactly one.
    """
    text = " ".join(message[:MAX_CHARS].lower().translate(_DROPPED).split())
    why = _why(status, " ".join(_names(type, details)), text, retry=_header(headers, "x-should-retry"))
    actual = limit = output = None
    if why in ("too_long", "output_too_large"):
        why, actual, limit, output = _measured(why, text, status, details)
    elif why == "bytes":
        actual, limit = _sizes_in_bytes(text)
    return Rejection(
        why=why,
        message=message[:MAX_CHARS],
        status=status,
        type=type,
        actual=actual,
        limit=limit,
        max_tokens=output,
        places=_places(text, details) if why == "media" else (),
        max_side=_max_side(text, details) if why == "media" else None,
        retry_after=_retry_after(headers),
    )


def classify_stop(stop_reason: str, *, output_tokens: int | None, has_content: bool) -> Rejection | None:
    """What the end of an answer means (R10): the window is full, or nothing could be written for lack of room; None for all other ends.
    ``has_content``: the answer holds any block, thinking included. An answer that was asked for with an output limit of 0 is no overflow;
    that is for the caller to know."""
    reason = stop_reason.strip().lower()
    if reason in _FULL:
        return Rejection(why="too_long", message="the context window was full before the answer was", status=200, type=stop_reason)
    if reason in _CUT and not has_content and not output_tokens:
        return Rejection(
            why="too_long", message="an empty answer, cut for its length: the input left no room", status=200, type=stop_reason
        )
    return None


def _why(status: int | None, names: str, text: str, *, retry: str) -> Why:
    """The decision: the first rule that holds."""
    broken = status is not None and status >= 500
    later: Why = "other" if retry == "false" else "transient"
    if status in _REFUSES_THE_CALLER or _SPENT.search(names) or _SPENT.search(text):
        return "other"
    if status != 429 and _TOO_LONG_NAMES.search(names):
        return "too_long"
    if status == 429 or (status or 0) > 500 or _RATE.search(names) or _RATE.search(text):
        return later
    if _NEVER.search(names) or _NEVER.search(text):
        return later if broken else "other"
    if not broken and _is_media(names, text):
        return "media"
    size = _size(status, names, text)
    if size is not None:
        return size
    if broken or status in _RETRIED or (status in (None, 200) and (_TRANSIENT.search(names) or _TRANSIENT.search(text))):
        return later
    return "transient" if retry == "true" else "other"


def _size(status: int | None, names: str, text: str) -> Why | None:
    """Which size is over its limit, that of the tokens or that of the body; None where neither is. A broken server is believed only
    where the wording is one that is known."""
    broken = status is not None and status >= 500
    if _TOO_LONG_NAMES.search(text) or _NO_ROOM.search(text):
        return "too_long"
    if _shares(text) is not None:
        return "output_too_large"
    if _OUTPUT_LIMIT.search(text) and not _BESIDE_OUTPUT.search(text):
        return None
    if _TOO_LONG.search(text) or (not broken and _is_past_tokens(text, status)):
        return "too_long"
    return "bytes" if status == 413 or _BYTES.search(names) or (not broken and _BYTES.search(text)) else None


def _is_past_tokens(text: str, status: int | None) -> bool:
    """Whether a text says of tokens of what was sent that they are over a limit: in words, or by two numbers that show it."""
    if _OUTPUT_LIMIT.search(text) or not _TOKENS_AND_LIMIT.search(text):
        return False
    if not _OF_INPUT.search(text) and (_OF_OUTPUT.search(text) or not _OF_REQUEST.search(text)):
        return False
    return bool(_SAYS_ABOVE.search(text)) or None not in _sizes(text, status)


def _is_media(names: str, text: str) -> bool:
    if _MEDIA_NAMES.search(names) or _MEDIA_NAMES.search(text):
        return True
    return bool(_MEDIA.search(text)) and not re.search(r"\btokens?\b|context (?:length|window)|prompt is too long", text)


def _names(type: str, details: Object | None) -> Iterator[str]:
    """The provider's own names for the error, in lower case."""
    yield type[:200].lower()
    for part in _objects(details):
        yield from (value[:200].lower() for key in _NAME_KEYS if isinstance(value := part.get(key), str))


def _objects(details: JSON, depth: int = 3) -> Iterator[Object]:
    """An error object and what it holds under the usual keys, whichever level the caller gave."""
    if isinstance(details, dict) and depth:
        yield details
        for key in ("error", "details"):
            yield from _objects(details.get(key), depth - 1)


def _measured(why: Why, text: str, status: int | None, details: Object | None) -> tuple[Why, int | None, int | None, int | None]:
    """Which of the two it is after all, tokens sent, tokens taken, and the output asked for where that is what is too much."""
    for part in _objects(details):  # llama.cpp has them as fields
        actual, limit = _whole(part.get("n_prompt_tokens")), _whole(part.get("n_ctx"))
        if actual is not None and limit is not None:
            return "too_long", actual, limit, None
    told = _shares(text)
    if told is None:
        return why, *_sizes(text, status), None
    actual, output, limit = told
    if actual is not None and limit is not None and actual >= limit:
        return "too_long", actual, limit, None
    return "output_too_large", actual, limit, output


def _shares(text: str) -> tuple[int | None, int | None, int | None] | None:
    """Input, output asked for, and the window that they share, where a text speaks of both together; None where it does not."""
    total = _SUM.search(text)
    if total is not None and re.search(r"context|token|input", text):
        return _int(total[1]), _int(total[2]), _int(total[3])
    sent = _sum(_INPUT_PART, text) or _sum(_INPUT_NAMED, text)
    asked = None if sent is None else _sum(_OUTPUT_PART, text) or _sum(_OUTPUT_NAMED, text)
    found = _SHARED_LIMIT.search(text)
    limit = _int(found[1]) if found else None
    if sent is not None and asked is not None and limit is not None and sent + asked > limit:
        return sent, asked, limit
    return (sent, asked, limit) if _TOGETHER.search(text) else None


def _sum(pattern: re.Pattern[str], text: str) -> int | None:
    found = [_int(next(group for group in match.groups() if group)) for match in pattern.finditer(text)]
    return sum(found) if found else None


def _sizes(text: str, status: int | None) -> tuple[int | None, int | None]:
    """Tokens sent and taken. Of two numbers the larger one was sent, unless the words say that it is the limit and the other is not;
    of more, the limit is the first one called so; a single one is what the words around it say."""
    roles: dict[int, str] = {}
    gap = None
    for value, role in _numbers(text, status):
        if role == "gap":
            gap = value
        else:
            roles[value] = roles.get(value) or role
    limits = [value for value, role in roles.items() if role == "limit"]
    if len(roles) == 2:
        low, high = sorted(roles)
        return (None, high) if limits == [high] else (high, low)
    limit = limits[0] if limits else None
    if gap is not None and limit is not None:
        return limit + gap, limit
    over = [value for value, role in roles.items() if (role == "actual" if limit is None else value > limit and role != "limit")]
    return max(over, default=None), limit


def _numbers(text: str, status: int | None) -> Iterator[tuple[int, str]]:
    """The numbers that can be counts of tokens, each with what the words around it make of it: limit, actual, gap, or nothing."""
    end = 0
    for match in _COUNT.finditer(text):
        value = int(float(match[1].replace(",", "").replace("_", "")) * _UNITS.get((match[2] or "").strip(), 1))
        before = text[max(end, match.start() - 40) : match.start()]
        is_code = _NO_COUNT.search(before) or (value == status and end == 0) or text[match.start() - 1 : match.end() + 1] in _OWN_CODES
        if value < _LEAST_COUNT or is_code:
            continue
        end = match.end()
        said = [found.lastgroup or "" for found in _ROLE.finditer(before)]
        if _GAP.search(before) or _AFTER_GAP.match(text, end):
            yield value, "gap"
        elif _AFTER_LIMIT.match(text, end):
            yield value, "limit"
        else:
            yield value, said[-1] if said else "actual" if _AFTER_ACTUAL.match(text, end) else ""


def _sizes_in_bytes(text: str) -> tuple[int | None, int | None]:
    """Bytes sent and taken; one number alone is the limit."""
    found = sorted({_int(match[1]) * _UNITS.get(match[2].removesuffix("b"), 1) for match in _IN_BYTES.finditer(text)})
    if len(found) == 2:
        return found[1], found[0]
    return None, found[0] if len(found) == 1 else None


def _places(text: str, details: Object | None) -> tuple[tuple[int, ...], ...]:
    """Message, block, and part of a result, of each medium named, in order and once."""
    told: list[JSON] = []
    for part in _objects(details):
        paths = part.get("paths")
        told += paths[:_MOST_PLACES] if isinstance(paths, list) else []
    matches = (match for path in (*told, text) if isinstance(path, str) for match in _PLACE.finditer(path[:MAX_CHARS]))
    places = dict.fromkeys(tuple(int(index) for index in match.groups() if index is not None) for match in matches)
    return tuple(places)[:_MOST_PLACES]


def _max_side(text: str, details: Object | None) -> int | None:
    for part in _objects(details):
        side = _whole(part.get("max_side_length_pixels"))
        if side is not None:
            return side
    found = re.search(r"(\d{2,6}) ?(?:pixels?|px)\b", text)
    return int(found[1]) if found else None


def _whole(value: JSON) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _int(text: str) -> int:
    return int(text.replace(",", "").replace("_", ""))


def _header(headers: Mapping[str, str] | None, name: str) -> str:
    return next((value for key, value in (headers or {}).items() if key.lower() == name), "").strip().lower()


def _retry_after(headers: Mapping[str, str] | None) -> float | None:
    """Seconds to wait; a date says nothing without a clock."""
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(_header(headers, name)) * factor
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    return None
