"""From what comes back to the summary in it, or to what is wrong with it (L3, L8, L12): no part of a draft gets through, and
neither an error's text nor a refusal passes for a summary."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ..core.rejection import Rejection

EMPTY = "an empty answer"
DRAFT_ONLY = "only a draft and no summary"
ERROR_TEXT = "the text of an error instead of a summary"
REFUSAL = "a refusal instead of a summary"

REFUSED_BY_PROVIDER = "a refusal of the provider's"
NO_SUMMARY = "an earlier answer once more instead of a summary"
TOOL_CALL = "a tool call instead of a summary, which was denied"

FIRST_PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 60.0
"""Who is told to come back later than this has failed: the conversation waits (L8)."""
CUT_OFF = frozenset({"max_tokens", "length", "model_context_window_exceeded", "MAX_TOKENS", "max_output_tokens"})
"""Why an answer stopped that is not whole."""
REFUSED = frozenset({"refusal", "content_filter", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST"})
"""Why an answer stopped that the provider did not want to give."""
ERROR_CHARS = 400
"""A longer answer is not taken for an error's text, whatever it begins with."""
REFUSAL_CHARS = 1_500
"""The same for a refusal: models excuse themselves at length."""

_TAG = re.compile(r"(?<!`)<(/?)\s*(summary|analysis|thinking|think|scratchpad|draft)\b[^<>\n]{0,80}>", re.I)
"""The tags of an answer; one behind a backtick is spoken of, not used."""
_LINE_TAG = re.compile(r"^[ \t]*<summary\b[^<>\n]{0,80}>", re.I | re.M)
_DRAFT_HEAD = re.compile(r"^[#*\s]{0,8}(?:analysis|draft|thinking)[*:\s]{0,5}$", re.I | re.M)
_SUMMARY_HEAD = re.compile(r"^[#* \t]{0,8}(?:final )?summary[*: \t]{0,5}$", re.I | re.M)
_FENCED = re.compile(r"```\w*\n(.*)\n```", re.S)
_NOTHING = frozenset({"n a", "na", "none", "null", "nil", "undefined", "empty", "no summary"})
_LATER = re.compile(r"(?:reset|again|retry|wait)[^\d\n]{0,20}(\d{1,9}(?:\.\d{1,9})?)\s*(ms|s|m|h|d)", re.I)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_STRUCTURE = re.compile(r"^\s*(?:#{1,6} |\d{1,2}[.)] |[-*] )", re.M)


def _any_of(*patterns: str) -> re.Pattern[str]:
    """Any of the patterns at the start of a text; a blank in them is any white space."""
    return re.compile(r"\W*(?:" + "|".join(patterns).replace(" ?", r"\s*").replace(" ", r"\s+") + ")", re.I)


