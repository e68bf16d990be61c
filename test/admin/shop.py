"""Issues a key for each line `order,e-mail` of orders.csv, and writes it to keys.csv. It can be killed at any time."""
import csv, json, os, time, urllib.error, urllib.request

URL, TOKEN = os.environ["CLAVIGER_ADMIN_URL"], os.environ["CLAVIGER_TOKEN"]

def issue(order, email):
    body = json.dumps({"email": email, "tier": "free", "external_id": order}).encode()
    headers = {"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": f"shop-order-{order:0>20}"}
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{URL}/admin/v1/keys", body, headers), timeout=10) as answer:
                return json.load(answer)["api_key"]
        except urllib.error.HTTPError as error:
            if error.code not in (429, 500, 503): raise SystemExit(f"order {order}: {error.read().decode()}")
        except OSError: pass  # The service is away: the same request once more gives the same key.
        time.sleep(0.5)

with open("keys.csv", "a+") as keys, open("orders.csv") as orders:
    keys.seek(0)
    done = {line[0] for line in csv.reader(keys)}
    for order, email in csv.reader(orders):
        if order not in done: print(order, issue(order, email), sep=",", file=keys, flush=True)
