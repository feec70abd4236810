"""Who hears of a campaign, as its configuration says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from rigctl.config.load import LoadedConfig
from rigctl.errors import RigctlError
from rigctl.notify.services import parsed
from rigctl.telling import NotifySpec, Secret


def told(loaded: LoadedConfig) -> Mapping[str, Any] | None:
    """Return who is told what, for programs; None where nobody is to be told."""
    telling = loaded.telling
    if not telling:
        return None
    found: dict[str, Any] = {}
    if telling.notify is not None:
        found["notify"] = _notify(telling.notify)
    if telling.metrics is not None:
        found["metrics"] = {
            "textfile": telling.metrics.textfile,
            "port": telling.metrics.port,
            "installed": find_spec("prometheus_client") is not None,
        }
    return found


def _notify(spec: NotifySpec) -> Mapping[str, Any]:
    answer: dict[str, Any] = {"installed": find_spec("apprise") is not None}
    answer |= {"at_least": spec.at_least, "daily": spec.daily, "zone": spec.zone}
    if spec.urls is not None:
        try:
            found = parsed(spec.urls.lines())
            names = [service.name for service in found.services]
            answer["urls"] = {"in": str(spec.urls), "services": names, "not_understood": list(found.refused)}
        except RigctlError as error:
            answer["urls"] = {"in": str(spec.urls), "services": [], "trouble": str(error)}
    if spec.alive is not None:
        answer["alive"] = {
            "in": str(spec.alive.url),
            "every_s": spec.alive.every_s,
            "trouble": _trouble(spec.alive.url),
        }
    return answer


def _trouble(secret: Secret) -> str | None:
    try:
        secret.lines()
    except RigctlError as error:
        return str(error)
    return None


def _receivers(notify: Mapping[str, Any], *, troubles: bool) -> str:
    """Return who gets messages, from which severity on, and what is wrong with their URLs."""
    urls = notify["urls"]
    names = ", ".join(urls["services"]) or "nobody"
    refused = ", ".join(map(str, urls.get("not_understood", ())))
    wrong = f"; URL {refused} of it not understood" if refused else ""
    why = f": {urls['trouble']}" if troubles and "trouble" in urls else ""
    daily = f", and every day at {notify['daily']}" if notify["daily"] else ""
    return f"tells {names} ({urls['in']}) from {notify['at_least']} on{daily}{wrong}{why}"


def who_is_told(found: Mapping[str, Any] | None, *, troubles: bool = True) -> Iterator[str]:
    """Yield for people who is told what, and what is wrong with that unless it is told elsewhere."""
    notify, metrics = (found or {}).get("notify"), (found or {}).get("metrics")
    if notify is not None and not notify["installed"]:
        yield "tells nobody: apprise is not installed; pip install 'rigctl[notify]'"
    elif notify is not None and "urls" in notify:
        yield _receivers(notify, troubles=troubles)
    if notify is not None and "alive" in notify:
        alive = notify["alive"]
        why = f": {alive['trouble']}" if troubles and alive["trouble"] else ""
        yield f"gives a sign of life every {alive['every_s'] / 60:g} min ({alive['in']}){why}"
    if metrics is not None:
        places = [metrics["textfile"], metrics["port"] and f"http://127.0.0.1:{metrics['port']}/metrics"]
        missing = "" if metrics["installed"] else ": prometheus-client is not installed; pip install 'rigctl[notify]'"
        yield f"metrics: {' and '.join(filter(None, places))}{missing}"
