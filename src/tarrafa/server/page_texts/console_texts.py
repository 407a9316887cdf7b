"""Struct of the console's login, audit and API texts.

As `Texts`, in a file of its own per language: `console_english`, `console_portuguese`. Programs hear English.
"""

import msgspec


class ConsoleTexts(msgspec.Struct, frozen=True):
    """The words of the console in one language."""

    code: str

    # every page of it
    console: str
    signed_in_as: str
    roles: dict[str, str]
    sign_out: str
    search: str

    # signing in
    sign_in: str
    sign_in_title: str
    name: str
    password: str
    show_nothing: str
    with_token: str
    no_accounts: str
    wrong: str
    wait: str
    busy: str
    signed_out: str

    # who did what
    audit: str
    audit_intro: str
    audit_none: str
    audit_actions: dict[str, str]
    at: str
    who: str
    action: str
    subject: str
    detail: str
    was_refused: str
    was_done: str
    earlier: str
    latest: str

    # the API
    api_title: str
    api_intro: str
    api_document: str
    api_needs: dict[str, str]
    api_parameters: str
    api_parameter: str
    api_type: str
    api_meaning: str
    api_required: str
    api_body: str
    api_answer: str
    api_errors: str
    api_schemas: str
    api_nothing: str
    api_token: str

    # what goes wrong
    sign_in_first: str
    only_at_the_machine: str
    not_allowed: str
    from_elsewhere: str
    form_too_old: str
    not_whole: str
    too_large: str
    wrong_type: str
    not_understood: str
    too_many_fields: str
    unknown_parameter: str
    bad_query: str
    bad_body: str
    no_such_address: str
    no_such_method: str
    back: str
