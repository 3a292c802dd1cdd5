"""Use case: forgetting a person or a thread on request."""

from bot.graphs import Graphs, thread_id
from store import Store
from store.erasure import Erased


class Erasing:
    """What was posted on a chat platform stays there: its own administrators delete it. Everything of ours goes."""

    def __init__(self, store: Store, graphs: Graphs) -> None:
        self._store = store
        self._graphs = graphs

    async def person(self, principal: str) -> Erased:
        """Forget somebody, under all identities that are linked to this one."""
        principals = await self._store.people.principals(principal)
        return await self._forget(await self._store.erasure.person(principals))

    async def thread(self, conversation_id: str) -> Erased:
        """Forget a conversation. Raises `NotFound`."""
        await self._store.conversations.get(conversation_id)
        return await self._forget(await self._store.erasure.thread(conversation_id))

    async def checkpoints(self, conversation_id: str, question_id: str) -> None:
        """Job `forget`: delete the LangGraph thread of a question, under each lock that a run of it may hold: one in
        flight would write its rows again."""
        await self._store.database.delete_checkpoints([thread_id(conversation_id, question_id)])

    async def _forget(self, erased: Erased) -> Erased:
        queue = self._store.queue
        for conversation_id, question_id in erased.questions:
            arguments = {"conversation_id": conversation_id, "question_id": question_id}
            for lock in (conversation_id, f"question:{question_id}"):
                await queue.defer("forget", arguments, lock=lock)
            await queue.defer("remember", {"question_id": question_id}, lock=f"memory:{conversation_id}")
        for review_id in erased.reviews:
            await queue.defer("redraw", {"review_id": review_id}, lock=f"card:{review_id}")
        return erased

    async def finished(self, erased: Erased) -> bool:
        """Whether the jobs that forget LangGraph's threads have all run."""
        return not await self._store.erasure.left(erased)
