"""`tarrafa` without followers, to measure workers and frontier alone: nothing is indexed, and no graph is kept.

python -m benchmarks.fetch_only crawl FILE
"""

from tarrafa.cli import main
from tarrafa.crawl.supervisor import followers, supervisor


class NoFollowers(followers.Followers):
    """Starts no process, and everything counts as followed."""

    @property
    def are_dismissed(self) -> bool:
        return True

    def renew(self) -> None:
        self.children = []


if __name__ == "__main__":
    vars(supervisor)["Followers"] = NoFollowers
    main()
