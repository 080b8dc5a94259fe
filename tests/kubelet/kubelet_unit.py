"""A kubelet that is kubelet.service in the container: started, ended, held."""

from container import eventually


class KubeletUnit:
    def __init__(self, container):
        self._container = container

    def start_kubelet(self):
        """Returns when it looks at plugins_registry; at once if it runs already."""
        if self._is_active():
            return
        mark = self.mark()
        self._systemctl("start", "kubelet")
        eventually("the kubelet watches plugins_registry", lambda: self.is_watching_since(mark))

    def stop_kubelet(self):
        self._systemctl("stop", "kubelet")

    def kill_kubelet(self):
        """As by kill -9."""
        self._signal("KILL")
        eventually("the kubelet has ended", lambda: not self._is_active())
        self._systemctl("reset-failed", "kubelet")

    def hold_kubelet(self):
        """Until it is let go of it does nothing, and forgets nothing."""
        self._signal("STOP")

    def release_kubelet(self):
        self._signal("CONT")

    def stumbled_since(self, mark):
        """What its log says of links that it looked at too early."""
        return [line for line in self.lines_since(mark) if "-reg.sock failed: " in line and "stat file " in line]

    def _is_active(self, unit="kubelet"):
        return "=active" in self._systemctl("show", "--property=ActiveState", unit).stdout

    def _signal(self, name, unit="kubelet"):
        self._systemctl("kill", f"--signal={name}", unit)

    def _systemctl(self, *arguments):
        return self._container.run("systemctl", *arguments)
