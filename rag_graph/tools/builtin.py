"""The tools that come with Signoff. All read as the asker: `question.principals` bounds every one."""

from typing import Annotated

from pydantic import Field, StringConstraints

from rag_graph.tools.contract import Arguments, Context, Example, Outcome, Tool
from rag_graph.tools.registry import Registry
from store.passages import Passage
from store.text import sentences

__all__ = ["BUILTIN", "builtin_registry"]

Phrase = Annotated[str, StringConstraints(strip_whitespace=True, min_length=2, max_length=200)]


class SearchArguments(Arguments):
    query: Annotated[
        Phrase,
        Field(
            description="Noun phrases to look for, not the user's sentence: the topic and what is asked "
            "of it, in the language of the documents.",
            examples=["annual leave carry-over deadline", "合同 违约金 比例"],
        ),
    ]
    top_k: Annotated[int, Field(ge=1, le=10, description="How many passages, 1 to 10.", examples=[5])] = 5


class SectionArguments(Arguments):
    passage_id: Annotated[
        int,
        Field(ge=1, description="The id of a passage that search returned.", examples=[412]),
    ]


class NoArguments(Arguments):
    pass


async def search_knowledge_base(arguments: SearchArguments, context: Context) -> Outcome:
    found = await context.deps.retriever.search(
        arguments.query, context.question.principals, top_k=arguments.top_k
    )
    if not found.passages:
        return Outcome(f"Nothing was found for {arguments.query!r}. Try other noun phrases.")
    return Outcome("\n".join(map(_line, found.passages)), found.passages, found.confidence)


async def open_section(arguments: SectionArguments, context: Context) -> Outcome:
    passages = await context.deps.retriever.section(arguments.passage_id, context.question.principals)
    if not passages:
        return Outcome(
            f"There is no passage {arguments.passage_id}. Use an id that search_knowledge_base returned."
        )
    return Outcome("\n\n".join(passage.text for passage in passages), tuple(passages))


async def list_documents(_arguments: NoArguments, context: Context) -> Outcome:
    titles = await context.deps.retriever.titles(context.question.principals)
    return Outcome("\n".join(titles) if titles else "No document can be read here.")


async def today(_arguments: NoArguments, context: Context) -> Outcome:
    day = context.deps.today()
    return Outcome(f"{day.isoformat()}, {day:%A}")


def _line(passage: Passage) -> str:
    first = next(iter(sentences(passage.text)), "")[:160]
    path = " > ".join((passage.title, *passage.heading_path))
    return f"[id {passage.id}] {path}: {first}"


BUILTIN = (
    Tool(
        name="search_knowledge_base",
        group="knowledge",
        purpose="Searches the team's documents once more.",
        use_when="a part of the question is not covered by the passages at hand, or what was found names "
        "something that must be looked up itself (a second hop).",
        examples=(
            Example(
                "Who approves travel to the site where the audit takes place?",
                {"query": "travel approval levels", "top_k": 5},
            ),
            Example("产假和陪产假分别多少天？", {"query": "陪产假 天数", "top_k": 3}),
        ),
        avoid_when="the passages at hand answer the whole question, or the same query was made before.",
        returns="a line for each passage: id, document, heading, first sentence.",
        arguments=SearchArguments,
        run=search_knowledge_base,
    ),
    Tool(
        name="open_section",
        group="knowledge",
        purpose="Reads the whole section that a passage was cut from.",
        use_when="a passage breaks off, a list or table continues, or a condition is named but not stated.",
        examples=(Example("Which steps follow after the third one?", {"passage_id": 412}),),
        avoid_when="the passage is complete for the question; to find another subject, search instead.",
        returns="the section's text in document order.",
        arguments=SectionArguments,
        run=open_section,
    ),
    Tool(
        name="list_documents",
        group="catalogue",
        purpose="Lists the titles of the documents that the asker may read.",
        use_when="the question is about the collection itself.",
        examples=(Example("Which policies do you know?"), Example("知识库里有哪些制度？")),
        avoid_when="the question is about what a document says: search instead.",
        returns="one title a line.",
        arguments=NoArguments,
        run=list_documents,
    ),
    Tool(
        name="today",
        group="calendar",
        purpose="Tells today's date and weekday.",
        use_when="the answer depends on the current date: deadlines, how long until, this or next month.",
        examples=(Example("Can I still hand in March's expenses?"), Example("离年假清零还有几天？")),
        avoid_when="the documents state the date that is asked for.",
        returns="ISO date and weekday.",
        arguments=NoArguments,
        run=today,
    ),
)


def builtin_registry() -> Registry:
    """The built-in tools with their default limits."""
    return Registry(BUILTIN)
