"""Operations of one PostgreSQL server of the frontier."""
