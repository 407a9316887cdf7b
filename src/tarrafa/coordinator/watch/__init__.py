"""Watches: pages, sites and queries whose changes become a feed, a webhook call or a mail."""
