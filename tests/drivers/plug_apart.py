"""A smart plug as a process of its own, by its maker's published topics: `python plug_apart.py KIND PORT NAME MAC`.

It shares no code with rigctl. Kinds: tasmota, shelly, esphome and zigbee2mqtt. 100 W flow while it is on. Whoever
publishes to `bench/NAME` does to it what people and the mains do: `cut` its power for 0.3 s, let it `forget` its
settings and keep none from then on, make it `mute` (or `mute off`), push its `button`, `reset` its counter, or take
a client's name that another has (`steal NAME`). Under `bench/NAME/is` it says what it is doing.
"""

import json
import sys
import threading
import time

from paho.mqtt import client as paho

WATTS = 100.0


class Plug:
    """A relay, its timer and its counter."""

    def __init__(self, port, name, mac):
        self.port, self.name, self.mac = port, name, mac
        self.on, self.off_at_s, self.kwh, self.seen_s = False, None, 1.234, time.monotonic()
        self.mute, self.commands, self.settings, self.forgets = False, [], {}, False
        self.client = None

    def power_up(self):
        """The relay is as the settings say; a timer begins anew, in full."""
        self.switch(self.powers_up_on())
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, f"plug-{self.name}-{self.mac}")
        self.client.will_set(*self.will("offline"), qos=1, retain=True)
        self.client.on_message = lambda _client, _data, message: self.heard(message.topic, message.payload.decode())
        self.client.on_connect = self.connected
        self.client.connect("127.0.0.1", self.port, 5)
        self.client.loop_start()

    def connected(self, client, *_):
        for topic in (*self.topics(), f"bench/{self.name}"):
            client.subscribe(topic, qos=1)
        client.publish(*self.will("online"), qos=1, retain=True)
        self.tell()

    def power_down(self):
        client, self.client = self.client, None
        client.loop_stop()
        client.socket().close()  # the broker tells its last will
        self.switch(False)

    def heard(self, topic, text):
        if topic == f"bench/{self.name}":
            threading.Thread(target=self.done_to, args=text.partition(" ")[::2]).start()
        elif not self.mute:
            self.commands.append((topic, text))
            self.command(topic, text)
        self.tell()

    def done_to(self, what, value):
        if what == "cut":
            self.power_down()
            time.sleep(float(value or 0.3))
            self.power_up()
        elif what == "forget":
            self.settings, self.forgets = {}, True
            self.start_timer(0)
        elif what == "mute":
            self.mute = value != "off"
        elif what == "button":
            self.switch(not self.on)
        elif what == "reset":
            self.count()
            self.kwh = 0.0
        elif what == "steal":
            self.thief = paho.Client(paho.CallbackAPIVersion.VERSION2, value, protocol=paho.MQTTv5)
            self.thief.connect("127.0.0.1", self.port, 5)
            self.thief.loop_start()
            time.sleep(0.5)
            self.thief.disconnect()
        self.tell()

    def tell(self):
        if self.client is not None:
            state = {"on": self.on, "timer": self.off_at_s is not None, "commands": len(self.commands)}
            self.client.publish(f"bench/{self.name}/is", json.dumps(state), qos=1, retain=True)

    def keep(self, **settings):
        self.settings |= {} if self.forgets else settings

    def publish(self, topic, what):
        self.client.publish(topic, what if isinstance(what, str) else json.dumps(what))

    def switch(self, on, seconds=None):
        self.count()
        self.on = on
        self.start_timer(self.timer_s() if seconds is None else seconds)

    def start_timer(self, seconds):
        self.off_at_s = time.monotonic() + seconds if self.on and seconds else None

    def count(self):
        now_s = time.monotonic()
        self.kwh += WATTS * (now_s - self.seen_s) / 3.6e6 if self.on else 0.0
        self.seen_s = now_s

    def run(self):
        self.power_up()
        print("ready", flush=True)
        while True:
            time.sleep(0.02)
            self.say(f"{21 + time.monotonic() % 1:.3f}")
            if self.off_at_s is not None and time.monotonic() >= self.off_at_s:
                self.switch(False)
                self.switched_itself()
                self.tell()

    def say(self, value):
        """Say its measurement by itself."""

    def switched_itself(self):
        """Say that it went off."""


