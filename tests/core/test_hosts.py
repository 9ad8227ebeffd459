"""One server has one host, however a URL writes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.hosts import HOST_BYTES_MAX, host_name, host_of

# Hosts, and what URLs write for them.
SPELLINGS: dict[str, tuple[str, ...]] = {
    "example.org": (
        "http://example.org",
        "HTTPS://Example.ORG/a",
        "http://example.org:8080",
        "http://example.org./",
        "http://user:word@example.org?a",
        "http://a@b@example.org#a",
        "http://ex%61mple.org/",
        "http://\uff45\uff58ample\u3002org/",
        " http://example.org/",
        "https://example.org\\@evil.example/",
    ),
    "xn--bcher-kva.example": (
        "http://b\u00fccher.example/",
        "http://B\u00dcCHER.Example./",
        "http://bu\u0308cher.example/",
        "http://b%C3%BCcher.example/",
        "http://XN--BCHER-KVA.example/",
    ),
    "xn--strae-oqa.example": ("http://stra\u00dfe.example/", "http://STRA\u00dfE.example/"),
    "strasse.example": ("http://strasse.example/",),
    "[::1]": ("http://[::1]:80/", "http://[::1]"),
    "": (
        "",
        "example.org",
        "javascript:1",
        "mailto:a@example.org",
        "//example.org/",
        "http://",
        "http://./",
        "file:///a",
        "http://" + "a" * (HOST_BYTES_MAX + 1),
        "http://" + "a." * 500_000,
        "http://a%2Fb.example/",
        "http://a%0Ab.example/",
        "http://a%00b/",
        "http://a%25b/",
        "http://a%2525b/",
        "http://100%/",
        "http://%zz.example/",
        "http://a\uff0fb.example/",
        "http://100\uff05/",
        "http://a b.example/",
        "http://[::1%25eth0]/",
        "http://[/",
    ),
}


@pytest.mark.parametrize("host", SPELLINGS)
def test_one_host_has_one_spelling(host: str) -> None:
    """In any case, with a port, a user, a point at the end, escapes, or in Punycode."""
    assert {host_of(url) for url in SPELLINGS[host]} == {host}


@given(
    st.text(
        st.sampled_from(
            "aA.\u00df\u00e4\u0130\u03c2\u3002\u4e2d%024f-:[]@/x\u0308\ud800\uff05\uff0f"
        )
    )
    | st.text()
)
def test_any_text_is_answered(text: str) -> None:
    """The name of a name is itself, and a URL with it has that host: it ends no line and no host."""
    assert host_of(f"http://{text}") is not None
    name = host_name(text)
    assert host_name(name) == name
    if len(name) <= HOST_BYTES_MAX:
        assert host_of(f"http://{name}/a") == name
