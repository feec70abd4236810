"""EZO circuits to script lines with, written for these tests from the data sheets."""


class Pump:
    """An EZO-PMP as its data sheet describes it; dispensing takes as long as the test wants."""

    def __init__(self):
        self.total_ml = self.last_ml = 0.0
        self.running = False
        self.dstart = "0.00"
        self.override = {}
        """Command -> lines, instead of what it would answer."""

    def finish(self, ml=None):
        """The dispense ends; the code it sends."""
        self.last_ml = self.last_ml if ml is None else ml
        self.total_ml += self.last_ml
        self.running = False
        return f"*DONE,{self.last_ml:.2f}".encode()

    def __call__(self, command):
        if command in self.override:
            return self.override[command]
        answers = {
            "i": "?I,PMP,1.06",
            "D,?": f"?D,{self.last_ml:.2f},{int(self.running)}",
            "TV,?": f"?TV,{self.total_ml:.2f}",
            "Dstart,?": f"?DSTART,{self.dstart}",
            "DC,?": "?MAXRATE,58.5",
            "PV,?": "?PV,12.00",
        }
        if command in answers:
            return [answers[command], "*OK"]
        if command == "X":
            stopped, self.running = self.running, False
            return ["*DONE,0.00" if not stopped else f"*DONE,{self.last_ml:.2f}"]
        if command.startswith("D,"):
            self.last_ml, self.running = float(command[2:]), True
            return ["*OK"]
        return ["*ER"]


class Sleeper:
    """Answers as another does, but sleeps: what wakes it is lost."""

    def __init__(self, awake, says=("*WA",)):
        self.awake = awake
        self.says = list(says)
        self.asleep = True

    def __call__(self, command):
        if self.asleep:
            self.asleep = False
            return self.says
        return self.awake(command)
