"""A payments worker with nothing but the standard library: the same work as payments.mjs."""

import json
import os
import pathlib
import sys
import time
import urllib.error
import urllib.request


def written(name):
    """`legation dev` writes its address and a worker's key into the project's folder."""
    file = pathlib.Path(".legation", name)
    if not file.exists():
        sys.exit(f"no {file} here: run `legation dev` in this folder, or set LEGATION_URL and LEGATION_KEY")
    return file.read_text().strip()


URL = os.environ.get("LEGATION_URL") or written("url")
KEY = os.environ.get("LEGATION_KEY") or written("worker.key")
TOPIC = os.environ.get("TOPIC", "payments.payout")
LEDGER = pathlib.Path(os.environ.get("LEDGER", ".legation/payments.jsonl"))
WORKER = f"payments-py-{os.getpid()}"


def post(path, **body):
    request = urllib.request.Request(
        f"{URL}/v1/external-tasks/{path}",
        data=json.dumps({"workerId": WORKER, **body}).encode(),
        headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def pay(key, order):
    """The ledger stands for a payment provider: it knows a key that it has paid, and does not pay it again."""
    lines = LEDGER.read_text().splitlines() if LEDGER.exists() else []
    for line in map(json.loads, filter(None, lines)):
        if line["idempotencyKey"] == key:
            return line["payout_id"]
    payout_id = f"P-{key[:8]}"
    LEDGER.parent.mkdir(parents=True, exist_ok=True)
    with LEDGER.open("a") as ledger:
        ledger.write(json.dumps({"idempotencyKey": key, "payout_id": payout_id, **order}) + "\n")
    print(f"paid {order['amount']} {order['currency']} for order {order['orderId']}: {payout_id}", flush=True)
    return payout_id


print(f"{WORKER} waits for {TOPIC} at {URL}", flush=True)
while True:
    try:
        work = post("fetch-and-lock", topics=[TOPIC], lockDuration=30_000, maxTasks=1, longPollMs=20_000)
        for task in work["tasks"]:
            order = {name: task["variables"].get(name) for name in ("orderId", "amount", "currency")}
            payout_id = pay(task["idempotencyKey"], order)
            post(f"{task['id']}/complete", variables={"payout_id": payout_id})
    except urllib.error.HTTPError as refused:  # work that was not completed is leased again
        problem = json.load(refused)
        print(f"{problem['code']}: {problem.get('detail') or problem['title']}", flush=True)
        time.sleep(1)
    except OSError as error:
        print(f"engine not reached ({error}), trying again", flush=True)
        time.sleep(1)
    except KeyboardInterrupt:
        break
