"""Two hosts on one machine: network namespaces joined by a cable, each with host name and /etc/hosts of its own."""

import os
import shutil
import signal
import subprocess

from mini import TRAINCTL


def why_not():
    """Why this machine cannot play two hosts; empty when it can."""
    if os.geteuid() != 0:
        return "not root"
    if shutil.which("ip") is None:
        return "ip not installed (package iproute2)"
    name = f"trainctl-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode != 0:
        return f"network namespaces may not be made ({made.stderr.strip()})"
    try:  # in a chroot a namespace can be made, and nothing in it
        tried = subprocess.run(["ip", "-n", name, "address", "add", "10.55.0.9/24", "dev", "lo"],
                               capture_output=True, text=True)
    finally:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        subprocess.run(["umount", "-l", f"/run/netns/{name}"], capture_output=True)
    return f"network namespaces cannot be used ({tried.stderr.strip()})" if tried.returncode != 0 else ""


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Host:
    def __init__(self, name, address, folder, known):
        self.name = name
        self.address = address
        self.space = f"trainctl-{name}-{os.getpid()}"
        self.cable = f"tc{name}{os.getpid() % 100000}"
        self.hosts_file = folder / f"hosts-{name}"
        self.hosts_file.write_text("127.0.0.1 localhost\n::1 localhost\n" + known)
        self.processes = []

    def start(self, *command, cwd, host_name=None, **variables):
        """Runs a command on this host; its output is read by `finish`."""
        script = 'hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"'
        words = ["ip", "netns", "exec", self.space, "unshare", "--uts", "--mount", "sh", "-c", script, "sh",
                 host_name or self.name, self.hosts_file, *command]
        process = subprocess.Popen([str(word) for word in words], cwd=cwd, env={**os.environ, **variables},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def launch(self, *arguments, cwd, host_name=None, **variables):
        return self.start(TRAINCTL, "launch", *arguments, cwd=cwd, host_name=host_name, **variables)

    def unplug(self):
        ip("netns", "exec", self.space, "ip", "link", "set", self.cable, "down")

    def leftovers(self):
        """Processes still in this host's namespace."""
        return subprocess.run(["ip", "netns", "pids", self.space], capture_output=True, text=True).stdout.split()


class Hosts:
    """With `a` at 10.55.0.1 and `b` at 10.55.0.2, who know each other as host-a and host-b."""

    def __init__(self, folder):
        known = "10.55.0.1 host-a\n10.55.0.2 host-b\n"
        self.a = Host("host-a", "10.55.0.1", folder, known)
        self.b = Host("host-b", "10.55.0.2", folder, known)
        self.a.cable, self.b.cable = f"tca{os.getpid()}", f"tcb{os.getpid()}"

    def __enter__(self):
        for host in (self.a, self.b):
            ip("netns", "add", host.space)
        ip("link", "add", self.a.cable, "netns", self.a.space, "type", "veth", "peer", "name", self.b.cable, "netns",
           self.b.space)
        for host in (self.a, self.b):
            ip("-n", host.space, "address", "add", f"{host.address}/24", "dev", host.cable)
            ip("-n", host.space, "link", "set", host.cable, "up")
            ip("-n", host.space, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        for host in (self.a, self.b):
            for pid in host.leftovers():
                os.kill(int(pid), signal.SIGKILL)
            for process in host.processes:
                process.communicate()
            subprocess.run(["ip", "netns", "delete", host.space], capture_output=True)


def finish(process, timeout=60):
    """Exit code and what it has printed."""
    out, err = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
