"""A language model at an OpenAI-compatible endpoint: asked patiently, and no longer than a question may take."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import tenacity
from langchain_core.messages import AIMessageChunk, BaseMessage
from langsmith import tracing_context
from pydantic import SecretStr

from rag_graph.contracts import ModelUnavailable
from rag_graph.deadline import left
from rag_graph.streaming import Telling

__all__ = ["ROLES", "Called", "Chat", "ModelSettings", "Role", "RoleSettings"]

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


@dataclass(frozen=True, slots=True)
class Called:
    """What one message of a model took, retries and the model behind it included: `seconds`, and tokens as the endpoint
    counts them (0 where it does not). `failed` is why none came, "" where one did."""

    role: Role
    seconds: float
    prompt: int = 0
    completion: int = 0
    failed: str = ""


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

    def __init__(self, settings: ModelSettings, told: Callable[[Called], None] | None = None) -> None:
        """`told` hears of every message that was asked for."""
        # Imported here: 0.8 s of the start-up, which a service without a model does not need to wait for.
        import openai
        from langchain_openai import ChatOpenAI

        self._settings = settings
        self._told = told or (lambda call: None)
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
        began = time.monotonic()
        try:
            answer = await self._ask(role, messages, tools, telling)
        except ModelUnavailable as error:
            self._told(Called(role, time.monotonic() - began, failed=str(error)))
            raise
        used = answer.usage_metadata
        counted = (used["input_tokens"], used["output_tokens"]) if used else (0, 0)
        self._told(Called(role, time.monotonic() - began, *counted))
        return answer

    async def _ask(
        self,
        role: Role,
        messages: Sequence[BaseMessage],
        tools: Sequence[Mapping[str, Any]],
        telling: Telling | None,
    ) -> AIMessageChunk:
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
