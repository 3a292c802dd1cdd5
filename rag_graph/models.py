"""Who writes: a language model at an OpenAI-compatible endpoint, or, without one, quotations from the passages."""

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import tenacity
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, SystemMessage
from langsmith import tracing_context
from pydantic import SecretStr

from rag_graph import condensing, extractive, prompts
from rag_graph.context import Budget, Context, build_context, conversation
from rag_graph.contracts import (
    Material,
    ModelUnavailable,
    OnSentence,
    Passage,
    Question,
    ToolCall,
    Turn,
    Written,
)
from rag_graph.deadline import left
from rag_graph.estimate import Estimates
from rag_graph.record import Asked
from rag_graph.rewrite import CARRY_OVER
from rag_graph.streaming import Telling
from store.text import clean, estimate_tokens, language

if TYPE_CHECKING:
    from rag_graph.tools.registry import Registry

__all__ = ["ROLES", "ExtractiveWriter", "ModelSettings", "ModelWriter", "RoleSettings"]

Role = Literal["draft", "rewrite", "assess", "summarise"]


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """One role's own choice; `model` None is the common one. `tokens` bounds what it may write."""

    temperature: float
    tokens: int
    model: str | None = None


# MISSION B16: .1-.3 to draft, .5-.7 to rewrite; B10: 1,000 tokens of output.
ROLES: Final[Mapping[Role, RoleSettings]] = {
    "draft": RoleSettings(0.2, 1_000),
    "rewrite": RoleSettings(0.6, 200),
    "assess": RoleSettings(0.2, 400),
    "summarise": RoleSettings(0.2, 300),
}


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """An endpoint and how patiently to use it. Times are seconds.

    `silence` is the longest wait for the next piece of a stream, `timeout` for a whole answer; `attempts` counts
    the first. A `Retry-After` longer than `longest_wait` ends the attempts: quotations now beat an answer later. In
    the run of a question all its calls together have the time that `deadline` counts down (`Limits.question_seconds`).
    """

    base_url: str
    api_key: SecretStr
    model: str
    roles: Mapping[Role, RoleSettings] = field(default_factory=lambda: ROLES)
    window: int = 8_000  # tokens, question and answer together
    silence: float = 30.0
    timeout: float = 90.0
    attempts: int = 3
    first_wait: float = 0.5
    longest_wait: float = 8.0
    fallback: str | None = None  # a model at the same endpoint, asked once when the role's own gave up

    def named(self, role: "Role") -> str:
        """The model of `role`."""
        return self.roles[role].model or self.model


class _Failed(Exception):
    """One attempt brought no usable answer. `again` says whether another may; `after` how long to wait first."""

    def __init__(self, reason: str, *, again: bool, after: float | None = None) -> None:
        super().__init__(reason)
        self.again = again
        self.after = after


