"""PostgreSQL frontier: the frontier's tables on one or more PostgreSQL servers that many machines share.

PostgreSQL keeps the tables; the operations on them are the store's own code (../store/), the same as for one file.

    PostgresFrontier            the Protocol; asynchronous            postgres_frontier.py
        |   GlobalLimits        pages_max over all servers            sharding/global_limits.py
        v
    ShardRouter                 which servers a call concerns         sharding/shard_router.py
        |   ShardMap       which server holds a site             sharding/shard_map.py
        |   ShardOutbox         links for a server that is away       sharding/shard_outbox.py
        v
    PostgresShard               one thread per server, back-off       sharding/postgres_shard.py
        v
    PostgresServer              the calls by subject; they block      postgres_server.py, operations/
        v
    DatabaseSession             one call = one transaction            database_session.py
        |   DatabaseConnection  retry and reconnect                   database_connection.py
        v
    SiteWorkingCopy             the row cache of one transaction:     working_copy.py, site_locks.py
        |                       SQLite in memory
        v
    FrontierStore               the same code as for one file         ../store/frontier_store.py

A call locks the hosts that it is about, fetches the rows that belong to them into the working copy, runs the store
there, and writes the difference back in one transaction. The copy is empty again afterwards.
"""
