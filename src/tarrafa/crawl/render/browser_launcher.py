"""Launches the browser where it has no way out: in namespaces without a network, as a user without rights.

The namespaces hold no network device that is up, no process but the browser's, and no files of ours: its home is a file
system in memory, which ends with it. Root gives its rights up and becomes a user that nobody is; any other user gets
namespaces through one of users. Chromium's own sandbox comes up inside of this: it is never switched off.
Promises: the browser ends with this process, and this process with the worker; new privileges cannot be gained; one
process cannot have more than a named amount of private memory, of files and of bytes in a file. If the namespaces
cannot be had, the browser is not started, unless `isolation` says that a proxy holds it (`browser` sets that up).
"""

import contextlib
import ctypes
import os
import resource
import shutil
import signal
import sys

import msgspec

from tarrafa.runtime.child_process import PR_SET_PDEATHSIG, run_child
from tarrafa.runtime.sandbox import CLONE_NEWNET, CLONE_NEWUSER, PR_SET_NO_NEW_PRIVS, forbid_network_sockets

CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWIPC = 0x00020000, 0x20000000, 0x08000000
MS_PRIVATE_ALL = 1 << 18 | 1 << 14  # MS_PRIVATE, MS_REC
MS_SAFE = 2 | 4 | 8  # MS_NOSUID, MS_NODEV, MS_NOEXEC
COMMAND_FD, ANSWER_FD = 3, 4  # where Chromium expects its pipes
FD_FREE = 10  # from here on no descriptor of Chromium's
HOME_BYTES_MAX = 128 << 20
PRIVATE_BYTES_MAX = 3 << 30  # of one process, shared memory aside; the sum of what is in use is watched (`browser`)
FILE_BYTES_MAX = 64 << 20
FILES_MAX = 4_096
EXIT_NO_NAMESPACE = 70
KILLED_FIRST = "1000"  # oom_score_adj
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


def main(commands: int, answers: int, command: str, home: str, uid: int, hidden: str) -> None:
    """`hidden`: directories that the browser does not see. `uid` 0: it runs as the present user. An empty `home` wants
    namespaces; else it is a directory of the browser's own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not home and not _leave(libc):
        sys.exit(EXIT_NO_NAMESPACE)
    if not home and (pid := os.fork()):  # the child is the first process of the namespace: all others end with it
        os.close(commands)
        os.close(answers)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) % 256)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write(KILLED_FIRST)
    if not home:
        home = _hide_files(libc, uid, msgspec.json.decode(hidden, type=list[str]))
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    # The kernel forgets this at a change of user. A parent outside of the namespace has the number 0.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    words = [home if word == "{home}" else word.replace("{home}", home) for word in _words(command)]
    if "--no-sandbox" in words or os.getuid() == 0:
        sys.exit("the browser is not started as root or without its sandbox")
    if not os.path.exists(f"{os.path.dirname(words[0])}/chrome-sandbox"):  # noqa: PTH110, PTH120
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        forbid_network_sockets(libc)
    _limit()
    _place(commands, answers)
    os.chdir(home)
    os.execve(words[0], words, ENVIRONMENT | {"HOME": home, "TMPDIR": home, "XDG_RUNTIME_DIR": home})  # noqa: S606


def _words(command: str) -> list[str]:
    return msgspec.json.decode(command, type=list[str])


def _leave(libc: ctypes.CDLL) -> bool:
    """Leave the network, the processes and the mounts of this machine; False if that is not possible."""
    wanted = CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        return bool(libc.unshare(wanted) == 0)
    if libc.unshare(wanted | CLONE_NEWUSER) != 0:
        return False
    try:
        for name, content in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
                file.write(content)
    except OSError:
        return False
    return True


def _hide_files(libc: ctypes.CDLL, uid: int, hidden: list[str]) -> str:
    """Mount what the browser may see of processes and files; returns its home."""
    home = "/tmp"  # noqa: S108 (its own, in memory)
    libc.mount(b"none", b"/", None, MS_PRIVATE_ALL, None)
    owner = uid or os.getuid()
    options = f"size={HOME_BYTES_MAX},mode=0700,uid={owner},gid={uid or os.getgid()}".encode()
    mounts = [(b"tmpfs", path.encode(), b"size=4096,mode=0755") for path in hidden if os.path.isdir(path)]  # noqa: PTH112
    mounts.append((b"tmpfs", home.encode(), options))  # last: what is hidden may be below
    for kind, place, how in mounts:
        if libc.mount(kind, place, kind, MS_SAFE, how) != 0:
            sys.exit(EXIT_NO_NAMESPACE)
    libc.mount(b"proc", b"/proc", b"proc", MS_SAFE, None)  # (some containers let nobody mount another one)
    return home


def _limit() -> None:
    limits = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, PRIVATE_BYTES_MAX),
        (resource.RLIMIT_FSIZE, FILE_BYTES_MAX),
        (resource.RLIMIT_NOFILE, FILES_MAX),
    )
    for which, most in limits:
        hard = resource.getrlimit(which)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (value, value))


def _place(commands: int, answers: int) -> None:
    """Move the pipes to where Chromium expects them, and close everything else that is not standard."""
    import fcntl

    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, FD_FREE) for fd in (commands, answers)]
    os.dup2(moved[0], COMMAND_FD)
    os.dup2(moved[1], ANSWER_FD)
    os.closerange(ANSWER_FD + 1, FILES_MAX)


def find_browser() -> str | None:
    """The program of the browser, or None. The binary itself: a wrapper in shell would add switches of its own."""
    for name in ("/usr/lib/chromium/chromium", "/usr/lib/chromium-browser/chromium-browser"):
        if os.access(name, os.X_OK):
            return name
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if (found := shutil.which(name)) is not None:
            return os.path.realpath(found)
    return None


if __name__ == "__main__":
    run_child(main)
