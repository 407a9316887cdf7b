"""Console of the operator: HTML pages for collections, nodes, URLs, reports, credentials and suggestions.

Promises: every page of the console and every route of the API declares its access level, `open`, `viewer` or `admin`,
and cannot be mounted without one; only admins change anything, and every change, done or refused, is written to the
audit log (coordinator/). A person is authenticated by a session, a program by the token; where neither is defined,
local requests have the role of admin. A form sent by a page of another site is refused. Authentication is in
server/auth, the REST API in server/api; `console` joins pages and routes, and `routes` adds those of a coordinating
node.
"""
