"""Instrument classes as a lab writes them on pyvisa, good and bad, and an instrument for them."""

import re
import time

import pyvisa


class Scpi:
    """An instrument that answers each question with what was last set: `POW 5` and then `POW?`."""

    def __init__(self, idn="Acme,F-1,77,1.0", **held):
        self.idn = idn
        self.held = held
        self.asked = []

    def __call__(self, command):
        self.asked.append(command.strip())
        question = re.fullmatch(r"(\S+?)\?(.*)", self.asked[-1])
        told = re.fullmatch(r"(\S+) ([^,\s]+).*", self.asked[-1])
        if self.asked[-1] == "*IDN?":
            return [self.idn]
        if "ERR" in self.asked[-1].upper():
            return ['0,"No error"']
        if question:
            return [self.held.get(question[1], "0")]
        if told:
            self.held[told[1]] = told[2]
        return []


class Furnace:
    """A furnace of 20 kW."""

    def __init__(self, resource, visa_library=None, **settings):
        manager = pyvisa.ResourceManager(visa_library)
        self.connection = manager.open_resource(resource, **settings)

    @property
    def id(self):
        return self.connection.query("*IDN?").strip()

    @property
    def temperature(self):
        return float(self.connection.query("TEMP?"))

    @property
    def power(self):
        return float(self.connection.query("POW?"))

    @power.setter
    def power(self, value):
        self.connection.write(f"POW {value:g}")

    @property
    def burning(self):
        return bool(int(self.connection.query("OUTP?")))

    @burning.setter
    def burning(self, value):
        self.connection.write(f"OUTP {int(value)}")

    def shutdown(self):
        """Do what a class may think safe."""
        self.connection.write("POW 20")


class Sleeper(Furnace):
    """Sleeps before it asks, and then wants to set something."""

    def __init__(self, *given, asleep_s=5.0, **settings):
        super().__init__(*given, **settings)
        self.asleep_s = asleep_s

    @property
    def temperature(self):
        time.sleep(self.asleep_s)
        self.connection.write("POW 20")
        return super().temperature


class Slow(Furnace):
    """Asks, sleeps, and only then reads."""

    @property
    def temperature(self):
        self.connection.write("TEMP?")
        time.sleep(0.3)
        return float(self.connection.read())


class Insistent(Furnace):
    """Asks again, whatever went wrong, and never gives up."""

    @property
    def temperature(self):
        while True:
            try:
                return super().temperature
            except pyvisa.errors.VisaIOError:
                continue


class Quits(Furnace):
    """Ends the program where it does not know what to do."""

    @property
    def temperature(self):
        raise SystemExit(1)


class Liar(Furnace):
    """Remembers what was set instead of asking."""

    @property
    def power(self):
        return self.told

    @power.setter
    def power(self, value):
        self.told = value
        self.connection.write(f"POW {value / 2:g}")


class Refuses(Furnace):
    """Cannot be made."""

    def __init__(self, *given, **settings):
        super().__init__(*given, **settings)
        raise RuntimeError("no licence")


class Truncating(Furnace):
    """Makes 10 kW of whatever is more, and says nothing."""

    @property
    def power(self):
        return super().power

    @power.setter
    def power(self, value):
        self.connection.write(f"POW {min(value, 10):g}")


class Deaf(Furnace):
    """Its power can be set and not read."""

    @property
    def power(self):
        raise LookupError("cannot be read")

    @power.setter
    def power(self, value):
        self.connection.write(f"POW {value:g}")


class Port(Furnace):
    """Wants its serial port otherwise."""

    def __init__(self, *given, **settings):
        super().__init__(*given, baud_rate=19200, parity=pyvisa.constants.Parity.odd, **settings)


class Nameless(Furnace):
    """Does not know `*IDN?`."""

    @property
    def id(self):
        raise NotImplementedError


class Talker(Furnace):
    """Asks who is there while it is made."""

    def __init__(self, *given, **settings):
        super().__init__(*given, **settings)
        self.name = self.id
