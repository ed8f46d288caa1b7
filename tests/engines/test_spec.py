"""engine.toml: what is accepted, what it means, and the error for each defect."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tickproof.conformance.engines import spec
from tickproof.conformance.engines.security import Security
from tickproof.conformance.errors import InvalidFile, KitStopped
from tickproof.conformance.resources import fixtures

GOOD = """
[engine]
name = "example"
version = "1.4.0"
language = "python"
argv = ["{python}", "{here}/adapter.py", "{other}"]
drain_timeout_s = 5
transports = ["log"]
[claims]
state = "exactly-once"
delivery = "at-least-once"
survives = ["worker", "engine"]
rescale = "none"
[apps.passthrough]
[apps.double]
state = "none"
[apps.count]
emit = ["every", "some"]
survives = []
[apps.count.some]
delivery = "exactly-once"
survives = ["engine"]
[apps.market-spread]
inputs = ["merged", "two"]
emit = ["rejects", "verdicts"]
freshness_s = 5
[apps.market-spread.two]
delivery = "exactly-once"
[apps.market-spread.verdicts]
rescale = "restart"
[known_gaps]
EO-PAUSE = "planned"
"""


@pytest.fixture
def load(tmp_path):
    def load_text(text: str, ids=None):
        path = tmp_path / "engine.toml"
        path.write_text(text)
        return spec.load(path, ids)

    return load_text


def errors_of(load, text: str, ids=None) -> list[str]:
    with pytest.raises(InvalidFile) as raised:
        load(text, ids)
    path = raised.value.path
    assert str(raised.value) == "\n".join(f"{path}: {error}" for error in raised.value.errors)
    return raised.value.errors


def test_a_good_file(load, tmp_path):
    engine = load(GOOD, {"EO-PAUSE"})
    assert (engine.name, engine.version, engine.language) == ("example", "1.4.0", "python")
    assert engine.command() == [sys.executable, f"{tmp_path}/adapter.py", "{other}"]
    assert engine.timeouts == spec.Timeouts(startup_s=30, drain_s=5, recovery_s=60)
    assert engine.known_gaps == {"EO-PAUSE": "planned"}
    assert engine.path == tmp_path / "engine.toml"
    assert engine.apps == ("passthrough", "double", "count", "market-spread")


@pytest.mark.parametrize("runs", [1, 16])
def test_runs_for_each_processor(load, runs):
    given = GOOD.replace("[claims]", f"runs_per_processor = {runs}\n[claims]")
    assert (load(GOOD).runs_per_processor, load(given).runs_per_processor) == (None, runs)


@pytest.mark.parametrize("runs", ["0", "17", "1.5", "true", '"1"'])
def test_runs_for_each_processor_are_a_number(load, runs):
    (error,) = errors_of(load, GOOD.replace("[claims]", f"runs_per_processor = {runs}\n[claims]"))
    assert error.startswith("[engine] runs_per_processor: expected ")


@pytest.mark.parametrize(
    ("app", "params", "differs"),
    [
        ("passthrough", {}, {}),
        ("double", {}, {"state": "none"}),
        ("count", {"emit": "every"}, {"survives": ()}),
        ("count", {"emit": "some"}, {"survives": ("engine",), "delivery": "exactly-once"}),
        ("market-spread", {"inputs": "merged", "emit": "rejects"}, {}),
        ("market-spread", {"inputs": "merged", "emit": "verdicts"}, {"rescale": "restart"}),
        (
            "market-spread",
            {"inputs": "two", "emit": "verdicts"},
            {"rescale": "restart", "delivery": "exactly-once", "freshness_s": 5.0},
        ),
    ],
)
def test_claims_of_an_app_and_its_params(load, app, params, differs):
    base = {
        "state": "exactly-once",
        "delivery": "at-least-once",
        "survives": ("worker", "engine", "all-workers"),
        "rescale": "none",
        "freshness_s": None,
    }
    engine = load(GOOD)
    assert engine.offers(app, params)
    assert engine.claims(app, params) == spec.Claims(**base | differs)
    assert engine.claims(app, params).to_json()["survives"] == list((base | differs)["survives"])


@pytest.mark.parametrize(
    ("claimed", "found"),
    [
        ([], ()),
        (["worker"], ("worker",)),
        (["engine"], ("engine",)),
        (["worker", "all-workers"], ("worker", "all-workers")),
        (["engine", "worker"], ("engine", "worker", "all-workers")),
        (["all-workers", "engine", "worker"], ("all-workers", "engine", "worker")),
    ],
)
def test_the_death_of_every_process_implies_that_of_all_workers(load, claimed, found):
    engine = load(GOOD.replace('["worker", "engine"]', json.dumps(claimed), 1))
    assert engine.claims("passthrough", {}).survives == found


def test_the_loss_of_power_needs_the_death_of_the_engine(load):
    text = GOOD.replace('["worker", "engine"]', '["worker", "power"]', 1)
    assert errors_of(load, text) == ['[claims] survives: expected "engine" beside "power"']


def test_the_death_of_all_workers_needs_a_worker(load):
    text = GOOD.replace('["worker", "engine"]', '["all-workers", "engine"]', 1)
    assert errors_of(load, text) == ['[claims] survives: expected "worker" beside "all-workers"']


def test_deploy_has_the_limit_for_engines_that_take_it(load):
    params, finer = {"inputs": "two", "emit": "verdicts"}, {"price_decimals": 7}
    usual = load(GOOD)
    assert usual.deploy_params("market-spread", params, {}) == params
    with pytest.raises(KitStopped, match="expected finer_prices = true"):
        usual.deploy_params("market-spread", params, finer)
    taking = load(GOOD.replace("freshness_s", "finer_prices = true\nfreshness_s"))
    for recipe, limit in (({}, 500), (finer, 500_000)):
        expected = params | {"spread_limit": limit}
        assert taking.deploy_params("market-spread", params, recipe) == expected
    assert taking.deploy_params("count", {"emit": "every"}, {}) == {"emit": "every"}


def test_what_is_not_offered(load):
    text = GOOD.replace('emit = ["every", "some"]', 'emit = ["some"]')
    engine = load(text.replace("[apps.passthrough]", ""))
    assert not engine.offers("passthrough", {})
    assert not engine.offers("count", {"emit": "every"})
    assert not engine.offers("double", {"emit": "every"})
    assert engine.offers("count", {"emit": "some"})
    with pytest.raises(ValueError, match="does not offer count"):
        engine.claims("count", {"emit": "every"})


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            '["worker", "engine"]',
            '["worker", "wroker"]',
            "[claims] survives[1]: expected one of worker, all-workers, coordinator, engine, "
            "connection, power, broker, disk; got 'wroker'",
        ),
        (
            '["worker", "engine"]',
            '["worker", "broker"]',
            '[claims] survives: expected "broker" only where transports is ["kafka"]',
        ),
        (
            '["worker", "engine"]',
            '["engine", "disk"]',
            '[claims] survives: expected "disk" only where transports is ["kafka"]',
        ),
        (
            '["worker", "engine"]',
            '["worker", "disk"]',
            '[claims] survives: expected "engine" beside "disk"',
        ),
        ('version = "1.4.0"', "version = 1.4", "[engine] version: expected text; got 1.4"),
        ('version = "1.4.0"', "", "[engine] version: missing"),
        ('name = "example"', 'name = ""', "[engine] name: expected text that is not empty; got ''"),
        ('transports = ["log"]', "", "[engine] transports: missing"),
        ('["log"]', '["post"]', "[engine] transports[0]: expected one of log, kafka; got 'post'"),
        ('["log"]', '["kafka"]', '[kafka]: missing; required where transports is ["kafka"]'),
        ('["log"]', "[]", "[engine] transports: expected a list that is not empty; got []"),
        ("= 5\ntrans", '= "5"\ntrans', "[engine] drain_timeout_s: expected a number; got '5'"),
        ("= 5\ntrans", "= true\ntrans", "[engine] drain_timeout_s: expected a number; got True"),
        ("= 5\ntrans", "= 0\ntrans", "[engine] drain_timeout_s: expected a number above 0; got 0"),
        ('rescale = "none"', "", "[claims] rescale: missing"),
        ("[apps.double]", "[apps.treble]", "[apps.treble]: unknown key; expected one of"),
        ("[apps.double]", "[apps.double]\nemit = []", "[apps.double] emit: unknown key; expected"),
        ("[apps.count]", "[apps.count]\nemitt = []", "emit, or a table: every, some (did you"),
        ('emit = ["every", "some"]', "", "[apps.count] emit: missing"),
        ('["every", "some"]', '["some", "some"]', "[apps.count] emit: expected each value once;"),
        ('["every", "some"]', '["every"]', "[apps.count.some]: some is not offered by"),
        ("freshness_s = 5", "", '[apps.market-spread] freshness_s: missing; required where'),
        ('["merged", "two"]', '["merged"]', "freshness_s: expected only where inputs holds"),
        (
            'rescale = "restart"',
            'delivery = "at-least-once"',
            "[apps.market-spread.two] and [apps.market-spread.verdicts]: delivery differs;",
        ),
        ("EO-PAUSE", "EO-PAUZE", "(did you mean EO-PAUSE?)"),
        ('EO-PAUSE = "planned"', "EO-PAUSE = 1", "[known_gaps] EO-PAUSE: expected text; got 1"),
        ("[known_gaps]", "[gaps]", "[gaps]: unknown key; expected one of engine, claims, apps"),
    ],
)  # fmt: skip
def test_one_defect_one_error(load, old, new, error):
    assert GOOD.count(old) >= 1
    text = GOOD.replace(old, new, 1)
    assert any(error in line for line in errors_of(load, text, {"EO-PAUSE"}))


def over_kafka(roles: str) -> str:
    timeouts = "session_timeout_ms = 3000\ntransaction_timeout_ms = 10000\n"
    return GOOD.replace('["log"]', '["kafka"]') + f"[kafka]\n{timeouts}[kafka.roles]\n{roles}\n"


@pytest.mark.parametrize(
    ("roles", "error"),
    [
        ('coordinator = "Driver"', "[kafka.roles] worker: missing"),
        ('worker = "a"\nmaster = "b"', "[kafka.roles] master: unknown key"),
        ('worker = "("', "a regular expression that empty text does not match (missing ), unter"),
        ('worker = "x*"', "a regular expression that empty text does not match; got 'x*'"),
    ],
)
def test_roles_that_know_nobody(load, roles, error):
    assert any(error in line for line in errors_of(load, over_kafka(roles)))


@pytest.mark.parametrize(("value", "session_s"), [("1500", 1.5), ('"none"', 0.0)])
def test_a_timeout_of_kafka(load, value, session_s):
    loaded = load(over_kafka('worker = "a"').replace("= 3000", f"= {value}"))
    assert loaded.kafka.session_s == session_s
    assert loaded.timeouts.recovery_s >= session_s + loaded.kafka.transaction_s


@pytest.mark.parametrize("value", ["0", "-1", "3_600_001", "1.5", "true", '"None"', "[]"])
def test_a_timeout_of_kafka_that_is_none(load, value):
    text = over_kafka('worker = "a"').replace("= 3000", f"= {value}")
    (error,) = errors_of(load, text)
    assert error.startswith("[kafka] session_timeout_ms: expected milliseconds, 1 to 3600000, or ")


def test_roles_go_to_the_supervisor(load, tmp_path):
    (tmp_path / "adapter.py").touch()
    command = load(over_kafka("worker = 'Executor \\d+'")).command()
    assert command[command.index("1.4.0") + 1] == '{"worker": "Executor \\\\d+"}'


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        (
            'security = "tls"',
            "[kafka] security: expected one of plaintext, ssl, sasl_plaintext, sasl_ssl; got 'tls'",
        ),
        (
            'security = "sasl_ssl"\nsasl_mechanism = "GSSAPI"',
            "[kafka] sasl_mechanism: expected one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; "
            "got 'GSSAPI'",
        ),
        (
            'security = "ssl"\nsasl_mechanism = "PLAIN"',
            '[kafka] sasl_mechanism: expected only beside security = "sasl_plaintext" or '
            '"sasl_ssl"',
        ),
    ],
)
def test_a_security_of_kafka_that_is_none(load, keys, error):
    text = over_kafka('worker = "a"').replace("[kafka.roles]", f"{keys}\n[kafka.roles]")
    assert errors_of(load, text) == [error]


def test_the_security_of_kafka(load):
    text = over_kafka('worker = "a"')
    assert load(text).security == Security()
    asked = 'security = "sasl_ssl"\nsasl_mechanism = "PLAIN"\n[kafka.roles]'
    assert load(text.replace("[kafka.roles]", asked)).security == Security("sasl_ssl", "PLAIN")


@pytest.mark.parametrize(
    ("transport", "hosts", "error"),
    [
        ("log", 'worker = "any"', "[hosts] coordinator: missing; required where transports is "),
        ("log", 'coordinator = "first"', "[hosts] worker: missing"),
        ("kafka", 'worker = "any"\ncoordinator = "first"', "[hosts] coordinator: expected only wh"),
        ("roles", 'worker = "others"', "[hosts]: expected only without [kafka.roles]"),
    ],
)
def test_hosts_that_do_not_fit_the_transport(load, transport, hosts, error):
    text = GOOD if transport == "log" else over_kafka('worker = "a"')
    if transport == "kafka":
        text = text.replace('[kafka.roles]\nworker = "a"\n', "")
    (found,) = errors_of(load, f"{text}\n[hosts]\n{hosts}\n")
    assert found.startswith(error)


def test_the_place_of_workers_goes_to_the_supervisor(load, tmp_path):
    (tmp_path / "adapter.py").touch()
    text = over_kafka('worker = "a"').replace('[kafka.roles]\nworker = "a"\n', "")
    loaded = load(f'{text}\n[hosts]\nworker = "others"\n')
    assert loaded.placement == {"worker": "others"}
    command = loaded.command()
    assert command[command.index("1.4.0") + 1 :][:2] == ["{}", "others"]


def test_all_errors_of_a_file_are_told(load):
    text = GOOD.replace('name = "example"', "nom = 1").replace("freshness_s = 5", "")
    errors = errors_of(load, text.replace('"planned"', '""'), {"SL-DOUBLE"})
    places = ["[engine] name", "[engine] nom", "[known_gaps]", "[apps.market-spread] freshness_s"]
    assert all(any(line.startswith(place) for line in errors) for place in places)


def test_an_engine_without_apps(load):
    text = GOOD[: GOOD.index("[apps.passthrough]")] + "[apps]\n"
    assert errors_of(load, text) == ["[apps]: expected at least one app"]


def test_what_an_engine_writes_cannot_steer_a_terminal(load):
    errors = errors_of(load, GOOD.replace('"none"', '"\\u001b[31m"').replace("double", '"\\u001b"'))
    assert all(line.isprintable() for line in errors)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InvalidFile, match=r"absent/engine.toml: .*there is no such file"):
        spec.load(tmp_path / "absent" / "engine.toml")
    with pytest.raises(InvalidFile, match=r"engine.toml: .*there is no such file"):
        spec.load(tmp_path)
    path = tmp_path / "engine.toml"
    path.write_text("[engine]\nname = oops\n")
    with pytest.raises(InvalidFile, match=r"expected TOML; Invalid value \(at line 2"):
        spec.load(tmp_path)
    path.write_bytes(b"\xff")
    with pytest.raises(InvalidFile, match="expected UTF-8; byte 0"):
        spec.load(path)


def test_every_engine_of_the_kit_loads():
    engines = spec.available(fixtures())
    assert "miniature" in [engine.name for engine in engines]
    for engine in engines:
        assert Path(engine.command()[0]).is_absolute()


def test_finding_by_name_and_by_path(load, tmp_path, monkeypatch):
    load(GOOD)
    monkeypatch.chdir(tmp_path)
    ours = fixtures() / "engines" / "miniature" / "engine.toml"
    assert spec.find("miniature", fixtures()) == ours
    assert spec.find(str(ours), fixtures()) == ours
    assert spec.find(".", fixtures()).samefile(tmp_path / "engine.toml")
    assert spec.find("engine.toml", fixtures()).samefile(tmp_path / "engine.toml")
    with pytest.raises(InvalidFile, match=r"no such engine; .* one of .*miniature"):
        spec.find("maxiature", fixtures())


def test_a_service_level_is_claimed_for_all_apps_or_for_some(load):
    everywhere = load(GOOD.replace('rescale = "none"\n', 'rescale = "none"\nlatency = "ci"\n', 1))
    assert everywhere.service_level == "ci"
    assert everywhere.claims("count", {"emit": "every"}).latency == "ci"
    of_count = load(GOOD.replace("survives = []\n", 'survives = []\nlatency = "steady"\n', 1))
    assert of_count.service_level == "steady"
    assert of_count.claims("count", {"emit": "some"}).latency == "steady"
    assert of_count.claims("passthrough", {}).latency is None
    assert load(GOOD).service_level is None


@pytest.mark.parametrize(
    ("old", "where"),
    [
        ('rescale = "none"\n', "[claims]"),
        ("survives = []\n", "[apps.count]"),
        ('delivery = "exactly-once"\nsurvives = ["engine"]\n', "[apps.count.some]"),
    ],
)
def test_a_service_level_that_is_no_profile_is_named(load, old, where):
    (error,) = errors_of(load, GOOD.replace(old, old + 'latency = "stedy"\n', 1))
    assert error.startswith(f"{where} latency: expected the name of an SLA profile, one of ")
    assert error.endswith("; got 'stedy' (did you mean steady?)")


def test_a_service_level_is_text(load):
    text = GOOD.replace('rescale = "none"\n', 'rescale = "none"\nlatency = 7\n', 1)
    assert errors_of(load, text) == ["[claims] latency: expected text; got 7"]


def test_what_is_one_command_cannot_scale_live(load):
    text = over_kafka('worker = "a"').replace('rescale = "none"', 'rescale = "live"')
    (error,) = errors_of(load, text)
    assert error.startswith('[claims] rescale: expected "none" or "restart" beside [kafka.roles]')
