"""Everything the spine stores"""

import sqlalchemy as sa
from alembic import op
from pgvector.sqlalchemy import HALFVEC
from sqlalchemy.dialects import postgresql

revision = '0001'
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('collections',
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('audience', postgresql.ARRAY(sa.Text()), server_default='{everyone}', nullable=False),
    sa.Column('profile', sa.Text(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.PrimaryKeyConstraint('name', name=op.f('pk_collections'))
    )
    op.create_table('conversations',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('platform', sa.Text(), nullable=False),
    sa.Column('channel', sa.Text(), nullable=False),
    sa.Column('thread', sa.Text(), server_default='', nullable=False),
    sa.Column('private', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('title', sa.Text(), server_default='', nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('active_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_conversations'))
    )
    op.create_index('ix_conversations_platform_channel', 'conversations', ['platform', 'channel'], unique=False)
    op.create_table('corpus',
    sa.Column('only', sa.Boolean(), server_default=sa.text('true'), nullable=False),
    sa.Column('chunks', sa.Integer(), server_default='0', nullable=False),
    sa.Column('average_length', sa.Double(), server_default='0', nullable=False),
    sa.Column('version', sa.BigInteger(), server_default='0', nullable=False),
    sa.CheckConstraint('"only"', name=op.f('ck_corpus_one_row')),
    sa.PrimaryKeyConstraint('only', name=op.f('pk_corpus'))
    )
    op.create_table('inbox',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('platform', sa.Text(), nullable=False),
    sa.Column('dedupe_key', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('subject', sa.Text(), server_default='', nullable=False),
    sa.Column('received_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_inbox')),
    sa.UniqueConstraint('platform', 'dedupe_key', name=op.f('uq_inbox_platform_dedupe_key'))
    )
    op.create_index('ix_inbox_received_at', 'inbox', ['received_at'], unique=False)
    op.create_table('lexemes',
    sa.Column('lexeme', sa.Text(), nullable=False),
    sa.Column('documents', sa.Integer(), nullable=False),
    sa.PrimaryKeyConstraint('lexeme', name=op.f('pk_lexemes'))
    )
    op.create_table('spaces',
    sa.Column('id', sa.SmallInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('model', sa.Text(), nullable=False),
    sa.Column('dimension', sa.Integer(), nullable=False),
    sa.Column('query_prefix', sa.Text(), server_default='', nullable=False),
    sa.Column('passage_prefix', sa.Text(), server_default='', nullable=False),
    sa.Column('max_tokens', sa.Integer(), nullable=False),
    sa.Column('calibration', postgresql.JSONB(astext_type=sa.Text()), nullable=True),
    sa.Column('state', sa.Text(), server_default='building', nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.CheckConstraint("state in ('building', 'active', 'retired')", name=op.f('ck_spaces_state')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_spaces')),
    sa.UniqueConstraint('model', 'dimension', name=op.f('uq_spaces_model_dimension'))
    )
    op.create_index('ix_spaces_one_active', 'spaces', ['state'], unique=True, postgresql_where=sa.text("state = 'active'"))
    op.create_table('documents',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('collection', sa.Text(), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('title', sa.Text(), nullable=False),
    sa.Column('language', sa.Text(), server_default='', nullable=False),
    sa.Column('audience', postgresql.ARRAY(sa.Text()), nullable=False),
    sa.Column('inherits_audience', sa.Boolean(), server_default=sa.text('true'), nullable=False),
    sa.Column('labels', postgresql.ARRAY(sa.Text()), server_default='{}', nullable=False),
    sa.Column('current_version_id', sa.BigInteger(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.ForeignKeyConstraint(['collection'], ['collections.name'], name=op.f('fk_documents_collection')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_documents')),
    sa.UniqueConstraint('collection', 'source', name=op.f('uq_documents_collection_source'))
    )
    op.create_index('ix_documents_audience', 'documents', ['audience'], unique=False, postgresql_using='gin')
    op.create_index('ix_documents_current_version_id', 'documents', ['current_version_id'], unique=True)
    op.create_table('questions',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('sequence', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('conversation_id', sa.Text(), nullable=False),
    sa.Column('asker', sa.Text(), nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.Column('language', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), server_default='received', nullable=False),
    sa.Column('address', postgresql.JSONB(astext_type=sa.Text()), server_default='{}', nullable=False),
    sa.Column('answer', postgresql.JSONB(astext_type=sa.Text()), nullable=True),
    sa.Column('remembered', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('asked_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('finished_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("state in ('received', 'answering', 'held', 'answered', 'declined', 'withdrawn', 'superseded', 'failed')", name=op.f('ck_questions_state')),
    sa.ForeignKeyConstraint(['conversation_id'], ['conversations.id'], name=op.f('fk_questions_conversation_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_questions')),
    sa.UniqueConstraint('sequence', name=op.f('uq_questions_sequence'))
    )
    op.create_index('ix_questions_conversation_id_sequence', 'questions', ['conversation_id', 'sequence'], unique=False)
    op.create_table('feedback',
    sa.Column('question_id', sa.Text(), nullable=False),
    sa.Column('person', sa.Text(), nullable=False),
    sa.Column('helpful', sa.Boolean(), nullable=False),
    sa.Column('reason', sa.Text(), server_default='', nullable=False),
    sa.Column('given_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.ForeignKeyConstraint(['question_id'], ['questions.id'], name=op.f('fk_feedback_question_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('question_id', 'person', name=op.f('pk_feedback'))
    )
    op.create_table('reviews',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('question_id', sa.Text(), nullable=False),
    sa.Column('interrupt_id', sa.Text(), nullable=False),
    sa.Column('round', sa.Integer(), server_default='1', nullable=False),
    sa.Column('state', sa.Text(), server_default='pending', nullable=False),
    sa.Column('version_hash', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('draft', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('audience', postgresql.ARRAY(sa.Text()), nullable=False),
    sa.Column('claimed_by', sa.Text(), nullable=True),
    sa.Column('decided_by', sa.Text(), nullable=True),
    sa.Column('decision', postgresql.JSONB(astext_type=sa.Text()), nullable=True),
    sa.Column('resumed', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('opened_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('claimed_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('decided_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("state in ('pending', 'approved', 'edited', 'rejected', 'expired', 'withdrawn')", name=op.f('ck_reviews_state')),
    sa.ForeignKeyConstraint(['question_id'], ['questions.id'], name=op.f('fk_reviews_question_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_reviews')),
    sa.UniqueConstraint('question_id', 'interrupt_id', name=op.f('uq_reviews_question_id_interrupt_id'))
    )
    op.create_index('ix_reviews_pending', 'reviews', ['opened_at'], unique=False, postgresql_where=sa.text("state = 'pending'"))
    op.create_table('runs',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('question_id', sa.Text(), nullable=False),
    sa.Column('rewritten_question', sa.Text(), server_default='', nullable=False),
    sa.Column('retrieved', postgresql.ARRAY(sa.BigInteger()), server_default='{}', nullable=False),
    sa.Column('cited', postgresql.ARRAY(sa.BigInteger()), server_default='{}', nullable=False),
    sa.Column('confidence', sa.Double(), nullable=True),
    sa.Column('outcome', sa.Text(), nullable=False),
    sa.Column('rule', sa.Text(), server_default='', nullable=False),
    sa.Column('degraded', postgresql.ARRAY(sa.Text()), server_default='{}', nullable=False),
    sa.Column('tools', postgresql.JSONB(astext_type=sa.Text()), server_default='[]', nullable=False),
    sa.Column('tokens', postgresql.JSONB(astext_type=sa.Text()), server_default='{}', nullable=False),
    sa.Column('timings', postgresql.JSONB(astext_type=sa.Text()), server_default='{}', nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.ForeignKeyConstraint(['question_id'], ['questions.id'], name=op.f('fk_runs_question_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_runs'))
    )
    op.create_index('ix_runs_question_id', 'runs', ['question_id'], unique=False)
    op.create_table('versions',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('document_id', sa.BigInteger(), nullable=False),
    sa.Column('number', sa.Integer(), nullable=False),
    sa.Column('state', sa.Text(), server_default='pending', nullable=False),
    sa.Column('media_type', sa.Text(), server_default='', nullable=False),
    sa.Column('content_hash', sa.Text(), nullable=False),
    sa.Column('markdown', sa.Text(), nullable=True),
    sa.Column('pages', sa.Integer(), nullable=True),
    sa.Column('chunk_count', sa.Integer(), server_default='0', nullable=False),
    sa.Column('progress', postgresql.JSONB(astext_type=sa.Text()), server_default='{}', nullable=False),
    sa.Column('error_code', sa.Text(), nullable=True),
    sa.Column('error_detail', sa.Text(), nullable=True),
    sa.Column('uploaded_by', sa.Text(), server_default='', nullable=False),
    sa.Column('audience', postgresql.ARRAY(sa.Text()), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('published_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("state in ('pending', 'converting', 'embedding', 'live', 'retired', 'failed')", name=op.f('ck_versions_state')),
    sa.ForeignKeyConstraint(['document_id'], ['documents.id'], name=op.f('fk_versions_document_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_versions')),
    sa.UniqueConstraint('document_id', 'number', name=op.f('uq_versions_document_id_number'))
    )
    op.create_table('chunks',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('version_id', sa.BigInteger(), nullable=False),
    sa.Column('ordinal', sa.Integer(), nullable=False),
    sa.Column('heading_path', postgresql.ARRAY(sa.Text()), server_default='{}', nullable=False),
    sa.Column('page', sa.Integer(), nullable=True),
    sa.Column('text', sa.Text(), nullable=False),
    sa.Column('content_hash', sa.Text(), nullable=False),
    sa.Column('tokens', postgresql.TSVECTOR(), nullable=False),
    sa.Column('length', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['version_id'], ['versions.id'], name=op.f('fk_chunks_version_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_chunks')),
    sa.UniqueConstraint('version_id', 'ordinal', name=op.f('uq_chunks_version_id_ordinal'))
    )
    op.create_index('ix_chunks_tokens', 'chunks', ['tokens'], unique=False, postgresql_using='gin')
    op.create_table('deliveries',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('purpose', sa.Text(), nullable=False),
    sa.Column('conversation_id', sa.Text(), nullable=True),
    sa.Column('question_id', sa.Text(), nullable=True),
    sa.Column('review_id', sa.BigInteger(), nullable=True),
    sa.Column('platform', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('address', postgresql.JSONB(astext_type=sa.Text()), server_default='{}', nullable=False),
    sa.Column('content', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('state', sa.Text(), server_default='pending', nullable=False),
    sa.Column('message_id', sa.Text(), nullable=True),
    sa.Column('attempts', sa.Integer(), server_default='0', nullable=False),
    sa.Column('error', sa.Text(), server_default='', nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('sent_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("state in ('pending', 'sending', 'sent', 'unknown', 'failed')", name=op.f('ck_deliveries_state')),
    sa.ForeignKeyConstraint(['conversation_id'], ['conversations.id'], name=op.f('fk_deliveries_conversation_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['question_id'], ['questions.id'], name=op.f('fk_deliveries_question_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['review_id'], ['reviews.id'], name=op.f('fk_deliveries_review_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_deliveries')),
    sa.UniqueConstraint('purpose', name=op.f('uq_deliveries_purpose'))
    )
    op.create_index('ix_deliveries_conversation_id', 'deliveries', ['conversation_id', 'id'], unique=False)
    op.create_index('ix_deliveries_question_id', 'deliveries', ['question_id'], unique=False)
    op.create_index('ix_deliveries_review_id', 'deliveries', ['review_id'], unique=False)
    op.create_table('review_events',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=False), nullable=False),
    sa.Column('review_id', sa.BigInteger(), nullable=False),
    sa.Column('actor', sa.Text(), nullable=False),
    sa.Column('action', sa.Text(), nullable=False),
    sa.Column('version_hash', sa.Text(), server_default='', nullable=False),
    sa.Column('detail', postgresql.JSONB(astext_type=sa.Text()), server_default='{}', nullable=False),
    sa.Column('at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.ForeignKeyConstraint(['review_id'], ['reviews.id'], name=op.f('fk_review_events_review_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_review_events'))
    )
    op.create_index('ix_review_events_review_id', 'review_events', ['review_id'], unique=False)
    op.create_table('uploads',
    sa.Column('version_id', sa.BigInteger(), nullable=False),
    sa.Column('data', sa.LargeBinary(), nullable=False),
    sa.ForeignKeyConstraint(['version_id'], ['versions.id'], name=op.f('fk_uploads_version_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('version_id', name=op.f('pk_uploads'))
    )
    op.create_table('embeddings',
    sa.Column('chunk_id', sa.BigInteger(), nullable=False),
    sa.Column('space_id', sa.SmallInteger(), nullable=False),
    sa.Column('version_id', sa.BigInteger(), nullable=False),
    sa.Column('vector', HALFVEC(), nullable=False),
    sa.ForeignKeyConstraint(['chunk_id'], ['chunks.id'], name=op.f('fk_embeddings_chunk_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['space_id'], ['spaces.id'], name=op.f('fk_embeddings_space_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('chunk_id', 'space_id', name=op.f('pk_embeddings'))
    )
    op.create_index('ix_embeddings_version_id', 'embeddings', ['version_id'], unique=False)
