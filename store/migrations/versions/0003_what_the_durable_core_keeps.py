"""What the durable core, the data side and the decision side keep beyond the spine"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None


def upgrade() -> None:
    core()
    chat()
    search()
    shelves()
    decision()


def core() -> None:
    """The durable core: refusals, edits after the answer, rates, linked people, deliveries that will never arrive."""
    op.add_column("questions", sa.Column("edited", sa.Text()))
    op.drop_constraint("ck_questions_state", "questions")
    op.create_check_constraint(
        op.f("ck_questions_state"),
        "questions",
        "state in ('received', 'answering', 'held', 'answered', 'declined', 'withdrawn', 'superseded', 'failed',"
        " 'refused')",
    )
    op.create_index(
        "ix_questions_received", "questions", ["sequence"], postgresql_where=sa.text("state = 'received'")
    )
    op.create_table(
        "rates",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("whole_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_rates")),
    )
    op.create_table(
        "people",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_people")),
    )
    op.create_table(
        "identities",
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("person_id", sa.BigInteger(), nullable=False),
        sa.Column("email_hash", sa.Text()),
        sa.Column("linked_by", sa.Text(), nullable=False),
        sa.Column("linked_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.ForeignKeyConstraint(
            ["person_id"], ["people.id"], name=op.f("fk_identities_person_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("principal", name=op.f("pk_identities")),
    )
    op.create_index("ix_identities_person_id", "identities", ["person_id"])
    op.create_index("ix_identities_email_hash", "identities", ["email_hash"])
    op.drop_constraint("ck_deliveries_state", "deliveries")
    op.create_check_constraint(
        op.f("ck_deliveries_state"),
        "deliveries",
        "state in ('pending', 'sending', 'sent', 'unknown', 'failed', 'refused')",
    )
    op.create_index(
        "ix_deliveries_unsent",
        "deliveries",
        ["id"],
        postgresql_where=sa.text("state in ('pending', 'sending', 'failed')"),
    )


def chat() -> None:
    """Chat platforms: payloads before anybody has looked at them, and what is kept about a person for a while."""
    op.create_table(
        "arrivals",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("dedupe_key", sa.Text(), nullable=False),
        sa.Column("payload", postgresql.JSONB()),
        sa.Column("received_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_arrivals")),
        sa.UniqueConstraint("platform", "dedupe_key", name=op.f("uq_arrivals_platform_dedupe_key")),
    )
    op.create_index("ix_arrivals_received_at", "arrivals", ["received_at"])
    op.create_table(
        "kept",
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("data", postgresql.JSONB(), nullable=False),
        sa.Column("kept_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("person", "kind", "key", name=op.f("pk_kept")),
    )
    op.create_table(
        "switches",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.Column("set_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_switches")),
    )


def search() -> None:
    """The data side: a vector index for each language, and the dictionary that tokens were cut with."""
    op.add_column("corpus", sa.Column("dictionary", sa.Text(), server_default="", nullable=False))
    op.add_column("embeddings", sa.Column("language", sa.Text(), server_default="", nullable=False))
    op.execute(LANGUAGES)


LANGUAGES = """
DO $$ DECLARE space record; BEGIN
  FOR space IN SELECT id FROM spaces LOOP
    EXECUTE format('DROP INDEX IF EXISTS ix_embeddings_space_%s', space.id);
  END LOOP;
  UPDATE embeddings AS e SET language = d.language
    FROM versions AS v JOIN documents AS d ON d.id = v.document_id WHERE v.id = e.version_id;
  FOR space IN SELECT id, dimension FROM spaces LOOP
    EXECUTE format('CREATE INDEX ix_embeddings_space_%1$s_zh ON embeddings '
      'USING hnsw ((vector::halfvec(%2$s)) halfvec_cosine_ops) WITH (ef_construction=128) '
      'WHERE space_id = %1$s AND language = %3$L', space.id, space.dimension, 'zh');
    EXECUTE format('CREATE INDEX ix_embeddings_space_%1$s_other ON embeddings '
      'USING hnsw ((vector::halfvec(%2$s)) halfvec_cosine_ops) WITH (ef_construction=128) '
      'WHERE space_id = %1$s AND language <> %3$L', space.id, space.dimension, 'zh');
  END LOOP;
END $$
"""


def shelves() -> None:
    """Documents: what a version changed and was called, and pages that are looked at again."""
    op.add_column("versions", sa.Column("title", sa.Text(), server_default="", nullable=False))
    op.add_column("versions", sa.Column("changes", postgresql.JSONB(), server_default="{}", nullable=False))
    op.create_table(
        "pages",
        sa.Column("document_id", sa.BigInteger(), nullable=False),
        sa.Column("etag", sa.Text(), server_default="", nullable=False),
        sa.Column("last_modified", sa.Text(), server_default="", nullable=False),
        sa.Column("error_code", sa.Text()),
        sa.Column("error_detail", sa.Text()),
        sa.Column("looked_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"], ["documents.id"], name=op.f("fk_pages_document_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("document_id", name=op.f("pk_pages")),
    )
    op.create_index("ix_pages_looked_at", "pages", ["looked_at"])
    op.execute(
        "UPDATE versions AS v SET title = d.title FROM documents AS d WHERE d.current_version_id = v.id"
    )


def decision() -> None:
    """The decision side: what a model was told, as far as the text setting allows."""
    op.add_column(
        "runs", sa.Column("prompts", postgresql.JSONB(), server_default="[]", nullable=False)
    )
