import re
from pathlib import Path

from eclose import events as module
from eclose.events import Events


def test_every_listener_hears_every_event_in_order():
    heard = []
    events = Events([lambda event, fields: heard.append((1, event, fields))])
    events.listeners.append(lambda event, fields: heard.append((2, event, fields)))
    events.emit("step", trial=0, step=3)
    events.emit("end")
    assert heard == [
        (1, "step", {"trial": 0, "step": 3}),
        (2, "step", {"trial": 0, "step": 3}),
        (1, "end", {}),
        (2, "end", {}),
    ]


def test_nobody_listens():
    Events().emit("step", trial=0)


def test_listeners_are_not_shared():
    Events().listeners.append(print)
    assert Events().listeners == []


def test_the_guide_has_every_event() -> None:
    guide = (Path(__file__).parents[1] / "docs" / "guide" / "python.md").read_text(encoding="utf-8")
    listed = re.findall(r"^``(\w+)``", module.__doc__ or "", re.MULTILINE)
    assert listed == re.findall(r"^\| `(\w+)` \| ", guide.partition("## Listeners")[2], re.MULTILINE)
