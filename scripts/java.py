"""Find Java 17 or newer, or install it with the platform's package manager; if neither is possible, print what to do.

Uses only the standard library. Searches where Spark searches: ``JAVA_HOME`` first, then the PATH.
"""

import os
import re
import shutil
import subprocess
import sys

OLDEST = 17
ADVICE = (
    "PySpark needs Java {oldest} or newer ({found}).\n"
    "  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless\n"
    "  Fedora, RHEL:    sudo dnf install java-17-openjdk-headless\n"
    "  Alpine:          sudo apk add openjdk17-jre-headless\n"
    "  macOS:           brew install openjdk@17 && export JAVA_HOME=$(brew --prefix openjdk@17)\n"
    "  elsewhere:       install a JRE 17 from https://adoptium.net and set JAVA_HOME to its folder\n"
    "then run the same command again."
)
APT, DNF, APK, BREW = (
    ["apt-get", "install", "-q", "-y"],
    ["dnf", "install", "-q", "-y"],
    ["apk", "add", "-q"],
    ["brew", "install"],
)
INSTALLERS = (  # program, what to run first, alternatives of which one is enough, whether it needs root
    (
        "apt-get",
        ["apt-get", "update", "-q"],
        [[*APT, "openjdk-17-jre-headless"], [*APT, "openjdk-21-jre-headless"]],
        True,
    ),
    ("dnf", None, [[*DNF, "java-17-openjdk-headless"], [*DNF, "java-21-openjdk-headless"]], True),
    ("apk", None, [[*APK, "openjdk17-jre-headless"]], True),
    ("brew", None, [[*BREW, "openjdk@17"]], False),
)


def java():
    """The Java program that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else "java"


def major(program):
    """The program's major version; None if it cannot be run."""
    try:
        done = subprocess.run([program, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except OSError:
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', done.stdout.decode("utf-8", "replace"))
    if not found:
        return None
    first, second = int(found.group(1)), int(found.group(2) or 0)
    return second if first == 1 else first


def as_root(command):
    """The command with root rights, without a password prompt; None if this is not possible."""
    if os.geteuid() == 0:
        return command
    if (
        shutil.which("sudo")
        and subprocess.run(["sudo", "-n", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    ):
        return ["sudo", "-n", *command]
    return None


def run(command, root):
    """Whether the command could be run and succeeded."""
    allowed = as_root(command) if root else command
    if allowed is None:
        return False
    print("+ " + " ".join(allowed), flush=True)
    return subprocess.run(allowed, env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"), check=False).returncode == 0


def install():
    """Install Java with the platform's package manager; returns whether this succeeded."""
    for manager, first, alternatives, root in INSTALLERS:
        if shutil.which(manager):
            if first is not None:
                run(first, root)
            return any(run(command, root) for command in alternatives)
    return False


def main():
    version = major(java())
    if version is None and not os.environ.get("JAVA_HOME") and install():
        version = major(java())
    if version is None or version < OLDEST:
        found = f"{java()} does not run" if version is None else f"{java()} is Java {version}"
        sys.exit(ADVICE.format(oldest=OLDEST, found=found))


if __name__ == "__main__":
    main()
