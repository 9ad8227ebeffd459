"""
A Scrapy downloader middleware that drops a page if a worker has seen a copy of it, before anything
stores it. Scrapy 2.14 or newer.

DOWNLOADER_MIDDLEWARES = {"scrapy_seen.SeenMiddleware": 50}; NEARDUP_WORKER = "http://worker:9464";
NEARDUP_ASK_TOKEN = the worker's ask_token.
"""

import asyncio
import json
import logging
from datetime import UTC, datetime
from urllib.request import Request, urlopen

from scrapy.exceptions import IgnoreRequest


class SeenMiddleware:
    def __init__(self, settings):
        self.address = settings["NEARDUP_WORKER"] + "/v1/seen"
        token = settings["NEARDUP_ASK_TOKEN"]
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    from_crawler = classmethod(lambda cls, crawler: cls(crawler.settings))

    async def process_response(self, request, response):  # noqa: ARG002
        if hasattr(response, "text") and response.status == 200:
            page = {"url": response.url, "html": response.text}
            answer = await asyncio.to_thread(self.ask, page)
            if answer.get("verdict") == "duplicate":
                logging.info("%s is a copy of %s", response.url, answer["duplicate_of"]["url"])
                raise IgnoreRequest("a copy")
        return response

    def ask(self, page):
        body = json.dumps(page | {"fetched_at": datetime.now(UTC).isoformat()}).encode()
        try:
            with urlopen(Request(self.address, body, self.headers), timeout=10) as answer:  # noqa: S310
                return json.load(answer)
        except OSError as error:  # the worker is busy, replays or is down: keep the page
            logging.warning("no worker could say whether %s is a copy: %s", page["url"], error)
            return {}
