"""Runs `in_a_kernel.py` on Debian's kernel for 32-bit ARM, in QEMU's SABRE Lite, which has I2C and GPIO.

`python -m tests.drivers.on_a_kernel FOLDER` needs qemu-system-arm, busybox-static, `dpkg --add-architecture armhf` and
the network; it downloads 50 MB into the folder, and takes about two minutes. Of pydantic, which is no pure Python, the
machine has a stand-in.
"""

import gzip
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    *("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6", "libgcc-s1", "libexpat1"),
    *("zlib1g", "libffi8", "libcrypt1", "libuuid1", "busybox-static"),
)
ENDED = b"that was all"
LONGEST_S = 300.0
MODULES = ("i2c/i2c-dev", "i2c/busses/i2c-imx", "gpio/gpio-mxc")
OURS = ("rigctl/printable.py", "rigctl/flaws.py", "rigctl/errors.py", "rigctl/rig", "drivers/rigctl_drivers")
PYDANTIC = """
def ConfigDict(**given): return given
def Field(default=None, **given): return default
def field_validator(*names, **given): return lambda function: function
model_validator = field_validator
class ValidationError(Exception): pass
class BaseModel:
    def __init__(self, **given): self.__dict__.update(given)
"""
INIT = """#!/bin/busybox sh
busybox=/bin/busybox
$busybox mount -t proc none /proc
$busybox mount -t sysfs none /sys
$busybox mount -t devtmpfs none /dev
$busybox mount -t debugfs none /sys/kernel/debug
for module in /modules/*.ko; do $busybox insmod $module; done
$busybox sleep 2
PYTHONPATH=/app /usr/bin/python3.11 -S /app/in_a_kernel.py 2>&1
echo that was all
$busybox sleep 1000
"""


def run(*command: str | Path, folder: Path) -> str:
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def fetched(folder: Path) -> Path:
    """Debian's packages, unpacked."""
    told = run("apt-cache", "depends", "linux-image-armmp:armhf", folder=folder)
    kernel = next(line.split()[-1] for line in told.splitlines() if "linux-image" in line and "Depends" in line)
    run("apt-get", "download", kernel, *(f"{name}:armhf" for name in PACKAGES), folder=folder)
    for package in folder.glob("*.deb"):
        run("dpkg", "-x", package, folder / "debian", folder=folder)
    return folder / "debian"


def initrd(folder: Path, debian: Path) -> Path:
    """What the machine starts from."""
    root = folder / "initrd"
    for part in ("usr/bin", "usr/lib/python3.11", "usr/lib/arm-linux-gnueabihf", "lib/arm-linux-gnueabihf"):
        shutil.copytree(debian / part, root / part, symlinks=True, dirs_exist_ok=True)
    for name in ("lib/ld-linux-armhf.so.3", "bin/busybox"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy2(debian / name, root / name, follow_symlinks=False)
    for name in ("proc", "sys", "dev", "tmp", "modules", "app/rigctl"):
        (root / name).mkdir(parents=True)
    drivers = next((debian / "lib/modules").iterdir()) / "kernel/drivers"
    for number, name in enumerate(MODULES):
        shutil.copy(drivers / f"{name}.ko", root / "modules" / f"{number}.ko")
    for name in OURS:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, root / "app" / name.removeprefix("drivers/"))
    (root / "app/rigctl/__init__.py").touch()
    (root / "app/pydantic.py").write_text(PYDANTIC, encoding="utf-8")
    shutil.copy(ROOT / "tests/drivers/in_a_kernel.py", root / "app")
    (root / "init").write_text(INIT, encoding="utf-8")
    (root / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    packed = subprocess.run(
        ["busybox", "cpio", "-o", "-H", "newc"], cwd=root, check=True, stdout=subprocess.PIPE, input=names.encode()
    ).stdout
    (image := folder / "initrd.gz").write_bytes(gzip.compress(packed, 1))
    return image


def main() -> int:
    """Run it; 0 if all of it holds."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True)
    debian = fetched(folder)
    image, console = initrd(folder, debian), folder / "console"
    board = next((debian / "usr/lib").glob("linux-image-*")) / "imx6q-sabrelite.dtb"
    machine = ["-M", "sabrelite", "-m", "512", "-display", "none", "-monitor", "none", "-no-reboot"]
    machine += ["-kernel", str(next((debian / "boot").glob("vmlinuz-*"))), "-dtb", str(board), "-initrd", str(image)]
    machine += [
        "-append",
        "console=ttymxc1 rdinit=/init panic=-1 quiet",
        "-device",
        "tmp105,bus=i2c-bus.0,address=0x49",
    ]
    machine += ["-serial", "null", "-serial", f"file:{console}"]
    console.touch()
    until_s = time.monotonic() + LONGEST_S
    with subprocess.Popen(["qemu-system-arm", *machine]) as qemu:
        while qemu.poll() is None and time.monotonic() < until_s and ENDED not in console.read_bytes():
            time.sleep(1.0)
        qemu.terminate()
    said = console.read_text(encoding="utf-8", errors="replace")
    print(said[said.find("kernel ") :])
    return 0 if all(f"{part} holds" in said for part in ("i2c", "gpio", "killed")) else 1


if __name__ == "__main__":
    sys.exit(main())
