"""Who writes: a language model at an OpenAI-compatible endpoint, or, without one, quotations from the passages."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, SystemMessage

from rag_graph import condensing, extractive, prompts
from rag_graph.chat import ROLES, Called, Chat, ModelSettings, Role, RoleSettings
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
from rag_graph.estimate import Estimates
from rag_graph.record import Asked
from rag_graph.rewrite import CARRY_OVER
from rag_graph.streaming import Telling
from store.text import clean, estimate_tokens, language

if TYPE_CHECKING:
    from rag_graph.tools.registry import Registry

__all__ = ["ROLES", "ExtractiveWriter", "ModelSettings", "ModelWriter", "RoleSettings"]


class ModelWriter:
    """Satisfies `contracts.Writer` with a language model. Close it with the process."""

    name = "model"

    def __init__(
        self,
        settings: ModelSettings,
        *,
        estimates: Estimates | None = None,
        hear: Callable[[str, Asked], None] | None = None,
        told: Callable[[Called], None] | None = None,
        texts: Mapping[str, str] = prompts.SHIPPED,
    ) -> None:
        """`hear` is told each call with the id of the question it was made for, `told` what each one took; `texts` are
        prompts that replace the shipped ones (`prompts.read`)."""
        self._settings = settings
        self._chat = Chat(settings, told)
        self._hear = hear
        self._texts = texts
        self.estimates = estimates or Estimates()

    async def close(self) -> None:
        await self._chat.close()

    def _render(self, name: str, language: str, **values: str) -> str:
        with prompts.replaced(self._texts):
            return prompts.render(name, language, **values)

    def _budget(self, role: Role) -> Budget:
        return Budget.for_window(self._settings.window, self.estimates.factor(self._settings.named(role)))

    def _count(self, question: Question, call: "_Call") -> None:
        """Learn from the endpoint's count, and tell what was asked. A call with tools is not learnt from: its count
        holds their descriptions, which are no message."""
        told = tuple(
            {"role": _ROLES[message.type], "content": str(message.content)} for message in call.messages
        )
        estimated = sum(estimate_tokens(message["content"]) for message in told)
        used = call.answer.usage_metadata
        counted = used["input_tokens"] if used else 0
        model = self._answered(call)
        if call.role != "assess":
            self.estimates.learn(model, estimated, counted)
        if self._hear is not None:
            asked = Asked(
                call.role,
                model,
                told,
                estimated,
                counted,
                question.text,
                {name: tokens for name, tokens in call.parts.items() if name != "limit"},
                call.trimmed,
                used["output_tokens"] if used else estimate_tokens(str(call.answer.text)),
            )
            self._hear(question.id, asked)

    def _answered(self, call: "_Call") -> str:
        """The model that answered: the role's own, or the one asked when it had given up."""
        spare = self._settings.fallback
        named = call.answer.response_metadata.get("model_name")
        return spare if spare and named == spare else self._settings.named(call.role)

    def _parts(self, role: Role, prompt: str, **known: str) -> dict[str, int]:
        """Tokens by part of a prompt in one piece: what is `known` of it, and our own words around that."""
        budget = self._budget(role)
        parts = {name: budget.cost(text) for name, text in known.items()}
        total = budget.cost(prompt)
        return {"system": max(total - sum(parts.values()), 0), **parts, "total": total}

    async def rewrite(
        self, question: Question, turns: Sequence[Turn], summary: str, strategy: str
    ) -> Written | None:
        """One line to search with; `carry_over` reads the conversation, the other strategies the question."""
        if strategy == CARRY_OVER:
            prompt = self._render(
                "rewrite",
                question.language,
                question=question.text,
                summary=summary,
                history=conversation(turns),
            )
        else:
            prompt = self._render(strategy, question.language, question=question.text)
        messages = [HumanMessage(prompt)]
        answer = await self._chat.ask("rewrite", messages)
        told = f"{summary}\n{conversation(turns)}" if strategy == CARRY_OVER else ""
        parts = self._parts("rewrite", prompt, history=told, question=question.text)
        self._count(question, _Call("rewrite", messages, answer, parts))
        return _written(answer, first_line=True)

    async def assess(self, question: Question, material: Material, tools: "Registry") -> Written:
        """The tool calls it wants; any text beside them is ignored."""
        made = self._context(question, (), "", material, "assess")
        schemas = tools.schemas()
        answer = await self._chat.ask("assess", _messages(made), schemas)
        offered = self._budget("assess").cost(json.dumps(schemas, ensure_ascii=False))
        parts = {**made.report, "offered": offered, "total": made.report["total"] + offered}
        self._count(question, _Call("assess", _messages(made), answer, parts, made.trimmed))
        return _written(answer, made.report)

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
        self._count(question, _Call("draft", messages, answer, made.report, made.trimmed))
        return _written(answer, made.report)

    async def _condensed(self, question: Question, material: Material) -> Material | None:
        """`material` with a summary of the section that does not fit; None where the model gives none that helps: what
        was cut by sentences has to do then."""
        with prompts.replaced(self._texts):
            prompt = condensing.request(question, material, self._budget("summarise"))
            frame = prompts.render("condense", question.language, question="", documents="")
        messages = [HumanMessage(prompt)]
        try:
            answer = await self._chat.ask("summarise", messages)
        except ModelUnavailable:
            return None
        budget = self._budget("summarise")
        documents = budget.cost(prompt) - budget.cost(frame) - budget.cost(question.text)
        parts = self._parts("summarise", prompt, question=question.text)
        parts |= {"documents": max(documents, 0), "system": budget.cost(frame)}
        self._count(question, _Call("summarise", messages, answer, parts))
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
        prompt = self._render("summarise", language, summary=summary, history=conversation(turns))
        answer = await self._chat.ask("summarise", [HumanMessage(prompt)])
        return clean(str(answer.text)).strip()[:SUMMARY_CHARACTERS]

    def _context(
        self, question: Question, turns: Sequence[Turn], summary: str, material: Material, prompt: str
    ) -> Context:
        try:
            budget = self._budget("assess" if prompt == "assess" else "draft")
            with prompts.replaced(self._texts):
                return build_context(question, turns, summary, material, budget, prompt)
        except ValueError as error:
            raise ModelUnavailable(str(error)) from error


@dataclass(frozen=True, slots=True)
class _Call:
    """One call that was answered. `parts` are tokens of its prompt by part."""

    role: Role
    messages: Sequence[BaseMessage]
    answer: AIMessageChunk
    parts: Mapping[str, int]
    trimmed: tuple[str, ...] = ()


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
