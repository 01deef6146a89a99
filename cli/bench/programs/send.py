# A message sent: it is on the disk until Chat has it.
# It does not try again, keep to Chat's limits, or keep what it sends from being read as markup.
import http.client
import json
import os
import sys
import time
from urllib.parse import urlsplit

text = "[Done] %s, %s\n\n%s" % (
    os.environ["CLAUDE_SESSION_ID"], time.strftime("%Y-%m-%d %H:%M:%S"), sys.argv[-1])
body = json.dumps({"text": text})
folder = os.environ["HOME"] + "/outbox"
os.makedirs(folder, exist_ok=True)
path = "%s/%d.json" % (folder, os.getpid())
with open(path + ".tmp", "w") as f:
    f.write(body)
    f.flush()
    os.fsync(f.fileno())
os.rename(path + ".tmp", path)

url = urlsplit(os.environ["GOOGLE_CHAT_WEBHOOK_URL"])
connect = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}[url.scheme]
connection = connect(url.netloc, timeout=3)
connection.request("POST", url.path + "?" + url.query, body, {"Content-Type": "application/json; charset=UTF-8"})
response = connection.getresponse()
response.read()
if response.status != 200:
    sys.exit("not sent: %d" % response.status)
os.remove(path)
print("sent")
