"""The URL frontier: decides which URL is fetched next, and when.

Promises: a URL once discovered is never forgotten; a host is with one worker at a time and is never touched before
its delay has passed; a visit's number is never used twice. Knows nothing of HTTP, HTML or files other than its own.
"""