class Tasmota(Plug):
    """`stat/NAME/RESULT`, PulseTime and PowerOnState."""

    def topics(self):
        return (f"cmnd/{self.name}/+",)

    def will(self, word):
        return f"tele/{self.name}/LWT", word.capitalize()

    def timer_s(self):
        raw = self.settings.get("PulseTime", 0)
        return raw / 10 if raw < 112 else raw - 100

    def powers_up_on(self):
        return self.settings.get("PowerOnState", 3) == 3 and self.on

    def remaining(self):
        if self.off_at_s is None:
            return 0
        left_s = max(0.0, self.off_at_s - time.monotonic())
        return round(left_s * 10) if left_s < 11.1 else round(left_s + 100)

    def switched_itself(self):
        self.publish(f"stat/{self.name}/RESULT", {"POWER": "OFF"})

    def command(self, topic, text):
        command, stat = topic.rpartition("/")[2].lower().rstrip("1"), f"stat/{self.name}"
        power = "ON" if self.on else "OFF"
        if command == "power":
            if text:
                self.switch(text == "ON")
            self.publish(f"{stat}/RESULT", {"POWER": "ON" if self.on else "OFF"})
        elif command == "pulsetime":
            if text:
                self.keep(PulseTime=int(text))
                self.start_timer(self.timer_s())
            said = {"PulseTime1": {"Set": self.settings.get("PulseTime", 0), "Remaining": self.remaining()}}
            self.publish(f"{stat}/RESULT", said)
        elif command == "poweronstate":
            if text:
                self.keep(PowerOnState=int(text))
            self.publish(f"{stat}/RESULT", {"PowerOnState": self.settings.get("PowerOnState", 3)})
        elif command == "status" and text == "5":
            self.publish(f"{stat}/STATUS5", {"StatusNET": {"Hostname": self.name, "Mac": self.mac}})
        elif command == "status" and text == "8":
            self.count()
            energy = {"Total": round(self.kwh, 6), "Power": WATTS if self.on else 0}
            sensors = {"Time": "2026-11-27T12:00:00", "ENERGY": energy, "AM2301": {"Temperature": 21.5}}
            self.publish(f"{stat}/STATUS8", {"StatusSNS": sensors})
        elif command in ("status", "state"):
            self.publish(f"{stat}/STATUS11", {"StatusSTS": {"Uptime": "0T00:01:00", "POWER": power}})
        else:
            self.publish(f"{stat}/RESULT", {"Command": "Unknown"})


class Shelly(Plug):
    """RPC over MQTT."""

    def topics(self):
        return (f"{self.name}/rpc",)

    def will(self, word):
        return f"{self.name}/online", {"online": "true", "offline": "false"}[word]

    def timer_s(self):
        return self.settings.get("auto_off_delay", 60.0) if self.settings.get("auto_off") else 0

    def powers_up_on(self):
        return self.settings.get("initial_state", "restore_last") == "restore_last" and self.on

    def command(self, topic, text):
        asked = json.loads(text)
        result, params = self.result(asked["method"], asked.get("params", {})), asked.get("params", {})
        answer = {"id": asked["id"], "src": self.name, "dst": asked["src"]}
        if result is None or params.get("id", 0) != 0:
            answer["error"] = {"code": 404, "message": f"No handler for {asked['method']}"}
        else:
            answer["result"] = result
        self.publish(f"{asked['src']}/rpc", answer)

    def result(self, method, params):
        if method == "Shelly.GetDeviceInfo":
            return {"id": self.name, "mac": self.mac, "gen": 2, "app": "Plus1PM"}
        if method == "Switch.Set":
            was = self.on
            self.switch(params["on"], params.get("toggle_after"))
            return {"was_on": was}
        if method == "Switch.GetStatus":
            self.count()
            return {
                "id": 0,
                "output": self.on,
                "apower": WATTS if self.on else 0.0,
                "aenergy": {"total": self.kwh * 1e3},
            }
        if method == "Switch.SetConfig":
            self.keep(**params["config"])
            return {"restart_required": False}
        if method == "Switch.GetConfig":
            return {
                "id": 0,
                "auto_off": False,
                "auto_off_delay": 60.0,
                "initial_state": "restore_last",
                **self.settings,
            }
        return None


class Esphome(Plug):
    """Says its sensors by itself, kept by the broker."""

    def topics(self):
        return ()

    def will(self, word):
        return f"{self.name}/status", word

    def timer_s(self):
        return 0

    def powers_up_on(self):
        return False

    def say(self, value):
        if not self.mute and self.client is not None:
            self.client.publish(f"{self.name}/sensor/water/state", value, retain=True)


class Zigbee(Plug):
    """A plug and its bridge, whose cache is off."""

    def topics(self):
        return (f"{self.name}/set", f"{self.name}/get")

    def will(self, word):
        return "zigbee2mqtt/bridge/state", json.dumps({"state": word})

    def connected(self, client, *rest):
        super().connected(client, *rest)
        info = {"config": {"advanced": {"cache_state": self.settings.get("cache", False)}}}
        client.publish("zigbee2mqtt/bridge/info", json.dumps(info), qos=1, retain=True)

    def timer_s(self):
        return 0

    def powers_up_on(self):
        return self.on

    def command(self, topic, text):
        asked = json.loads(text)
        if topic.endswith("/set"):
            self.switch(asked["state"] == "ON")
        self.count()
        known = {"state": "ON" if self.on else "OFF", "power": WATTS if self.on else 0, "energy": round(self.kwh, 2)}
        self.publish(self.name, {key: known[key] for key in asked})


if __name__ == "__main__":
    kind, port, name, mac = sys.argv[1:]
    kinds = {"tasmota": Tasmota, "shelly": Shelly, "esphome": Esphome, "zigbee2mqtt": Zigbee}
    kinds[kind](int(port), name, mac).run()
