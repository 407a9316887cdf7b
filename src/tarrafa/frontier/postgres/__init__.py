"""PostgreSQL frontier: the frontier's tables on one or more PostgreSQL servers that many machines share.

PostgreSQL keeps the tables; the operations on them are the store's own code (../store/), the same as for one file.

    PostgresFrontier          the API, asynchronous: which servers a call concerns,      postgres_frontier.py
      |                       and how their answers are merged (shard_totals.py)
      |-- ShardMap            which server keeps a site                                  sharding/shard_map.py
      |-- ShardRouter         calls one, some or all servers; the outbox keeps links     sharding/shard_router.py
      |                       for an unreachable one
      |-- GlobalLimits        pages_max and requests_max over all servers                sharding/global_limits.py
      v
    PostgresShard             one server: a thread of its own, back-off                  sharding/postgres_shard.py
      |   call(function, ...)
      v
    operations/*_calls.py     the calls by subject: functions of a session, which lock
      |                       hosts, name the rows that they need, and run the store
      v
    DatabaseSession           one call = one transaction (PostgresTransaction)           database_session.py
      |-- DatabaseConnection  retry after a conflict, reconnect                          database_connection.py
      |-- SharedCounters      counters, numbers and tokens that all workers change       shared_counters.py
      v
    FrontierStore             the same code as for one file                              ../store/sqlite_frontier.py
      v
    LockedDatabase            locks of sites and hosts, in one order                     row_locks.py
      v
    RowCache                  SQLite in memory                                           row_cache.py
      |  ^
      |  | fetch: the rows that the call names, once each
      v  | apply: the difference, in bulk, before the commit
    PostgreSQL                                                                           schema.py

The cache is empty again after each transaction: between two calls, PostgreSQL has everything.
"""
