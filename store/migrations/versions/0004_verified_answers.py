"""Verified answers: what was signed off, what it rests on, and who was given it"""

import sqlalchemy as sa
from alembic import op
from pgvector.sqlalchemy import HALFVEC
from sqlalchemy.dialects import postgresql

revision = '0004'
down_revision = '0003'
branch_labels = None
depends_on = None

ACTIVE = sa.text("state = 'active'")


def upgrade() -> None:
    op.create_index("ix_questions_finished_at", "questions", ["finished_at"])
    op.create_table(
        "verified",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("question_id", sa.Text()),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("wording", sa.Text(), nullable=False),
        sa.Column("answer", postgresql.JSONB(), nullable=False),
        sa.Column("signed_for", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("audience", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("state", sa.Text(), server_default="active", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("signed_by", sa.Text(), nullable=False),
        sa.Column("how", sa.Text(), nullable=False),
        sa.Column("signed_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("ended_by", sa.Text(), server_default="", nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("space_id", sa.SmallInteger()),
        sa.Column("vector", HALFVEC()),
        sa.CheckConstraint("state in ('active', 'review', 'retired')", name=op.f("ck_verified_state")),
        sa.ForeignKeyConstraint(
            ["question_id"], ["questions.id"], name=op.f("fk_verified_question_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(
            ["space_id"], ["spaces.id"], name=op.f("fk_verified_space_id"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verified")),
        sa.UniqueConstraint("question_id", name=op.f("uq_verified_question_id")),
    )
    op.create_index(
        "ix_verified_audience", "verified", ["audience"], postgresql_using="gin", postgresql_where=ACTIVE
    )
    op.create_index("ix_verified_wording", "verified", ["wording"], postgresql_where=ACTIVE)
    op.create_index("ix_verified_signed_at", "verified", ["signed_at"], postgresql_where=ACTIVE)
    op.create_table(
        "verified_sources",
        sa.Column("verified_id", sa.BigInteger(), nullable=False),
        sa.Column("document_id", sa.BigInteger(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("heading_path", postgresql.ARRAY(sa.Text()), server_default="{}", nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["verified_id"], ["verified.id"], name=op.f("fk_verified_sources_verified_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint(
            "verified_id", "document_id", "content_hash", name=op.f("pk_verified_sources")
        ),
    )
    op.create_index("ix_verified_sources_document_id", "verified_sources", ["document_id"])
    op.create_table(
        "verified_uses",
        sa.Column("question_id", sa.Text(), nullable=False),
        sa.Column("verified_id", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.ForeignKeyConstraint(
            ["question_id"], ["questions.id"], name=op.f("fk_verified_uses_question_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["verified_id"], ["verified.id"], name=op.f("fk_verified_uses_verified_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("question_id", name=op.f("pk_verified_uses")),
    )
    op.create_index("ix_verified_uses_verified_id", "verified_uses", ["verified_id"])