_TALK = "(?:conversation|messages|history|transcript|content|context|text)"
_DUTY = (
    r"(?:\w+ )?(?:summari[sz]e|help|assist|comply|fulfil|continue with th|(?:create|generate|write|provide|produce|give) (?:you )?"
    r"(?:a|the|this|that|any) (?:\w+ )?(?:summar|response|answer|content|conversation))"
)
"""What somebody who refuses says that he cannot do."""
_REFUSED = _any_of(
    r"i(?:['’]?m| am)(?: \w+)? (?:sorry|afraid)\b",
    rf"i(?:['’]?m| am) (?:unable|not able) to {_DUTY}",
    rf"i (?:can ?no[tw]|can['’]?t|won['’]?t|will not) {_DUTY}",
    rf"i (?:do not|don['’]?t) (?:have|see) (?:any|access to|enough|a|the)(?: \w+){{0,2}}? {_TALK}",
    r"sorry\s*[,.:;!–-]\s*(?:i|but|there|we|this|no)\b",
    r"sorry (?:but|for|i)\b",
    r"(?:i (?:must |have to |do )?|my )apolog(?:i[sz]e|ies)\b",
    r"unfortunately,? (?:i (?:can\w*|am|do not|don['’]?t)|there is no)\b",
    r"as an? ai\b",
    rf"there(?: is|['’]s| was| are| were) no(?:t any|thing)? (?:\w+ ){{0,2}}?(?:{_TALK}|summari|to summari)",
    r"(?:no|the) (?:conversation|messages?|transcript|history) (?:(?:was|were|is|are|has been) (?:provided|given|empty|shared)|to summari)",
    rf"(?:please|could you) (?:provide|share|paste|send) (?:me )?(?:the|a|your) {_TALK}",
    "抱歉|对不起|對不起|很遗憾|(?:无法|無法)(?:总结|總結|生成(?:摘要|总结))",
    "我(?:无法|無法|不能|没法)(?:为您|为你|對此|对此)?(?:总结|總結|生成|提供|帮助|協助|协助|完成|继续)",
    "申し訳|すみません|ごめんなさい|要約(?:する|できる)(?:会話|内容)が(?:ありません|ない)|죄송|유감",
    r"(?:es )?tut mir (?:sehr )?leid|leider kann ich|entschuldigung[,.!]",
    r"(?:je suis )?d[ée]sol[ée]e?\b|je ne (?:peux|suis) pas\b",
    "lo siento|no puedo (?:ayudar|resumir|generar|crear|proporcionar|continuar)",
    "(?:me )?desculpe|sinto muito|n[ãa]o posso (?:ajudar|resumir|gerar)|mi dispiace|non posso (?:aiutare|riassumere|generare)",
    "извините|простите|к сожалению,? я|я не могу (?:помочь|создать|составить|обобщить)",
    r"عذر|آسف|أعتذر|क्षमा|मुझे खेद|przepraszam|przykro mi|het spijt me|[üu]zg[üu]n[üu]m|xin l[ỗo]i|maaf[,.\s]",
)
_MACHINE = (
    r"(?:connection|time[dr]?\W?out|overload|rate\W?limit|unavailable|quota|gateway|network|server|api\b|http|status|socket|stream|"
    r"request|response|summar|model|\b[45]\d\d\b|verbindung|zeitüberschreitung|连接|連接|超时|超時|服务|服務|接続|タイムアウト|サーバ|연결|"
    "시간 ?초과|서버|соединени|сервер|тайм-?аут|connexion|serveur|conexi[óo]n|servidor|conex[ãa]o|connessione)"
)
"""Words that an error on the way to a model speaks of."""
_ERRED = _any_of(
    r"(?:(?:api|http|network|server|gateway|stream|connection|request|upstream|provider|llm|model) )+error\b\s*(?:[:(-]|\d|\.?\s*$)",
    rf"(?:(?:an?|the|unknown|unexpected|fatal|internal) ){{0,2}}error\s*(?:[:(-]|occurr?ed\b)[^\n]{{0,80}}?{_MACHINE}",
    r"(?:(?:an?|the|unknown|unexpected) ){0,2}error (?:occurr?ed )?(?:(?:while|when|during) )?"
    r"(?:generat|summari|creating|producing|calling|streaming|fetching|processing your)",
    rf"(?:错误|錯誤|エラー|오류|ошибка|fehler|erreur|errore?|erro)\s*[:：][^\n]{{0,80}}?{_MACHINE}",
    "(?:failed|unable) to (?:generate|create|produce|get|fetch|obtain|write) (?:a |the )?(?:summary|response|completion|answer)",
    "(?:生成|创建)(?:摘要|总结)(?:时)?(?:失败|出错|发生错误)|要約の?(?:生成|作成)(?:に失敗|中にエラー)|요약 ?(?:생성|작성)에? ?실패",
    r"(?:request|connection|stream|response) (?:was |has )?(?:timed out|aborted|closed|reset|refused|failed|cancell?ed|interrupted)"
    r"(?:\s*[.:!]|\s*$| (?:by|before|while|after|unexpectedly|due|with)\b)",
    r"(?:overloaded|too many requests|rate limit(?:ed| (?:exceeded|reached))|service unavailable|bad gateway|gateway time-?out|"
    r"internal server error)\W*(?:$|\n|[.:])",
    r"[45]\d\d (?:too many|internal server|bad (?:gateway|request)|service un|gateway time|not found|unauthori|forbidden|overloaded)",
    r"traceback \(most recent",
    r'type"\s*:\s*"error"|error"\s*:|doctype html|html\b[^<>\n]*>',
)


