"""Console of the operator: HTML pages for collections, nodes, URLs, reports, credentials and suggestions.

Promises: every page of the console and every route of the API names whom it is for, `open`, `viewer` or `admin`, and
one that does not cannot be mounted; nobody but an admin changes anything, and every change, done or refused, leaves a
line (coordinate/audit). A person is known by a session, a program by the token; where neither is defined, whoever
sits at this machine is the admin. A form that a page elsewhere sends is refused. Knows nothing of collections: what
is shown and changed is brought by others (`Console.page`, `Api.route`).

    accounts    who is known here?                    doors       whom is it for, and was it he who sent it?
    passwords   is this the password?                 frame       a console: its pages, its API, its own pages
    sessions    who is that browser?                  api         which programs may ask what, and how?
    delays      may he try again?                     openapi     how is that told to programs?
    origin      where does a request come from?       documented  what could be asked before there was a console?
    rates       does he ask too much?                 problems    what is a program told that gets no answer?
    entry       who asks?                             reading     how does a person read what programs can ask?
"""
