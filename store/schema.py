"""The tables, and the only place where column names are declared.

LangGraph's checkpoint tables and procrastinate's queue tables live beside these in the same database; their own
packages create them (see `store.database.migrate`). Migrations are append-only and a test compares the catalogue
they arrive at with `metadata.create_all`.
"""

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    event,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TSVECTOR
from sqlalchemy.types import UserDefinedType

# The head of store/migrations; serving processes compare it with the database without loading alembic.
REVISION = "0006"

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class HalfVec(UserDefinedType[str]):
    """pgvector's `halfvec` without a dimension: each space has its own, fixed by its partial index.

    Values travel as the literal '[0.1,0.2]'. Half precision costs no recall and 43 % less index than `vector`
    (100k x 384: 112 MB against 195 MB, recall@10 .998 both at ef_search 100).
    """

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "halfvec"


def _moment(name: str, *, default: bool = False, nullable: bool = True) -> Column[object]:
    if default:
        return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now())
    return Column(name, DateTime(timezone=True), nullable=nullable)


# --- what is known ---------------------------------------------------------------------------------------------

spaces = Table(
    "spaces",
    metadata,
    Column("id", SmallInteger, Identity(), primary_key=True),
    Column("model", Text, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("query_prefix", Text, nullable=False, server_default=""),
    Column("passage_prefix", Text, nullable=False, server_default=""),
    Column("max_tokens", Integer, nullable=False),
    # The logistic model that turns search features into a confidence; null means uncalibrated, and is said so.
    Column("calibration", JSONB),
    Column("state", Text, nullable=False, server_default="building"),
    _moment("created_at", default=True),
    UniqueConstraint("model", "dimension"),
    CheckConstraint("state in ('building', 'active', 'retired')", name="state"),
)
Index("ix_spaces_one_active", spaces.c.state, unique=True, postgresql_where=text("state = 'active'"))

collections = Table(
    "collections",
    metadata,
    Column("name", Text, primary_key=True),
    Column("audience", ARRAY(Text), nullable=False, server_default="{everyone}"),
    Column("profile", Text),  # structured | messages | faq; null: guessed per document
    _moment("created_at", default=True),
)

documents = Table(
    "documents",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("collection", Text, ForeignKey("collections.name"), nullable=False),
    Column("source", Text, nullable=False),  # path or URL as given; names the document within its collection
    Column("title", Text, nullable=False),
    Column("language", Text, nullable=False, server_default=""),
    # The audience in force: the document's own, or its collection's. Search filters on it, so that a change needs
    # one row and no re-embedding.
    Column("audience", ARRAY(Text), nullable=False),
    # Whether it follows its collection's audience. A flag, because equal values would not tell: a document set to
    # {hr} by hand must not open up when its collection {hr} does.
    Column("inherits_audience", Boolean, nullable=False, server_default=text("true")),
    Column("labels", ARRAY(Text), nullable=False, server_default="{}"),
    # What readers see. A new version becomes visible by changing this one value.
    Column("current_version_id", BigInteger),
    _moment("created_at", default=True),
    _moment("updated_at", default=True),
    UniqueConstraint("collection", "source"),
)
Index("ix_documents_audience", documents.c.audience, postgresql_using="gin")
Index("ix_documents_current_version_id", documents.c.current_version_id, unique=True)

versions = Table(
    "versions",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("document_id", BigInteger, ForeignKey("documents.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", Text, nullable=False, server_default="pending"),
    Column("media_type", Text, nullable=False, server_default=""),
    Column("content_hash", Text, nullable=False),  # sha256 of the bytes
    Column("markdown", Text),  # the converted text with its page anchors; previews and open_section read it
    Column("pages", Integer),
    Column("chunk_count", Integer, nullable=False, server_default="0"),
    Column("progress", JSONB, nullable=False, server_default="{}"),  # {"step": …, "done": n, "of": m}
    Column("error_code", Text),
    Column("error_detail", Text),
    Column("uploaded_by", Text, nullable=False, server_default=""),
    # The audience asked for with this upload, in force when it is published: a wider one must not show the version
    # before it to more people.
    Column("audience", ARRAY(Text)),
    _moment("created_at", default=True),
    _moment("published_at"),
    Column(
        "title", Text, nullable=False, server_default=""
    ),  # what the document is called while this is current
    # Chunks against the version before it: {"added": n, "removed": n, "unchanged": n}.
    Column("changes", JSONB, nullable=False, server_default="{}"),
    UniqueConstraint("document_id", "number"),
    CheckConstraint(
        "state in ('pending', 'converting', 'embedding', 'live', 'retired', 'failed')", name="state"
    ),
)

# The bytes as they were handed in, from upload to conversion and on while their version is visible (a later
# converter starts from them); deleted with a version that retires.
uploads = Table(
    "uploads",
    metadata,
    Column("version_id", BigInteger, ForeignKey("versions.id", ondelete="CASCADE"), primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

# Documents that are pages on the web: what the server said by which it can tell whether they changed.
pages = Table(
    "pages",
    metadata,
    Column("document_id", BigInteger, ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    Column("etag", Text, nullable=False, server_default=""),
    Column("last_modified", Text, nullable=False, server_default=""),
    Column("error_code", Text),  # why the last look at it failed; null: it did not
    Column("error_detail", Text),
    _moment("looked_at", default=True),
)
Index("ix_pages_looked_at", pages.c.looked_at)

chunks = Table(
    "chunks",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("version_id", BigInteger, ForeignKey("versions.id", ondelete="CASCADE"), nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("heading_path", ARRAY(Text), nullable=False, server_default="{}"),
    Column("page", Integer),
    Column("text", Text, nullable=False),
    Column(
        "content_hash", Text, nullable=False
    ),  # sha256 of title, heading path and text: unchanged chunks keep vectors
    Column("tokens", TSVECTOR, nullable=False),
    Column("length", Integer, nullable=False),  # tokens, for BM25's length normalisation
    UniqueConstraint("version_id", "ordinal"),
    # A row stays whole up to a page. Compressed or moved out, tokens are unpacked once a term and row: 15 ms of
    # processor a keyword search over 4,908 chunks, against 2.7 ms.
    postgresql_with={"toast_tuple_target": 8160},
)
Index("ix_chunks_tokens", chunks.c.tokens, postgresql_using="gin")

embeddings = Table(
    "embeddings",
    metadata,
    # The chunk leads the key: deleting a chunk looks its vectors up by it.
    Column("chunk_id", BigInteger, ForeignKey("chunks.id", ondelete="CASCADE"), primary_key=True),
    Column("space_id", SmallInteger, ForeignKey("spaces.id", ondelete="CASCADE"), primary_key=True),
    Column("version_id", BigInteger, nullable=False),
    Column("vector", HalfVec, nullable=False),
    # Of the chunk's document: each language has a vector index of its own in every space (store/spaces.py).
    Column("language", Text, nullable=False, server_default=""),
)
Index("ix_embeddings_version_id", embeddings.c.version_id)

# Document frequencies of the visible chunks, refreshed after ingestion (ts_stat over 100k chunks: 2.5 s).
lexemes = Table(
    "lexemes",
    metadata,
    Column("lexeme", Text, primary_key=True),
    Column("documents", Integer, nullable=False),
)
corpus = Table(
    "corpus",
    metadata,
    Column("only", Boolean, primary_key=True, server_default=text("true")),
    Column("chunks", Integer, nullable=False, server_default="0"),
    Column("average_length", Double, nullable=False, server_default="0"),
    # Grows with every visible change of the corpus; caches and reproducibility checks key on it.
    Column("version", BigInteger, nullable=False, server_default="0"),
    # Digest of the user dictionary that the chunks' tokens were cut with.
    Column("dictionary", Text, nullable=False, server_default=""),
    CheckConstraint('"only"', name="one_row"),
)

# --- who asks ---------------------------------------------------------------------------------------------------

inbox = Table(
    "inbox",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("platform", Text, nullable=False),
    # The platform's identity of the thing itself (Slack: team:channel:ts, never event_id: a mention arrives twice).
    Column("dedupe_key", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False, server_default=""),  # the question or review it became
    _moment("received_at", default=True),
    UniqueConstraint("platform", "dedupe_key"),
)
Index("ix_inbox_received_at", inbox.c.received_at)

# Payloads of platforms that are acknowledged before anybody has looked at them; null once they were dealt with.
arrivals = Table(
    "arrivals",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("platform", Text, nullable=False),
    Column("dedupe_key", Text, nullable=False),
    Column("payload", JSONB(none_as_null=True)),
    _moment("received_at", default=True),
    UniqueConstraint("platform", "dedupe_key"),
)
Index("ix_arrivals_received_at", arrivals.c.received_at)

# What a platform keeps about a person for a while: files handed in before their command, a new session.
kept = Table(
    "kept",
    metadata,
    Column("person", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("data", JSONB, nullable=False),
    _moment("kept_at", default=True),
)

conversations = Table(
    "conversations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("platform", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("thread", Text, nullable=False, server_default=""),
    Column(
        "private", Boolean, nullable=False, server_default=text("false")
    ),  # a DM or a terminal: the asker alone reads
    Column("title", Text, nullable=False, server_default=""),
    _moment("created_at", default=True),
    _moment("active_at", default=True),
)
Index("ix_conversations_platform_channel", conversations.c.platform, conversations.c.channel)

questions = Table(
    "questions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("sequence", BigInteger, Identity(), nullable=False, unique=True),  # the order of asking
    Column("conversation_id", Text, ForeignKey("conversations.id", ondelete="CASCADE"), nullable=False),
    Column("asker", Text, nullable=False),  # principal: web:ada, slack:U…
    Column("text", Text, nullable=False),
    Column("language", Text, nullable=False),
    Column("state", Text, nullable=False, server_default="received"),
    Column(
        "address", JSONB, nullable=False, server_default="{}"
    ),  # where the platform replies; only its house reads it
    Column("answer", JSONB),  # what readers were shown: {"text", "citations", …}
    Column("remembered", Boolean, nullable=False, server_default=text("false")),
    _moment("asked_at", default=True),
    _moment("finished_at"),
    # The wording that an edit after the answer left, until somebody asks for it; null where there is none.
    Column("edited", Text),
    CheckConstraint(
        "state in ('received', 'answering', 'held', 'answered', 'declined', 'withdrawn', 'superseded', 'failed',"
        " 'refused')",
        name="state",
    ),
)
Index("ix_questions_conversation_id_sequence", questions.c.conversation_id, questions.c.sequence)
# What was answered lately, to be corrected where a source has changed since.
Index("ix_questions_finished_at", questions.c.finished_at)
# Those that nobody has begun with: counted at the door, which is closed when there are too many.
Index("ix_questions_received", questions.c.sequence, postgresql_where=text("state = 'received'"))

# How much a person or a channel has asked lately, as one moment each: when its allowance will be whole again.
rates = Table(
    "rates",
    metadata,
    Column("key", Text, primary_key=True),  # person:<principal>, channel:<platform>:<channel>
    _moment("whole_at", nullable=False),
)

people = Table(
    "people",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    _moment("created_at", default=True),
)

# A principal belongs to one person. Two with the same verified e-mail address are one person's; of the address only
# its sha256 is kept.
identities = Table(
    "identities",
    metadata,
    Column("principal", Text, primary_key=True),
    Column("person_id", BigInteger, ForeignKey("people.id", ondelete="CASCADE"), nullable=False),
    Column("email_hash", Text),
    Column("linked_by", Text, nullable=False),  # "email", or the admin's principal
    _moment("linked_at", default=True),
)
Index("ix_identities_person_id", identities.c.person_id)
Index("ix_identities_email_hash", identities.c.email_hash)

runs = Table(
    "runs",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("question_id", Text, ForeignKey("questions.id", ondelete="CASCADE"), nullable=False),
    Column("rewritten_question", Text, nullable=False, server_default=""),
    Column("retrieved", ARRAY(BigInteger), nullable=False, server_default="{}"),
    Column("cited", ARRAY(BigInteger), nullable=False, server_default="{}"),
    Column("confidence", Double),
    Column("outcome", Text, nullable=False),  # answered | declined | held | clarified | failed
    Column("rule", Text, nullable=False, server_default=""),  # the review rule that decided
    Column("degraded", ARRAY(Text), nullable=False, server_default="{}"),
    Column("tools", JSONB, nullable=False, server_default="[]"),
    Column(
        "tokens", JSONB, nullable=False, server_default="{}"
    ),  # {"prompt": n, "completion": n, "estimated": n}
    Column("timings", JSONB, nullable=False, server_default="{}"),  # milliseconds by step
    _moment("created_at", default=True),
    # [{"role", "model", "estimated", "counted", "messages"?}] by call; messages as the text setting allows
    Column("prompts", JSONB, nullable=False, server_default="[]"),
    Column("variant", Text, nullable=False, server_default=""),  # "": the settings themselves
    # [{"id", "score", "vector", "keyword", "document"}] by passage as in `retrieved`: its score, its rank in each leg
    Column("scores", JSONB, nullable=False, server_default="[]"),
    Column("cost", Double),  # in the currency of [model.prices]; null without a price
    Column("error", Text, nullable=False, server_default=""),  # the kind of what failed, never its text
)
Index("ix_runs_question_id", runs.c.question_id)
Index("ix_runs_created_at", runs.c.created_at)

canaries = Table(
    "canaries",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("variant", Text, nullable=False),
    Column("state", Text, nullable=False, server_default="running"),
    Column("percent", Integer, nullable=False),
    Column("channels", ARRAY(Text), nullable=False, server_default="{}"),  # only these; none: by hash
    Column("started_by", Text, nullable=False),
    Column(
        "reason", Text, nullable=False, server_default=""
    ),  # why it ended: the guardrail's name, or who said so
    # [{"at", "percent", "by", "what"}], oldest first; only ever appended to
    Column("steps", JSONB, nullable=False, server_default="[]"),
    _moment("started_at", default=True),
    _moment("step_at", default=True),  # when its present percentage began
    _moment("ended_at"),
    CheckConstraint("state in ('running', 'promoted', 'rolled_back')", name="state"),
    CheckConstraint("percent between 0 and 100", name="percent"),
)
Index("uq_canaries_running", canaries.c.state, unique=True, postgresql_where=canaries.c.state == "running")

feedback = Table(
    "feedback",
    metadata,
    Column("question_id", Text, ForeignKey("questions.id", ondelete="CASCADE"), primary_key=True),
    Column("person", Text, primary_key=True),
    Column("helpful", Boolean, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    _moment("given_at", default=True),
)

# --- who signs off ----------------------------------------------------------------------------------------------

reviews = Table(
    "reviews",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("question_id", Text, ForeignKey("questions.id", ondelete="CASCADE"), nullable=False),
    Column("interrupt_id", Text, nullable=False),
    Column("round", Integer, nullable=False, server_default="1"),
    Column("state", Text, nullable=False, server_default="pending"),
    Column(
        "version_hash", Text, nullable=False
    ),  # of the draft; every decision names the hash it was made on
    Column("reason", Text, nullable=False),  # the rule that held it
    Column("draft", JSONB, nullable=False),
    Column("audience", ARRAY(Text), nullable=False),  # the intersection of its sources'
    Column("claimed_by", Text),
    Column("decided_by", Text),
    Column("decision", JSONB),
    Column("resumed", Boolean, nullable=False, server_default=text("false")),
    _moment("opened_at", default=True),
    _moment("claimed_at"),
    _moment("decided_at"),
    # How the rule asked for it: hold, two_reviewers, private (the asker sees the draft), sample (it was sent already).
    Column("disposition", Text, nullable=False, server_default="hold"),
    # Who has approved exactly this draft so far, where two people have to.
    Column("approved_by", ARRAY(Text), nullable=False, server_default="{}"),
    UniqueConstraint("question_id", "interrupt_id"),
    CheckConstraint(
        "state in ('pending', 'approved', 'edited', 'rejected', 'expired', 'withdrawn')", name="state"
    ),
    CheckConstraint("disposition in ('hold', 'two_reviewers', 'private', 'sample')", name="disposition"),
)
# What became of a rule's drafts, for the trust ramp and for what a review usually takes.
Index("ix_reviews_reason_decided_at", reviews.c.reason, reviews.c.decided_at)
Index("ix_reviews_pending", reviews.c.opened_at, postgresql_where=text("state = 'pending'"))

# Append-only: who opened, claimed, decided what, when, on which draft.
review_events = Table(
    "review_events",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("review_id", BigInteger, ForeignKey("reviews.id", ondelete="CASCADE"), nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("version_hash", Text, nullable=False, server_default=""),
    Column("detail", JSONB, nullable=False, server_default="{}"),
    _moment("at", default=True),
)
Index("ix_review_events_review_id", review_events.c.review_id)
# Held by the database: lines are added, and changed only where a person is forgotten (store/erasure.py says so for the
# length of its transaction).
APPEND_ONLY = (
    """
CREATE OR REPLACE FUNCTION signoff_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF coalesce(current_setting('signoff.erasing', true), '') <> 'on' THEN
    RAISE EXCEPTION 'review_events is append-only';
  END IF;
  RETURN coalesce(NEW, OLD);
END $$
""",
    """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON review_events
  FOR EACH ROW EXECUTE FUNCTION signoff_append_only()
""",
)
for statement in APPEND_ONLY:
    event.listen(review_events, "after_create", DDL(statement))  # type: ignore[no-untyped-call]  # SQLAlchemy's own

# Signed-off answers that serve the same question again while their sources are what they were.
verified = Table(
    "verified",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    # Where it was signed; null once that question was deleted with its conversation.
    Column("question_id", Text, ForeignKey("questions.id", ondelete="SET NULL"), unique=True),
    Column("question", Text, nullable=False),  # as it can be asked alone
    Column("language", Text, nullable=False),
    # sha256 of the question without its polite frame (rag_graph.likeness.wording): found without a model.
    Column("wording", Text, nullable=False),
    Column("answer", JSONB, nullable=False),  # rag_graph.contracts.Draft
    Column("signed_for", ARRAY(Text), nullable=False),  # the audience of its sources when it was signed
    # That, and what its sources' audience is now: who may be given it. Look-ups filter by it.
    Column("audience", ARRAY(Text), nullable=False),
    Column("state", Text, nullable=False, server_default="active"),
    Column("reason", Text, nullable=False, server_default=""),  # why it is out of service
    Column("signed_by", Text, nullable=False),
    Column("how", Text, nullable=False),  # approved | edited
    _moment("signed_at", default=True),
    Column("ended_by", Text, nullable=False, server_default=""),
    _moment("ended_at"),
    # One model's vector of the question; null until it was made.
    Column("space_id", SmallInteger, ForeignKey("spaces.id", ondelete="SET NULL")),
    Column("vector", HalfVec),
    CheckConstraint("state in ('active', 'review', 'retired')", name="state"),
)
Index(
    "ix_verified_audience",
    verified.c.audience,
    postgresql_using="gin",
    postgresql_where=text("state = 'active'"),
)
Index("ix_verified_wording", verified.c.wording, postgresql_where=text("state = 'active'"))
Index("ix_verified_signed_at", verified.c.signed_at, postgresql_where=text("state = 'active'"))

# What a verified answer rests on. A chunk is known by its hash: a new version that still has it changes nothing.
verified_sources = Table(
    "verified_sources",
    metadata,
    Column("verified_id", BigInteger, ForeignKey("verified.id", ondelete="CASCADE"), primary_key=True),
    Column("document_id", BigInteger, primary_key=True),  # no foreign key: a removed document is a reason too
    Column("content_hash", Text, primary_key=True),
    Column("title", Text, nullable=False),
    Column("heading_path", ARRAY(Text), nullable=False, server_default="{}"),
    Column("text", Text, nullable=False),  # as it was signed, for the diff
)
Index("ix_verified_sources_document_id", verified_sources.c.document_id)

# Questions that were given a verified answer, to be told when it was wrong.
verified_uses = Table(
    "verified_uses",
    metadata,
    Column("question_id", Text, ForeignKey("questions.id", ondelete="CASCADE"), primary_key=True),
    Column("verified_id", BigInteger, ForeignKey("verified.id", ondelete="CASCADE"), nullable=False),
    _moment("used_at", default=True),
)
Index("ix_verified_uses_verified_id", verified_uses.c.verified_id)

# Who sees to it that a question which the documents did not settle will be.
gap_owners = Table(
    "gap_owners",
    metadata,
    Column("question_id", Text, ForeignKey("questions.id", ondelete="CASCADE"), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("owned_by", Text, nullable=False),
    _moment("owned_at", default=True),
)

# What an administrator or a conversation switched, such as paused:slack:C… or aside:<conversation>.
switches = Table(
    "switches",
    metadata,
    Column("name", Text, primary_key=True),
    Column("set_by", Text, nullable=False),
    _moment("set_at", default=True),
)

# --- what goes out ----------------------------------------------------------------------------------------------

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    # What this is, once: answer:<question>, held:<question>:<round>, card:<review>, … Sending twice is one row.
    Column("purpose", Text, nullable=False, unique=True),
    Column("conversation_id", Text, ForeignKey("conversations.id", ondelete="CASCADE")),
    Column("question_id", Text, ForeignKey("questions.id", ondelete="CASCADE")),
    Column("review_id", BigInteger, ForeignKey("reviews.id", ondelete="CASCADE")),
    Column("platform", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("address", JSONB, nullable=False, server_default="{}"),
    Column("content", JSONB, nullable=False),
    Column("state", Text, nullable=False, server_default="pending"),
    Column("message_id", Text),  # the platform's id once it is known
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("error", Text, nullable=False, server_default=""),
    _moment("created_at", default=True),
    _moment("sent_at"),
    CheckConstraint("state in ('pending', 'sending', 'sent', 'unknown', 'failed', 'refused')", name="state"),
)
Index("ix_deliveries_conversation_id", deliveries.c.conversation_id, deliveries.c.id)
# What may still have to be sent, whatever became of the job that should have.
Index(
    "ix_deliveries_unsent",
    deliveries.c.id,
    postgresql_where=text("state in ('pending', 'sending', 'failed')"),
)
Index("ix_deliveries_question_id", deliveries.c.question_id)
Index("ix_deliveries_review_id", deliveries.c.review_id)