class Parsed(NamedTuple):
    """A summary, or an empty text and what is wrong with the answer."""

    text: str
    fault: str = ""


def parsed(answer: str) -> Parsed:
    """The summary in an answer, drafts and tags gone."""
    spans = _drafts(answer)
    outside = _without(answer, spans)
    text = _region(outside)
    if text is None and spans:
        text = _region_in_draft(answer) or answer[spans[-1][1] :]
    elif text is None:
        text = _headed(answer)
    text = _TAG.sub("", text).strip()
    fenced = _FENCED.fullmatch(text)
    text = str(fenced[1]).strip() if fenced else text
    if _is_nothing(text):
        return Parsed("", DRAFT_ONLY if spans else EMPTY)
    fault = fault_of(text)
    return Parsed("" if fault else text, fault)


def _is_nothing(text: str) -> bool:
    if len(text) > 40:
        return not any(map(str.isalnum, text))
    said = " ".join(re.findall(r"[^\W_]+", text)).lower()
    return not said or said in _NOTHING


def fault_of(text: str) -> str:
    """What a text is instead of a summary, empty where it may be one. Only short texts without any structure are
    doubted, by how they begin: a summary may well speak of errors and of what could not be done."""
    if len(text) > REFUSAL_CHARS or _STRUCTURE.search(text):
        return ""
    if _REFUSED.match(text):
        return REFUSAL
    return ERROR_TEXT if len(text) <= ERROR_CHARS and _ERRED.match(text) else ""


def judged(answer: str, stop_reason: str, called_tool: bool, said: Iterable[str]) -> Parsed:
    """The summary in an answer that stopped for that reason. ``said``: the assistant's texts in what was to be summarised; one of
    them once more tells that the model has gone on instead of summing up. Beside a tool call only a text counts that is clearly
    a summary (L4)."""
    text, fault = parsed(answer)
    if stop_reason in REFUSED:
        fault = REFUSED_BY_PROVIDER
    elif not fault and text.split() in map(str.split, said):
        fault = NO_SUMMARY
    if called_tool and (fault or not ("<summary" in answer or _STRUCTURE.search(text))):
        fault = TOOL_CALL
    return Parsed("" if fault else text, fault)


def pause_before(repeats: int, refused: Rejection) -> float | None:
    """Seconds after which the same request may be sent again: what the provider says, else twice as long each time; None where
    it will not help, or not soon (L8)."""
    if refused.why != "transient":
        return None
    later = _LATER.search(refused.message)
    told = float(later[1]) * _SECONDS[later[2].lower()] if later else None
    seconds = refused.retry_after if refused.retry_after is not None else told
    seconds = FIRST_PAUSE_SECONDS * 2**repeats if seconds is None else max(0.0, seconds)
    return seconds if seconds <= LONGEST_PAUSE_SECONDS else None


# --- tags


def _drafts(text: str) -> list[tuple[int, int]]:
    """Where drafts stand, their tags included. One never closed goes to the end, one never opened starts where the last ended."""
    spans: list[tuple[int, int]] = []
    depth = start = 0
    for tag in _TAG.finditer(text):
        if tag[2].lower() == "summary":
            continue
        if not tag[1]:
            start = start if depth else tag.start()
            depth += 1
        elif depth > 1:
            depth -= 1
        else:
            spans.append((start if depth else (spans[-1][1] if spans else 0), tag.end()))
            depth = 0
    if depth:
        spans.append((start, len(text)))
    return spans


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    pieces, at = list[str](), 0
    for start, stop in spans:
        pieces.append(text[at:start])
        at = stop
    return "".join([*pieces, text[at:]])


def _region(text: str) -> str | None:
    """What stands between summary tags: of several the longest; None where there are no such tags."""
    return max(tagged(text), key=lambda found: len(found.strip()), default=None)


