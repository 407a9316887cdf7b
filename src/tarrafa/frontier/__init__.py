"""The URL frontier: decides which URL is fetched next, and when.

Promises: a URL once discovered is never forgotten; a host is leased to one worker at a time and is never contacted
before its delay has passed; a visit's number is never used twice.
Knows nothing of HTTP, HTML or files other than its own.
"""
