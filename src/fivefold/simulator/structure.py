"""The rules that hold between the messages of a request (facts: API sections 1.3, 2 and 3). Each raises Refused with the API's own text."""

from __future__ import annotations

from collections.abc import Iterator

from .asked import ON_DEMAND_BETA, Asked
from .facts import SERVER_USES, BlockFacts, Media, MessageFacts
from .fields import BETA_BLOCKS, BETA_SYSTEM_KEYS
from .refusal import Object, extra_inputs, invalid

MAX_MARKS = 4
LARGE_WINDOW = 1_000_000
_STRUCTURE = "messages: the first message must use the user role, or hold only a compaction block"  # wording of our own: not documented


def check_structure(asked: Asked) -> None:
    """Everything but sizes in tokens and thinking."""
    _check_blocks(asked)
    _check_empty(asked)
    _check_roles(asked)
    _check_pairs(asked)
    _check_server_pairs(asked)
    _check_end(asked)
    _check_marks(asked)
    _check_media(asked)


def _check_blocks(asked: Asked) -> None:
    for n, message in enumerate(asked.messages):
        if message.simple:
            continue
        for m, block in enumerate(message.blocks):
            at = f"messages.{n}.content.{m}"
            betas = BETA_BLOCKS.get(block.kind)
            if betas and not asked.betas & set(betas):
                raise invalid(f"{at}: '{block.kind}' is not one of the expected content block types")
            if asked.new_version and block.kind == "document" and message.role == "assistant":
                raise invalid(f"{at}: `document` blocks are not permitted in `assistant` messages")
            if asked.new_version and block.kind == "text" and message.role == "user" and block.value.get("citations"):
                raise invalid(f"{at}.text.citations: `citations` are not permitted in `user` messages")


def _check_empty(asked: Asked) -> None:
    last = len(asked.messages) - 1
    for n, message in enumerate(asked.messages):
        if not message.blocks and not (n == last and message.role == "assistant"):
            raise invalid(f"messages.{n}: all messages must have non-empty content except for the optional final assistant message")


def _check_roles(asked: Asked) -> None:
    first = asked.messages[0]
    if first.role != "user" and not (first.role == "assistant" and first.blocks and first.blocks[0].kind == "compaction"):
        raise invalid(_STRUCTURE)
    last = len(asked.messages) - 1
    for n, message in enumerate(asked.messages):
        if message.role != "system":
            continue
        if not asked.limits.mid_system:
            raise invalid(f"messages.{n}.role: Input should be 'user' or 'assistant'")
        for key, beta in BETA_SYSTEM_KEYS.items():
            if key in message.value and beta not in asked.betas:
                raise extra_inputs(f"messages.{n}.{key}")
        before = asked.messages[n - 1]
        follows = before.role == "user" or (
            before.role == "assistant" and before.blocks and before.blocks[-1].kind.endswith("_tool_result")
        )
        if not follows or (n < last and asked.messages[n + 1].role != "assistant"):
            raise invalid(
                f"messages.{n}: a `system` message must follow a user turn, or an assistant turn that ends in a server tool result, "
                "and must be last or be followed by an assistant turn"
            )


def _check_pairs(asked: Asked) -> None:
    known: set[str] = set()
    before: tuple[str, ...] = ()
    for n, message in enumerate(asked.messages):
        answered = message.results[: message.leading] if message.role == "user" else ()
        if message.role == "system" and before:
            answered = ()
        missing = [use for use in before if use not in answered]
        if missing:
            raise _unanswered(n - 1, missing)
        if message.results:
            _check_results(n, message, before)
        if message.uses:
            _check_unique(n, message, known)
        before = message.uses
    if before and asked.on_demand is not None:
        raise invalid("messages: the last assistant turn has `tool_use` blocks without results", "compaction_incomplete_turn")
    if before:
        raise _unanswered(len(asked.messages) - 1, list(before))