def tagged(text: str) -> Iterator[str]:
    """What stands between summary tags, pair by pair."""
    depth = start = last = 0
    for tag in _TAG.finditer(text):
        if tag[2].lower() != "summary":
            continue
        if not tag[1]:
            start = start if depth else tag.end()
            depth += 1
        elif depth > 1:
            depth -= 1
        else:
            yield text[start if depth else last : tag.start()]
            depth, last = 0, tag.end()
    if depth:
        yield text[start:]


def _region_in_draft(text: str) -> str:
    """A summary that stands inside a draft, its tags whole, or behind a draft that was never closed, at the start of a line."""
    opens = [tag for tag in _TAG.finditer(text) if tag[2].lower() == "summary"]
    found = ""
    for tag, following in pairwise(opens):
        if not tag[1] and following[1]:
            found = text[tag.end() : following.start()]
    if not found.strip():
        starts = [match.end() for match in _LINE_TAG.finditer(text)]
        found = text[starts[-1] :] if starts else ""
    return _without(found, _drafts(found)) if found.strip() else ""


def _headed(text: str) -> str:
    """An answer without tags; where it begins with a draft under a heading of its own, what stands under the summary's."""
    draft = _DRAFT_HEAD.match(text.lstrip())
    if draft is None:
        return text
    heads = list(_SUMMARY_HEAD.finditer(text))
    return text[heads[-1].end() :] if heads else text


# --- size

_HEADING = re.compile(r"^(?:#{1,6} .*|\*\*[^*\n]+\*\*:?|\d{1,2}[.)] [^\n]{1,60}:)[ \t]*$", re.M)
_LEAST_SECTIONS = 3


def capped(text: str, most: float, estimate: Callable[[str], float]) -> str:
    """A summary of at most so many tokens (L12). Where it has sections the longest are cut, at a line and with a note, so that
    the last ones stay; else its middle goes."""
    if estimate(text) <= most:
        return text
    starts = [match.start() for match in _HEADING.finditer(text)]
    if len(starts) < _LEAST_SECTIONS:
        return _largest(lambda chars: shortened(text, chars), len(text), most, estimate)
    bounds = sorted({0, *starts, len(text)})
    sections = [text[start:stop].strip() for start, stop in pairwise(bounds)]
    longest = max(map(len, sections))
    made = _largest(lambda chars: "\n\n".join(_cut(section, chars) for section in sections if section), longest, most, estimate)
    return made if estimate(made) <= most else _largest(lambda chars: shortened(text, chars), len(text), most, estimate)


def _largest(make: Callable[[int], str], high: int, most: float, estimate: Callable[[str], float]) -> str:
    """The text made with the most characters that is still small enough."""
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if estimate(make(middle)) <= most else (low, middle - 1)
    return make(low)


def _cut(section: str, chars: int) -> str:
    """A section of about so many characters, its heading kept, cut at the end of a line."""
    if len(section) <= chars:
        return section
    lines = section.split("\n")
    kept, size = lines[:1], len(lines[0])
    for line in lines[1:]:
        size += len(line) + 1
        if size > chars:
            break
        kept.append(line)
    left = len(lines) - len(kept)
    return "\n".join([*kept, f"[{left} more lines left out: over the size limit]"]) if left else shortened(section, chars)


def shortened(text: str, chars: int) -> str:
    """The start and the end of a text, about so many characters together, cut at lines or words where that costs little."""
    if len(text) <= chars:
        return text
    head, tail = text[: chars * 2 // 3], text[len(text) - chars // 3 :] if chars >= 3 else ""
    head = _to_gap(head)
    tail = _to_gap(tail[::-1])[::-1]
    left = len(text) - len(head) - len(tail)
    made = "\n".join(filter(None, [head, f"[… {left:,} characters left out …]", tail]))
    return made if len(made) < len(text) else text


def _to_gap(text: str) -> str:
    """A text without the cut word, or the cut line, at its end."""
    most = len(text) // 4
    for gap in ("\n", " "):
        at = text.rfind(gap)
        if at >= 0 and len(text) - at <= most:
            return text[:at].rstrip()
    return text
