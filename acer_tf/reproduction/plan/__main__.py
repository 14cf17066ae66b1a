"""Times one kind of cell for `measured`: a line of JSON in, "ready" out when warm, a line in, its Speed out."""

import json
import os
import sys

from acer_tf.reproduction.plan.measure import time_loop
from acer_tf.settings import settings_from


def main() -> None:
    # What simulators print must not come between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    request = json.loads(sys.stdin.readline())

    def begin() -> None:
        print("ready", file=answers, flush=True)
        sys.stdin.readline()

    speed = time_loop(settings_from(request["settings"]), request["threads"], begin)
    print(json.dumps(speed), file=answers, flush=True)


if __name__ == "__main__":
    main()