class Chat:
    """An endpoint, asked for one message at a time, with retries of our own.

    Retried: 429, 5xx, time-outs, broken connections and answers that are no answer; never another 4xx. Everything
    is streamed, so that silence is noticed early. Nothing counts tokens locally: tiktoken would download its
    vocabulary at run time.
    """

    def __init__(self, settings: ModelSettings) -> None:
        # Imported here: 0.8 s of the start-up, which a service without a model does not need to wait for.
        import openai
        from langchain_openai import ChatOpenAI

        self._settings = settings
        self._openai = openai
        self._http = openai.DefaultAsyncHttpxClient()

        def chat(role: Role, model: str) -> ChatOpenAI:
            chosen = settings.roles[role]
            return ChatOpenAI(
                base_url=settings.base_url,
                api_key=settings.api_key,
                model=model,
                temperature=chosen.temperature,
                max_completion_tokens=chosen.tokens,
                timeout=settings.silence,
                stream_chunk_timeout=settings.silence,
                stream_usage=True,
                max_retries=0,
                use_responses_api=False,
                # A developer's own OPENAI_PROXY must not see the handbook.
                openai_proxy=None,
                http_async_client=self._http,
            )

        self._models = {role: chat(role, settings.named(role)) for role in settings.roles}
        self._spare = {role: chat(role, settings.fallback) for role in settings.roles if settings.fallback}

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(
        self,
        role: Role,
        messages: Sequence[BaseMessage],
        tools: Sequence[Mapping[str, Any]] = (),
        telling: Telling | None = None,
    ) -> AIMessageChunk:
        """The model's answer, its sentences told as they come. Raises `ModelUnavailable`.

        What prepares a draft takes at most half of the time that the question has left, and a model with another one
        behind it half of that.
        """
        seconds = left() if role == "draft" else left() / 2
        until = time.monotonic() + seconds
        spare = self._spare.get(role)
        telling = telling or Telling(None)
        try:
            own = seconds / 2 if spare else seconds
            return await self._insist(self._models[role], own, list(messages), tools, telling)
        except _Failed as error:
            if spare is None:
                raise ModelUnavailable(str(error)) from error
            failed = error
        try:
            return await self._once(spare, until, list(messages), tools, telling)
        except _Failed as error:
            raise ModelUnavailable(f"{failed}; {self._settings.fallback}: {error}") from error

    async def _insist(
        self,
        model: Any,
        seconds: float,
        messages: list[BaseMessage],
        tools: Sequence[Mapping[str, Any]],
        telling: Telling,
    ) -> AIMessageChunk:
        """As many attempts as are allowed and begin before `seconds` have passed."""
        retrying = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(self._settings.attempts) | tenacity.stop_before_delay(seconds),
            wait=self._wait,
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, _Failed) and error.again),
            reraise=True,
        )
        return await retrying(self._once, model, time.monotonic() + seconds, messages, tools, telling)

    async def _once(
        self,
        model: Any,
        until: float,
        messages: list[BaseMessage],
        tools: Sequence[Mapping[str, Any]],
        telling: Telling,
    ) -> AIMessageChunk:
        whole: AIMessageChunk | None = None
        seconds = min(self._settings.timeout, until - time.monotonic())
        if seconds <= 0:
            raise _Failed("the question's time is up", again=False)
        telling.attempt()
        try:
            with tracing_context(enabled=False):
                async with (
                    asyncio.timeout(seconds) as limit,
                    aclosing(self._chunks(model, messages, tools)) as chunks,
                ):
                    async for chunk in chunks:
                        # The limit cancels once, and Python 3.11's wait_for, which the SDK waits with, loses a
                        # cancellation that meets a chunk on its way: an endless answer then came in whole.
                        if limit.expired():
                            raise TimeoutError
                        whole = chunk if whole is None else whole + chunk
                        await telling.feed(str(chunk.text))
        except TimeoutError as error:
            raise _Failed(f"no answer within {seconds:.3g} s", again=True) from error
        if whole is None or not (str(whole.text).strip() or whole.tool_call_chunks):
            raise _Failed("an empty answer", again=True)
        await telling.finish()
        return whole

    async def _chunks(
        self, model: Any, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[AIMessageChunk, None]:
        if tools:
            model = model.bind_tools([dict(tool) for tool in tools])
        try:
            async with aclosing(model.astream(messages)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except self._openai.APIStatusError as error:
            again = error.status_code == 429 or error.status_code >= 500
            raise self._failed(f"HTTP {error.status_code}", error.response.headers, again=again) from error
        except self._openai.OpenAIError as error:  # connections, time-outs, an error inside the stream
            raise _Failed(type(error).__name__, again=True) from error
        except (TimeoutError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            # What the SDK and LangChain raise over a body that is not what it should be.
            raise _Failed(f"garbage: {type(error).__name__}", again=True) from error

    def _failed(self, reason: str, headers: Mapping[str, str], *, again: bool) -> _Failed:
        try:
            after = float(headers.get("retry-after", ""))
        except ValueError:
            return _Failed(reason, again=again)
        return _Failed(reason, again=again and after <= self._settings.longest_wait, after=after)

    def _wait(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, _Failed) and error.after is not None:
            return error.after
        backoff = tenacity.wait_exponential_jitter(
            multiplier=self._settings.first_wait,
            max=self._settings.longest_wait,
            jitter=self._settings.first_wait,
        )
        return backoff(state)


class ModelWriter:
    """Satisfies `contracts.Writer` with a language model. Close it with the process."""

    name = "model"

    def __init__(
        self,
        settings: ModelSettings,
        *,
        estimates: Estimates | None = None,
        hear: Callable[[str, Asked], None] | None = None,
    ) -> None:
        """`hear` is told each call with the id of the question it was made for."""
        self._settings = settings
        self._chat = Chat(settings)
        self._hear = hear
        self.estimates = estimates or Estimates()

    async def close(self) -> None:
        await self._chat.close()

    def _budget(self, role: Role) -> Budget:
        return Budget.for_window(self._settings.window, self.estimates.factor(self._settings.named(role)))

    def _count(
        self, question: Question, role: Role, messages: Sequence[BaseMessage], answer: AIMessageChunk
    ) -> None:
        """Learn from the endpoint's count, and tell what was asked."""
        told = tuple({"role": _ROLES[message.type], "content": str(message.content)} for message in messages)
        estimated = sum(estimate_tokens(message["content"]) for message in told)
        counted = answer.usage_metadata["input_tokens"] if answer.usage_metadata else 0
        model = self._settings.named(role)
        self.estimates.learn(model, estimated, counted)
        if self._hear is not None:
            self._hear(question.id, Asked(role, model, told, estimated, counted, question.text))

    async def rewrite(
        self, question: Question, turns: Sequence[Turn], summary: str, strategy: str
    ) -> Written | None:
        """One line to search with; `carry_over` reads the conversation, the other strategies the question."""
        if strategy == CARRY_OVER:
            prompt = prompts.render(
                "rewrite",
                question.language,
                question=question.text,
                summary=summary,
                history=conversation(turns),
            )
        else:
            prompt = prompts.render(strategy, question.language, question=question.text)
        messages = [HumanMessage(prompt)]
        answer = await self._chat.ask("rewrite", messages)
        self._count(question, "rewrite", messages, answer)
        return _written(answer, first_line=True)

    async def assess(self, question: Question, material: Material, tools: "Registry") -> Written:
        """The tool calls it wants; any text beside them is ignored."""
        made = self._context(question, (), "", material, "assess")
        answer = await self._chat.ask("assess", _messages(made), tools.schemas())
        return _written(
            answer, made.report
        )  # not learnt from: its count holds the tools, which are no message

    async def draft(
        self,
        question: Question,
        turns: Sequence[Turn],
        summary: str,
        material: Material,
        on_sentence: OnSentence | None = None,
    ) -> Written:
        """An answer whose marks count `material.passages`, told to `on_sentence` while it is written."""
        made = self._context(question, turns, summary, material, "draft")
        if made.lacking and (shorter := await self._condensed(question, material)) is not None:
            made = self._context(question, turns, summary, shorter, "draft")
        messages = _messages(made)
        telling = Telling(on_sentence, len(material.passages))
        answer = await self._chat.ask("draft", messages, telling=telling)
        self._count(question, "draft", messages, answer)
        return _written(answer, made.report)

    async def _condensed(self, question: Question, material: Material) -> Material | None:
        """`material` with a summary of the section that does not fit; None where the model gives none that helps: what
        was cut by sentences has to do then."""
        messages = [HumanMessage(condensing.request(question, material, self._budget("summarise")))]
        try:
            answer = await self._chat.ask("summarise", messages)
        except ModelUnavailable:
            return None
        self._count(question, "summarise", messages, answer)
        made = condensing.condensed(str(answer.text), material, self._budget("draft"))
        return None if made is None else replace(material, condensed=made)

    async def judge(self, question: str, accepted: tuple[str, ...], answer: str) -> bool:
        """Does `answer` state what one of the accepted answers states? For measuring; anything but RIGHT is wrong."""
        prompt = prompts.render(
            "judge", language(question), question=question, accepted=" | ".join(accepted), answer=answer
        )
        told = await self._chat.ask("assess", [HumanMessage(prompt)])
        return str(told.text).strip().upper().startswith("RIGHT")

    async def summarise(self, summary: str, turns: Sequence[Turn], language: str) -> str:
        prompt = prompts.render("summarise", language, summary=summary, history=conversation(turns))
        answer = await self._chat.ask("summarise", [HumanMessage(prompt)])
        return clean(str(answer.text)).strip()[:SUMMARY_CHARACTERS]

    def _context(
        self, question: Question, turns: Sequence[Turn], summary: str, material: Material, prompt: str
    ) -> Context:
        try:
            budget = self._budget("assess" if prompt == "assess" else "draft")
            return build_context(question, turns, summary, material, budget, prompt)
        except ValueError as error:
            raise ModelUnavailable(str(error)) from error


def _messages(made: Context) -> list[BaseMessage]:
    return [SystemMessage(made.system), HumanMessage(made.user)]


SUMMARY_CHARACTERS: Final = 600
_ROLES: Final[Mapping[str, str]] = {"human": "user", "system": "system", "ai": "assistant"}
_QUOTED: Final = re.compile(r"^>\s*(?P<text>.*?)\s*(?:\[\d+\])*\s*$", re.MULTILINE)


def _written(
    answer: AIMessageChunk, report: Mapping[str, int] | None = None, *, first_line: bool = False
) -> Written:
    text = clean(str(answer.text)).strip()
    if first_line:
        text = text.splitlines()[0].strip("\"'“”「」 ") if text else ""
    tokens = {"estimated": report["total"]} if report else {}
    used = answer.usage_metadata
    if used is not None:
        tokens |= {"prompt": used["input_tokens"], "completion": used["output_tokens"]}
    return Written(text, "model", _tool_calls(answer), tokens)


def _tool_calls(answer: AIMessageChunk) -> tuple[ToolCall, ...]:
    """Calls with their arguments as the model wrote them: LangChain's own parsing completes a broken JSON."""
    return tuple(
        ToolCall(chunk["id"] or f"call_{at}", chunk["name"] or "", _arguments(chunk["args"] or "{}"))
        for at, chunk in enumerate(answer.tool_call_chunks)
    )


def _arguments(raw: str) -> Mapping[str, Any] | str:
    try:
        parsed = json.loads(raw)
    except ValueError:
        return raw
    return parsed if isinstance(parsed, dict) else raw


class ExtractiveWriter:
    """Satisfies `contracts.Writer` without a model: quotations, rewriting by rule, no tools."""

    name = "extractive"

    async def rewrite(
        self, question: Question, turns: Sequence[Turn], summary: str, strategy: str
    ) -> Written | None:
        """None: the rules need the documents' titles, which the node has."""
        return None

    async def assess(self, question: Question, material: Material, tools: "Registry") -> Written:
        return Written("", self.name)

    async def draft(
        self,
        question: Question,
        turns: Sequence[Turn],
        summary: str,
        material: Material,
        on_sentence: OnSentence | None = None,
    ) -> Written:
        """The sentences that answer best, quoted, of those that were not rejected before.

        A reviewer's guidance counts as part of the question; where that finds nothing (the question names a clause,
        the guidance another), the guidance alone is looked for.
        """
        passages = _unquoted(material)
        text = extractive.answer(f"{question.text} {material.guidance}".strip(), passages)
        if not text and material.guidance:
            text = extractive.answer(material.guidance, passages)
        return Written(text, self.name)

    async def summarise(self, summary: str, turns: Sequence[Turn], language: str) -> str:
        return " / ".join(filter(None, [summary, *(turn.question for turn in turns)]))[-SUMMARY_CHARACTERS:]


def _unquoted(material: Material) -> list[Passage]:
    """The passages without what rejected drafts quoted from them."""
    quoted = [
        part
        for text in material.rejected
        for match in _QUOTED.finditer(text)
        for part in match["text"].split(" … ")
    ]
    passages = []
    for passage in material.passages:
        text = passage.text
        for quotation in filter(str.strip, quoted):
            text = text.replace(quotation, "")
        passages.append(replace(passage, text=text))
    return passages