def _unanswered(n: int, ids: list[str]) -> Exception:
    return invalid(
        f"messages.{n}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(ids)}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _check_results(n: int, message: MessageFacts, uses: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for m, block in enumerate(message.blocks):
        if block.kind != "tool_result":
            continue
        if block.use_id not in uses:
            raise invalid(
                f"messages.{n}.content.{m}: unexpected `tool_use_id` found in `tool_result` blocks: {block.use_id}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if block.use_id in seen:
            raise invalid(
                f"messages.{n}.content.{m}: each tool_use must have a single result. "
                f"Found multiple `tool_result` blocks with id: {block.use_id}"
            )
        seen.add(block.use_id)


def _check_unique(n: int, message: MessageFacts, known: set[str]) -> None:
    for m, block in enumerate(message.blocks):
        if block.kind == "tool_use":
            if block.use_id in known:
                raise invalid(f"messages.{n}.content.{m}: `tool_use` ids must be unique")
            known.add(block.use_id)


def _check_server_pairs(asked: Asked) -> None:
    last = len(asked.messages) - 1
    for n, message in enumerate(asked.messages):
        if message.simple or message.role != "assistant":
            continue
        open_uses: dict[str, BlockFacts] = {}
        for m, block in enumerate(message.blocks):
            if block.kind in SERVER_USES:
                open_uses[block.use_id] = block
            elif block.kind.endswith("tool_result") and open_uses.pop(block.use_id, None) is None:
                raise invalid(
                    f"messages.{n}.content.{m}: unexpected `tool_use_id` found in `{block.kind}` blocks: {block.use_id}. "
                    f"Each `{block.kind}` block must have a corresponding `server_tool_use` block before it."
                )
        for block in open_uses.values():
            _check_deferred(asked, n, last, block, bool(message.uses))


def _check_deferred(asked: Asked, n: int, last: int, block: BlockFacts, mixed: bool) -> None:
    """A server tool that has not run yet: legal at the end, where the turn goes on, and before the results of a mixed turn."""
    name = block.value.get("name")
    following = asked.messages[n + 1] if n < last else None
    waits = n == last or (mixed and n + 1 == last and following is not None and following.leading == len(following.blocks))
    if not waits:
        raise invalid(f"`{name}` tool use with id `{block.use_id}` was found without a corresponding `{name}_tool_result` block")
    if not any(tool.value.get("name") == name for tool in asked.tools):
        raise invalid(f"`{name}` tool use with id `{block.use_id}` was found, but no `{name}` tool was provided")


def _check_end(asked: Asked) -> None:
    last = asked.messages[-1]
    if last.role != "assistant" or asked.on_demand is not None:
        return
    if any(block.kind in (*SERVER_USES, "compaction") or block.kind.endswith("_tool_result") for block in last.blocks[-1:]):
        return  # a paused turn goes on
    if not asked.limits.model.prefill:
        raise invalid("This model does not support assistant message prefill. The conversation must end with a user message.")
    text = str(last.blocks[-1].value.get("text", "")) if last.blocks else ""
    if text != text.rstrip():
        raise invalid("messages: final assistant content cannot end with trailing whitespace")


def _check_marks(asked: Asked) -> None:
    marks = [(at, block) for at, block in _marked(asked)]
    automatic = asked.body.get("cache_control")
    found = sum(block.marks for _, block in marks)
    lives = [block.mark for _, block in marks]
    if isinstance(automatic, dict) and asked.messages:
        wanted = automatic.get("ttl") or "5m"
        end = asked.messages[-1].blocks[-1:]
        own = end[0].mark if end else None
        if own is None:
            found += 1
            lives.append(wanted)
        elif own != wanted:
            raise invalid("cache_control: the last block already has a cache_control with a different ttl")
    if found > MAX_MARKS:
        raise invalid(f"A maximum of 4 blocks with cache_control may be provided. Found {found}.")
    if "5m" in lives and "1h" in lives[lives.index("5m") :]:
        at = next((at for at, block in marks[lives.index("5m") :] if block.mark == "1h"), "")
        raise invalid(
            f"{at + '.' if at else ''}cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' "
            "cache_control block. Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        )


def _marked(asked: Asked) -> Iterator[tuple[str, BlockFacts]]:
    """The blocks with cache marks, in the order of the cache."""
    for name, part in (("tools", asked.tools), ("system", asked.system)):
        yield from ((f"{name}.{i}", block) for i, block in enumerate(part) if block.marks)
    for n, message in enumerate(asked.messages):
        for m, block in enumerate(message.blocks if message.marked else ()):
            if block.marks:
                yield f"messages.{n}.content.{m}", block


def _check_media(asked: Asked) -> None:
    media = [(n, item) for n, message in enumerate(asked.messages) for item in message.media]
    if not media:
        return
    limits = asked.limits.media
    images = [(n, item) for n, item in media if item.kind == "image"]
    pages = sum(item.pages for _, item in media)
    cap = 600 if asked.limits.model.window >= LARGE_WINDOW else 100
    if pages > cap:
        raise invalid(f"A maximum of {cap} PDF pages may be provided.")
    if len(images) + pages > limits.max_items:
        raise invalid(f"messages: Too much media: {pages} document pages + {len(images)} images > {limits.max_items}")
    for n, item in images:
        if item.source == "base64" and item.chars > limits.max_image_bytes:
            megabytes = limits.max_image_bytes // 1_000_000
            most = megabytes << 20
            if item.chars > most:
                raise invalid(
                    f"messages.{n}{item.place}.image.source.base64: image exceeds {megabytes} MB maximum: {item.chars} bytes > {most} bytes"
                )
    many = len(images) >= limits.many_items
    _check_sides(images, limits.many_side if many else limits.max_side, many)


def _check_sides(images: list[tuple[int, Media]], side: int, many: bool) -> None:
    wrong = [f"messages.{n}{item.place}" for n, item in images if max(item.width, item.height) > side]
    if wrong:
        details: Object = {"max_side_length_pixels": side, "paths": wrong}
        what = "max allowed size for many-image requests" if many else "max allowed size"
        raise invalid(
            f"{wrong[0]}.image.source.base64.data: At least one of the image dimensions exceed {what}: {side} pixels",
            "image_dimensions_too_large",
            **details,
        )


def check_countable(asked: Asked) -> None:
    """What count_tokens does not take beside (facts: API section 5)."""
    for i, tool in enumerate(asked.tools):
        kind = str(tool.value.get("type", "custom"))
        if kind.startswith(("web_search", "web_fetch", "code_execution", "tool_search", "mcp")):
            raise invalid(f"tools.{i}: `{kind}` is not supported by count_tokens")
    if asked.body.get("mcp_servers"):
        raise invalid("mcp_servers: not supported by count_tokens")
    for n, message in enumerate(asked.messages):
        for item in message.media:
            if item.source in ("url", "file"):
                raise invalid(f"messages.{n}{item.place}.{item.kind}.source: `{item.source}` sources are not supported by count_tokens")


def check_compaction_blocks(asked: Asked) -> tuple[int, int] | None:
    """Where the last compaction block stands (message, block), after the rules of signed blocks; None where there is none."""
    found = [
        (n, m)
        for n, message in enumerate(asked.messages)
        if not message.simple
        for m, block in enumerate(message.blocks)
        if block.kind == "compaction" and block.value.get("content") is not None
    ]
    signed = [(n, m) for n, m in found if asked.messages[n].blocks[m].value.get("signature") is not None]
    if not signed:
        return found[-1] if found else None
    if ON_DEMAND_BETA not in asked.betas:
        n, m = signed[0]
        raise invalid(f"messages.{n}.content.{m}: 'compaction' is not one of the expected content block types")
    if len(found) > 1:
        raise invalid("messages: only one compaction block may be provided", "compaction_block_ambiguous")
    if signed[0] != (0, 0):
        n, m = signed[0]
        raise invalid(f"messages.{n}.content.{m}: a compaction block must come first in `messages`", "compaction_block_misplaced")
    if any(edit.get("type") == "compact_20260112" for edit in asked.edits):
        raise invalid("context_management: compact_20260112 cannot be combined with a signed compaction block")
    return signed[0]
