"""What crosses the decision side's boundary: frozen facts, and the protocols it needs from outside."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

from store.passages import Passage, SearchResult

if TYPE_CHECKING:
    from rag_graph.policy import Rules
    from rag_graph.ramp import Ramp, Standing
    from rag_graph.tools.registry import Registry

__all__ = [
    "Citation",
    "Condensed",
    "Decision",
    "Deps",
    "Draft",
    "Known",
    "Limits",
    "Material",
    "ModelUnavailable",
    "OnSentence",
    "Passage",
    "Question",
    "Retriever",
    "RunLost",
    "SearchResult",
    "Sentence",
    "Shelf",
    "Support",
    "ToolCall",
    "Turn",
    "Writer",
    "Written",
]

Support = Literal["supported", "weak", "unsupported", "unchecked"]
OnSentence = Callable[[str], Awaitable[None]]  # one finished, neutralised sentence of a draft being written


class ModelUnavailable(Exception):
    """The language model did not give a usable answer. Check SIGNOFF_LLM_BASE_URL and the endpoint's status;
    until it answers, drafts are quotations."""


class RunLost(Exception):
    """A resumed question ended neither in an answer nor in a new pause.

    Its checkpoint was probably written by a version whose node names differ: ask the question again."""


@dataclass(frozen=True, slots=True)
class Question:
    """One message to be answered. `principals` is who will read the answer, and so what may be searched."""

    id: str
    conversation_id: str
    text: str
    language: str  # zh | en
    asker: str
    principals: tuple[str, ...]
    channel: str = ""
    private: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """One remembered exchange. `status` is "answered", "declined" or "in review" (then `answer` is empty)."""

    question_id: str
    question: str
    answer: str
    status: str = "answered"


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a numbered mark in the answer points. Numbers start at 1 and have no gaps."""

    number: int
    passage_id: int
    document_id: int
    version: int
    title: str
    heading_path: tuple[str, ...]
    page: int | None
    source: str
    updated_at: str  # ISO 8601
    content_hash: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a draft, the citation numbers it carries, and how well those passages support it."""

    text: str
    citations: tuple[int, ...]
    support: Support


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer before anyone let it go.

    `kind`: "model" (written), "extractive" (quotations, marked so), "declined" (I do not know), "clarify" (a
    question back), "smalltalk". `audience` is the intersection of its sources' audiences.
    """

    text: str  # Markdown, citations as [1] [2]
    kind: str
    citations: tuple[Citation, ...] = ()
    sentences: tuple[Sentence, ...] = ()
    confidence: float = 0.0
    calibrated: bool = False
    audience: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    round: int = 1

    @property
    def version_hash(self) -> str:
        """Hex sha256 over text and cited passages; a decision is bound to it (invariant 4)."""
        facts = [self.text, self.round, [[c.number, c.passage_id, c.content_hash] for c in self.citations]]
        return hashlib.sha256(json.dumps(facts, ensure_ascii=False).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self), ensure_ascii=False))  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Draft":
        values = dict(data)
        values["citations"] = tuple(
            Citation(**{**c, "heading_path": tuple(c["heading_path"])}) for c in values.get("citations", ())
        )
        values["sentences"] = tuple(
            Sentence(**{**s, "citations": tuple(s["citations"])}) for s in values.get("sentences", ())
        )
        for name in ("audience", "collections", "labels"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a reviewer decided. `question` and `hint` belong to a rejection, `text` to an edit.

    `action` is approve, edit, reject, or expire (the hard time limit; made by nobody).
    """

    action: Literal["approve", "edit", "reject", "expire"]
    by: str
    text: str = ""
    reason: str = ""
    hint: str = ""
    question: str = ""

    def to_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool the model asked for: its name, its arguments (the raw text where they are no JSON object), and
    the id the result answers to."""

    id: str
    name: str
    arguments: Mapping[str, Any] | str


@dataclass(frozen=True, slots=True)
class Condensed:
    """A section in a model's words, shorter; its marks are the `numbers` of the passages that it is made of."""

    numbers: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Material:
    """What a writer may use for one draft: passages in reading order, what tools answered, and what a
    reviewer asked for. Numbers in the draft count `passages` from 1."""

    passages: tuple[Passage, ...] = ()
    results: tuple[Mapping[str, Any], ...] = ()  # rows of QuestionState.tool_results
    guidance: str = ""
    rejected: tuple[str, ...] = ()  # texts of earlier drafts that a reviewer sent back
    redo: bool = False  # the model's own draft pointed nowhere, or said what the passages do not
    condensed: Condensed | None = None  # in the place of its passages, which were too long together


@dataclass(frozen=True, slots=True)
class Written:
    """What a writer produced. `tokens` holds "prompt" and "completion" where the endpoint counts them."""

    text: str
    kind: str  # model | extractive
    tool_calls: tuple[ToolCall, ...] = ()
    tokens: Mapping[str, int] = field(default_factory=dict)
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers an operator may set in signoff.toml; the defaults are MISSION's."""

    candidates: int = 10
    kept: int = 3
    retry_below: float = 0.6
    abstain_below: float = 0.6
    # Of a model that was never calibrated, and of keywords alone, the confidence is the share of the question's
    # words that were found: 年假可以休多少天？ scores .09 on the passage that answers it, chance about .02 to .05.
    uncalibrated_below: float = 0.06
    iterations: int = 2
    hard_iterations: int = 3
    review_rounds: int = 3
    context_tokens: int = 8_000
    history_turns: int = 5
    verbatim_turns: int = 3
    # From the start of a run to its next pause or its end; then the draft is quotations.
    question_seconds: float = 60.0


class Retriever(Protocol):
    """Query in, passages out. Every method filters by `principals` inside the SQL."""

    async def search(
        self,
        query: str,
        principals: Collection[str],
        *,
        top_k: int = 10,
        exclude: Collection[int] = (),
        collections: Collection[str] = (),
    ) -> SearchResult: ...

    async def passages(self, ids: Sequence[int], principals: Collection[str]) -> list[Passage]:
        """Those of `ids` that are still current and readable, in the order asked; the others are left out."""
        ...

    async def section(self, passage_id: int, principals: Collection[str]) -> list[Passage]:
        """All chunks that share the passage's heading, in document order."""
        ...

    async def titles(self, principals: Collection[str]) -> list[str]:
        """Titles of readable documents, for `list_documents` and for carrying a topic over."""
        ...


@dataclass(frozen=True, slots=True)
class Known:
    """A signed-off answer that comes near a question. `sure` is the calibrated likeness of the questions in [0, 1],
    None without one; `answer` is `Draft.to_json()`; `how`: approved or edited; `at`: ISO 8601."""

    id: int
    question: str
    answer: Mapping[str, Any]
    by: str
    at: str
    how: str
    sure: float | None


class Shelf(Protocol):
    """The signed-off answers in service. Both methods filter by `principals` inside the SQL."""

    async def near(self, question: str, principals: Collection[str]) -> Sequence[Known]:
        """Those nearest to `question`, nearest first."""
        ...

    async def standing(self, known_id: int, principals: Collection[str]) -> Mapping[str, int]:
        """Content hash → passage id of now, for every source that is unchanged and readable; empty out of service."""
        ...


class Writer(Protocol):
    """Writes drafts and rewrites: a language model, or the extractive path where none is configured.

    Every method may raise `ModelUnavailable`; the nodes then go on without a model.
    """

    name: str

    async def rewrite(
        self, question: Question, turns: Sequence[Turn], summary: str, strategy: str
    ) -> Written | None:
        """A standalone search question by `strategy`, or None where this writer cannot."""
        ...

    async def assess(self, question: Question, material: Material, tools: "Registry") -> Written:
        """Tool calls that the model wants before drafting; no calls means enough is known."""
        ...

    async def draft(
        self,
        question: Question,
        turns: Sequence[Turn],
        summary: str,
        material: Material,
        on_sentence: OnSentence | None = None,
    ) -> Written:
        """Answer `question` from `material`, citing passages as [1] [2]."""
        ...

    async def summarise(self, summary: str, turns: Sequence[Turn], language: str) -> str:
        """`summary` and the older `turns` in a sentence or two."""
        ...


@dataclass(frozen=True)
class Deps:
    """What the nodes may reach. Passed as LangGraph's runtime context on every call, never stored."""

    retriever: Retriever
    writer: Writer
    rules: "Rules"
    limits: Limits
    tools: "Registry"
    shelf: Shelf | None = None  # signed-off answers; None where they are not to be used again
    # Where topics stand on the trust ramp (rag_graph/ramp.py); None where it is off.
    trust: Callable[[Sequence[str]], Awaitable[Sequence["Standing"]]] | None = None
    ramp: "Ramp | None" = None
    contact: str = ""  # whom to ask when the knowledge base has no answer
    # Cosines of a question with texts, by the embedding model; None without one. For choosing among many tools.
    nearness: Callable[[str, Sequence[str]], Awaitable[Sequence[float] | None]] | None = None
    today: Callable[[], date] = lambda: datetime.now().astimezone().date()
    on_sentence: Callable[[str, str], Awaitable[None]] | None = None  # (question id, sentence) while drafting
