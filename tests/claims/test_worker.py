from cameraready.claims.worker import from_line, hash_sources, to_line


def test_events_survive_the_pipe():
    event = {"event": "figure", "files": {"light.svg": b"\x00\xff<svg/>"}, "name": "é\n"}
    line = to_line(event)
    assert "\n" not in line
    assert from_line(line) == event


def test_the_hash_follows_the_sources(tmp_path, monkeypatch):
    package = tmp_path / "hashed"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('hashing imports nothing')")
    (package / "claims.py").write_text("x = 1")
    monkeypatch.syspath_prepend(tmp_path)
    first = hash_sources("hashed.claims:experiment")
    assert hash_sources("hashed.claims:experiment") == first
    (package / "claims.py").write_text("x = 2")
    assert hash_sources("hashed.claims:experiment") != first
