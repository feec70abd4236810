"""A dosing pump as a process of its own, by the maker's data sheet: `python pump_apart.py FAULT`.

It shares no code with rigctl or the simulated rig. It stands at a pseudo-terminal at 9600 baud, takes 300 ms over each
command, and gives at its rate by the wall clock. Its first line is where it is; once standard input is closed it tells
as JSON what it gave, and ends.

Its motor does not stop at the volume that it was asked for. From the dose on, after its `*OK`,

    mute   nothing that it says arrives, until it has been stopped;
    cut    nothing arrives either way, until somebody has tried to stop it and then asks how it is.
"""

import json
import os
import select
import sys
import time
import tty

RATE_ML_PER_S = 58.5 / 60.0
PROCESSING_S = 0.3
BYTE_S = 10.0 / 9600.0


class Motor:
    """Turns, and keeps what it gave."""

    def __init__(self):
        self.running, self.last_ml, self.total_ml, self.seen_s = False, 0.0, 0.0, time.monotonic()

    def turn(self):
        now_s = time.monotonic()
        if self.running:
            self.last_ml += RATE_ML_PER_S * (now_s - self.seen_s)
            self.total_ml += RATE_ML_PER_S * (now_s - self.seen_s)
        self.seen_s = now_s


class Pump:
    """Answers, unless its line is broken."""

    def __init__(self, fault):
        self.motor, self.fault, self.broken, self.tried = Motor(), fault, False, False
        self.doses, self.stops = [], 0

    def answer(self, command):
        self.motor.turn()
        if self.broken and self.fault == "cut":
            if command == "X" or not self.tried:
                self.tried = self.tried or command == "X"
                return ""
            self.broken = False
        said = self.carried_out(command)
        if command == "X":
            self.broken = False
        silent, self.broken = self.broken, self.broken or (command.startswith("D,") and command != "D,?")
        return "" if silent else "".join(f"{line}\r" for line in said)

    def carried_out(self, command):
        motor = self.motor
        known = {
            "i": "?I,PMP,1.06",
            "D,?": f"?D,{motor.last_ml:.2f},{int(motor.running)}",
            "TV,?": f"?TV,{motor.total_ml:.2f}",
            "Dstart,?": "?DSTART,0.00",
            "DC,?": "?MAXRATE,58.5",
            "PV,?": "?PV,12.00",
        }
        if command in known:
            return [known[command], "*OK"]
        if command == "X":
            self.stops += 1
            motor.running = False
            return [f"*DONE,{motor.last_ml:.2f}"]
        if command.startswith("D,"):
            self.doses.append(float(command[2:]))
            motor.running, motor.last_ml = True, 0.0
            return ["*OK"]
        return ["*ER"]


def main(fault):
    near, far = os.openpty()
    tty.setraw(near)
    tty.setraw(far)
    print(os.ttyname(far), flush=True)
    pump, buffer = Pump(fault), b""
    while True:
        ready, _, _ = select.select([near, sys.stdin], [], [])
        if sys.stdin in ready and not sys.stdin.read(1):
            break
        buffer += os.read(near, 256) if near in ready else b""
        while b"\r" in buffer:
            command, buffer = buffer.split(b"\r", 1)
            time.sleep(PROCESSING_S + BYTE_S * len(command))
            for byte in pump.answer(command.decode("ascii", "replace")).encode():
                os.write(near, bytes([byte]))
                time.sleep(BYTE_S)
    pump.motor.turn()
    told = {"given_ml": pump.motor.total_ml, "running": pump.motor.running, "doses": pump.doses, "stops": pump.stops}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
