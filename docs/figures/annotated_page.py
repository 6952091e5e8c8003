"""Takes docs/figures/annotated_page.png, the picture in docs/quickstart.md, with Chromium.

    python docs/figures/annotated_page.py quickstart/articles.html

The page is the one that the quick start writes; the picture has its beginning.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURE = Path(__file__).with_suffix(".png")
WIDTH, HEIGHT = 900, 560  # pixels


def main() -> None:
    page = Path(sys.argv[1]).resolve()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("Chromium is not installed: apt-get install chromium.")
    with tempfile.TemporaryDirectory() as profile:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        flags += [f"--user-data-dir={profile}", f"--window-size={WIDTH},{HEIGHT}"]
        flags += [f"--screenshot={PICTURE}", page.as_uri()]
        subprocess.run([chromium, *flags], check=True, capture_output=True, timeout=120)
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
