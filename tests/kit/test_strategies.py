"""What the strategies draw: lawful tensors of every kind, and producers that hold them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import dlshim
from dlshim_testing import check_consumer, strategies
from doubles import capsules as caps
from doubles import producers

QUIET = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def outcomes(strategy: Any, examples: int = 300) -> list[Any]:
    drawn: list[Any] = []

    @settings(max_examples=examples, deadline=None, database=None)
    @given(strategy)
    def draw(one: Any) -> None:
        drawn.append(one)

    draw()
    return drawn


def test_tensors_have_every_peculiarity() -> None:
    found: Counter[str] = Counter()
    for each in outcomes(strategies.tensors()):
        found["scalar"] += each.shape == ()
        found["empty"] += 0 in each.shape
        found["negative"] += any(s < 0 for s in each.strides)
        found["repeated"] += any(s == 0 for s in each.strides)
        found["compact"] += each.strides == caps.row_major(each.shape)
        found["offset"] += each.byte_offset > 0
        found["read-only"] += each.readonly
        lowest = min((each.start + o for o in caps.offsets(each.shape, each.strides)), default=0)
        assert lowest >= 0, each
    assert all(found.values()), found
    assert len({each.dtype for each in outcomes(strategies.tensors())}) > 10


def test_a_keyword_leaves_a_peculiarity_out() -> None:
    plain = strategies.tensors(
        dtypes=("int8",), empty=False, strided=False, byte_offsets=False, read_only=False
    )
    for each in outcomes(plain, 100):
        assert each.dtype == "int8" and 0 not in each.shape and not each.readonly
        assert each.strides == caps.row_major(each.shape) and each.byte_offset == 0


def test_a_name_may_stand_alone() -> None:
    """Its letters were once taken for names: KeyError: 'f'."""
    drawn = outcomes(strategies.tensors(dtypes="float32"), 20)
    assert {each.dtype for each in drawn} == {"float32"}
    kinds = {type(x) for x in outcomes(strategies.producers(generations="stream"), 20)}
    assert kinds == {strategies.GENERATIONS["stream"]}


@pytest.mark.parametrize(
    ("strategy", "names", "said"),
    [
        ("tensors", {"dtypes": ("nosuch",)}, "dtypes: 'nosuch' is no name; .* 'int8', .* 'bool'"),
        ("tensors", {"dtypes": "nosuch"}, "dtypes: 'nosuch' is no name; .* 'float32'"),
        ("tensors", {"dtypes": ()}, "dtypes: no name is given; the names are .* 'float32'"),
        ("producers", {"generations": ("P1",)}, "generations: 'P1' is no name; .* 'versioned'"),
    ],
)
def test_a_name_that_there_is_not_is_an_error_at_once(
    strategy: str, names: dict[str, Any], said: str
) -> None:
    """It was a KeyError, and only when the first example was drawn."""
    with pytest.raises(ValueError, match=said):
        getattr(strategies, strategy)(**names)


@QUIET
@given(strategies.tensors())
def test_a_tensor_says_what_must_be_read_of_it(tensor: Any) -> None:
    with caps.short_memory():
        x = tensor.of(strategies.GENERATIONS["versioned"])
        assert caps.look(x.__dlpack__(max_version=(1, 0))).values() == tensor.values()


@QUIET
@given(strategies.producers())
def test_dlshim_takes_every_producer(x: Any) -> None:
    with caps.short_memory():
        try:
            t = dlshim.from_dlpack(x, order="K")
        except BufferError:
            assert x.readonly, "only what DLPack 0.x cannot say is refused"
            return
        capsule = t.__dlpack__(max_version=(1, 0))
        assert caps.look(capsule).values() == x.values()


@QUIET
@given(strategies.capsules())
def test_dlshim_takes_every_capsule(capsule: Any) -> None:
    with caps.short_memory():
        wanted = caps.look(capsule).values()
        again = dlshim.from_dlpack(capsule, order="K").__dlpack__(max_version=(1, 0))
        assert caps.look(again).values() == wanted


def test_every_generation_is_drawn() -> None:
    kinds = {type(x) for x in outcomes(strategies.producers())}
    assert kinds == {strategies.GENERATIONS[name] for name in strategies.WITH_METHODS}


def test_who_refuses_a_double_raises_what_it_raises(monkeypatch: Any) -> None:
    """NumPy 2.4 drops the capsule with its exception set: a SystemError of nothing told."""
    numpy = pytest.importorskip("numpy")
    monkeypatch.setattr(caps, "linger", True)
    for kind in (producers.P2, producers.P1, producers.P1aNoDevice):
        with pytest.raises((BufferError, RuntimeError)):
            numpy.from_dlpack(kind(dtype="bfloat16"))
    double = producers.P2()
    numpy.from_dlpack(double)
    assert [made.deleted for made in double.exports] == [1]
    only = "^gives-back-refused.unknown-code"
    report = check_consumer("numpy:from_dlpack", only=only)  # the checks look at what goes when
    assert {each.status for each in report.findings} == {"pass"}, str(report)
    monkeypatch.undo()
    caps.lingering(None)


@pytest.fixture(autouse=True)
def books() -> Any:
    yield
    caps.write_off()
