"""Weights from decisions: what is asked is true, what is answered is learned, and nothing is lost on the way."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from _simulated_people import SimulatedPerson
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from naive import sangreea as naive
from shoal import Attribute, Flash, Hierarchy, Mondrian, SaNGreeA, Schema, WeightSession, anonymize
from shoal.data.table import encode
from shoal.datasets import fetch_adult, make_census
from shoal.errors import DataError, ShoalError
from shoal.jobs.weights import CERTAINTIES, SPREAD, learn_weights
from tables import tables

CENSUS = make_census(800)
FRAME, SCHEMA = CENSUS
QUASI = [attribute.name for attribute in SCHEMA.quasi]
CHOICES = st.lists(st.sampled_from(["first", "second", "skip"]), min_size=1, max_size=6)
# A question looks at hundreds of groups, so that few tables take as long as many do elsewhere.
FEW = settings(max_examples=15, deadline=None)


@pytest.fixture
def session():
    return WeightSession(FRAME, SCHEMA, k=5)


def answer_all(session, choose, n):
    for _ in range(n):
        session.answer(choose(session.ask()))
    return session


def answer_what_there_is(session, choices):
    """Answer until there are no more questions; how many answers were given."""
    for given_, choice in enumerate(choices):
        try:
            session.ask()
        except ShoalError as error:
            assert "question" in str(error)
            return given_
        session.answer(choice)
    return len(choices)


def small_table(seed, n=60):
    random = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "age": random.integers(20, 60, n),
            "work": random.choice(["federal", "local", "private", "inc"], n),
            "rank": random.choice(["low", "mid", "high"], n),
        }
    )
    tree = Hierarchy.from_dict({"gov": ["federal", "local"], "private": None, "self": ["inc"]})
    order = ("low", "mid", "high")
    work, rank = Attribute("work", kind="nominal", hierarchy=tree), Attribute("rank", kind="ordinal", order=order)
    return frame, Schema([Attribute("age"), work, rank])


def apart(question):
    return np.array(list(question.second.loss.values())) - np.array(list(question.first.loss.values()))


@FEW
@given(st.integers(0, 10**6), st.integers(2, 8))
def test_what_is_shown_is_what_slow_counting_gives(seed, k):
    frame, schema = small_table(seed)
    question = WeightSession(frame, schema, k=k, random_state=seed).ask()
    tree = schema["work"].hierarchy
    assert question.row == {name: str(value) for name, value in frame.row(question.row_number, named=True).items()}
    for option in (question.first, question.second):
        rows = frame[list(option.rows)]
        assert option.size == len(set(option.rows)) == k
        assert option.rows[0] == question.row_number
        ages = frame["age"]
        width = (rows["age"].max() - rows["age"].min()) / (ages.max() - ages.min())
        assert option.loss["age"] == pytest.approx(width)
        works = rows["work"].unique().to_list()
        node = tree.common_ancestor(works)
        expected = 0.0 if len(works) == 1 else tree.level[node] / tree.height
        assert option.loss["work"] == pytest.approx(expected)
        ends = rows["age"].min(), rows["age"].max()
        assert option.values["age"] == (str(ends[0]) if ends[0] == ends[1] else f"[{ends[0]}, {ends[1]}]")
        assert option.values["work"] == (works[0] if len(works) == 1 else tree.label_of(node))
    assert apart(question).min() < 0 < apart(question).max()  # each gives up something that the other keeps


@FEW
@given(tables(least_rows=6, most_rows=30), st.integers(2, 6), st.integers(0, 100))
def test_losses_of_every_kind_of_attribute_are_those_of_the_naive_twin(random_table, k, seed):
    frame, schema = random_table
    assume(len(schema.quasi) > 1)
    table = encode(frame, schema)
    session = WeightSession(frame, schema, k=k, random_state=seed)
    for choice in ("first", "second", "skip"):
        try:
            question = session.ask()
        except ShoalError:
            return
        for option in (question.first, question.second):
            for column in table.quasi:
                codes = {int(column.codes[row]) for row in option.rows}
                assert 0 <= option.loss[column.name] <= 1
                assert option.loss[column.name] == pytest.approx(naive.attribute_cost(column, codes))
                if len(codes) == 1:
                    assert option.values[column.name] == question.row[column.name]
        session.answer(choice)


@FEW
@given(tables(least_rows=6, most_rows=30, n_sensitive=0), st.integers(0, 100), CHOICES)
def test_answers_are_taken_back_kept_and_gone_on_with(random_table, seed, choices):
    frame, schema = random_table
    assume(len(schema.quasi) > 1)
    session = WeightSession(frame, schema, k=3, random_state=seed)
    n = answer_what_there_is(session, choices[:-1])
    assert all(weight >= 0 for weight in session.weights.values())
    assert np.mean(list(session.weights.values())) == pytest.approx(1)
    if n == len(choices) - 1 and answer_what_there_is(session, choices[-1:]) == 1:
        after = session.to_dict(), session.weights, session.uncertainty
        asked = session.undo()
        assert len(session.log) == n
        replayed = WeightSession(frame, schema, k=3, random_state=seed)
        assert answer_what_there_is(replayed, choices[:-1]) == n
        assert (session.to_dict(), session.weights, session.uncertainty, session.ask()) == (
            replayed.to_dict(), replayed.weights, replayed.uncertainty, replayed.ask(),
        )  # fmt: skip
        session.answer(asked.choice)
        assert (session.to_dict(), session.weights, session.uncertainty) == after
    again = WeightSession.from_dict(json.loads(json.dumps(session.to_dict())), frame, schema)
    assert (again.weights, again.uncertainty, again.log) == (session.weights, session.uncertainty, session.log)
    assert answer_what_there_is(again, choices) == answer_what_there_is(session, choices)
    assert again.to_dict() == session.to_dict()


@FEW
@given(tables(least_rows=8, most_rows=30, n_sensitive=0), st.randoms(use_true_random=False), CHOICES)
def test_neither_the_order_of_rows_nor_the_library_matters(random_table, random, choices):
    frame, schema = random_table
    assume(len(schema.quasi) > 1)
    order = random.sample(range(frame.height), frame.height)
    session = WeightSession(frame, schema, k=3)
    others = [WeightSession(one, schema, k=3) for one in (frame[order], frame.to_pandas(), frame.to_arrow())]
    for choice in choices:
        try:
            question = session.ask()
        except ShoalError:
            break
        session.answer(choice)
        for other in others:
            alike = other.ask()
            shown = question.row, question.first[1:], question.second[1:]
            assert (alike.row, alike.first[1:], alike.second[1:]) == shown
            # Equal rows are interchangeable; all others are the same ones.
            numbers = order if other is others[0] else range(frame.height)
            one, same = (frame[row].select(session.names) for row in (question.row_number, numbers[alike.row_number]))
            assert same.equals(one)
            other.answer(choice)
            assert other.weights == session.weights


@pytest.mark.parametrize("seed", range(4))
def test_no_question_is_asked_twice(seed):
    frame, schema = small_table(seed, n=12)
    session = WeightSession(frame, schema, k=3, random_state=seed)
    seen = []
    with pytest.raises(ShoalError, match="No new question was found, because few groups of 3 rows trade"):
        for _ in range(1000):
            difference = apart(session.ask())
            for before in seen:
                assert np.abs(before - difference).max() > 1e-9
                assert np.abs(before + difference).max() > 1e-9
            seen.append(difference)
            session.answer("skip")
    assert len(seen) > 3
    assert set(session.weights.values()) == {1.0}


def test_rows_with_missing_numbers_are_asked_about():
    random = np.random.default_rng(0)
    columns = {name: random.integers(0, 50, 80).tolist() for name in "abc"}
    columns["a"] = [None if i % 2 else value for i, value in enumerate(columns["a"])]
    session = WeightSession(pl.DataFrame(columns), Schema([Attribute(name) for name in "abc"]), k=3)
    questions = []
    for _ in range(20):
        questions.append(session.ask())
        session.answer("skip")
    assert any(question.row["a"] is None and 0.0 in (question.first.loss["a"], question.second.loss["a"])
               for question in questions)  # fmt: skip
    assert all(np.isfinite(apart(question)).all() for question in questions)


def test_the_learned_weights_are_the_likeliest():
    random = np.random.default_rng(0)
    differences, prior = random.normal(size=(30, 4)), np.array([1.0, 2.0, 0.5, 0.5])
    found = learn_weights(differences, prior)

    def surprise(weights, certainty):
        off = weights - certainty * prior / prior.mean()
        return np.logaddexp(0, -differences @ weights).sum() + off @ off / (2 * (certainty * SPREAD) ** 2)

    best = []
    for certainty in CERTAINTIES:
        others = np.maximum(found.weights + random.normal(scale=0.3, size=(300, 4)), 0)
        best.append(all(surprise(one, certainty) >= surprise(found.weights, certainty) - 1e-6 for one in others))
    assert sum(best) == 1
    assert (np.linalg.eigvalsh(found.covariance) > 0).all()
    # With more answers of the same kind less is unsure.
    assert learn_weights(np.vstack([differences] * 4), prior).deviations().sum() < found.deviations().sum()


def test_answers_tell_how_surely_somebody_decides():
    random = np.random.default_rng(1)
    questions = random.uniform(-1, 1, (200, 3))
    signs = {"sure": np.sign(questions.sum(axis=1)), "at random": random.choice([-1.0, 1.0], 200)}
    sure, drawn = (learn_weights(questions * sign[:, None], np.ones(3)) for sign in signs.values())
    assert sure.weights.sum() > 9 > 3 > drawn.weights.sum()


@given(
    st.lists(st.lists(st.floats(-1, 1), min_size=3, max_size=3), max_size=20),
    st.lists(st.floats(0, 10), min_size=3, max_size=3).filter(any),
)
def test_weights_are_never_below_nothing(differences, prior):
    assume(sum(prior) > 1e-3)
    found = learn_weights(np.array(differences).reshape(-1, 3), np.array(prior))
    assert (found.weights >= 0).all()
    assert np.isfinite(found.covariance).all()
    assert (found.deviations() >= 0).all()
    if not differences:
        assert found.weights / found.weights.sum() == pytest.approx(np.array(prior) / sum(prior))


def test_answers_against_everything_leave_the_sliders():
    frame = pl.DataFrame({"a": range(30), "b": [i * 7 % 30 for i in range(30)]})
    session = WeightSession(frame, Schema([Attribute("a"), Attribute("b")]), k=3, weights={"a": 3.0})
    kept = session.to_dict()
    one = {"row_number": 0, "choice": "first", "weights": [1.0, 1.0]}
    kept["log"] = [one | {"first": [1.0, 0.0], "second": [0.0, 0.1]}, one | {"first": [0.0, 1.0], "second": [0.1, 0.0]}]
    kept["log"] *= 50
    session = WeightSession.from_dict(kept, frame, session.schema())
    assert session.weights == {"a": 1.5, "b": 0.5}
    assert set(session.uncertainty.values()) == {2.0}


@pytest.mark.parametrize("name", ["age", "education", "native-country"])
def test_what_is_always_kept_ends_up_heaviest(name):
    session = WeightSession(FRAME, SCHEMA, k=5, random_state=1)

    def keep(question):
        first, second = question.first.loss[name], question.second.loss[name]
        return "skip" if first == second else "first" if first < second else "second"

    answer_all(session, keep, 20)
    assert max(session.weights, key=session.weights.get) == name


@FEW
@given(st.integers(0, 10**6), st.sampled_from("abc"))
def test_whoever_keeps_one_of_unrelated_attributes_gives_it_the_highest_weight(seed, name):
    random = np.random.default_rng(seed)
    frame = pl.DataFrame({one: random.integers(0, 100, 200) for one in "abc"})
    session = WeightSession(frame, Schema([Attribute(one) for one in "abc"]), k=4, random_state=seed)
    answer_all(session, lambda q: "first" if q.first.loss[name] <= q.second.loss[name] else "second", 12)
    assert max(session.weights, key=session.weights.get) == name


def test_a_careful_person_is_known_after_some_answers():
    ranks, certain = [], []
    for number in range(4):
        weights = np.random.default_rng([7, number]).dirichlet(np.ones(len(QUASI))) * len(QUASI)
        person = SimulatedPerson(dict(zip(QUASI, weights, strict=True)), random_state=number)
        session = WeightSession(FRAME, SCHEMA, k=5, random_state=number)
        unsure = sum(session.uncertainty.values())
        answer_all(session, person.decide, 25)
        ranks.append(spearmanr(weights, list(session.weights.values())).statistic)
        certain.append(sum(session.uncertainty.values()) < unsure)
    assert np.mean(ranks) > 0.6
    assert all(certain)


def test_people_on_adult_are_known_after_25_answers(data_folder):
    names = ["age", "education-num", "hours-per-week", "workclass", "native-country", "sex", "race", "relationship",
             "occupation", "income"]  # fmt: skip
    frame, schema = fetch_adult("train", drop_missing=True, quasi=names)
    ranks = []
    for number in range(6):
        weights = np.random.default_rng([7, number]).dirichlet(np.ones(10)) * 10
        person = SimulatedPerson(dict(zip(names, weights, strict=True)), random_state=number)
        session = answer_all(WeightSession(frame, schema, k=5, random_state=number), person.decide, 25)
        ranks.append(spearmanr(weights, list(session.weights.values())).statistic)
    assert np.mean(ranks) > 0.75


def test_a_simulated_person_answers_by_their_weights():
    weights = dict.fromkeys(QUASI, 1.0) | {"age": 30.0}
    question = WeightSession(FRAME, SCHEMA, k=5).ask()
    surely = SimulatedPerson(weights, certainty=1e6)
    better = "first" if surely.preference(question) > 0 else "second"
    assert surely.decide(question) == better
    asked = [question._replace(number=number) for number in range(400)]
    unsure = SimulatedPerson(weights, certainty=0.0, random_state=3)
    assert 140 < sum(unsure.decide(one) == better for one in asked) < 260
    again = SimulatedPerson(weights, certainty=0.0, random_state=3)
    assert [again.decide(one) for one in reversed(asked)][::-1] == [unsure.decide(one) for one in asked]


def test_sliders_are_where_learning_starts_and_can_be_moved(session):
    assert set(session.weights.values()) == {1.0}
    moved = WeightSession(FRAME, SCHEMA, k=5, weights={"age": 5.0})
    assert moved.weights["age"] == pytest.approx(5 * moved.weights["sex"])
    answer_all(session, lambda question: "first", 3)
    learned = session.weights
    session.set_weights({"age": 10.0})
    assert len(session.log) == 3
    assert session.weights["age"] > learned["age"]
    session.set_weights(None)
    assert session.weights == pytest.approx(learned)
    session.set_weights(dict.fromkeys(QUASI, 1e308))
    assert session.weights == pytest.approx(learned)


def test_weights_flow_into_methods_and_schema_files(session, tmp_path):
    answer_all(session, lambda question: "first", 4)
    schema = session.schema()
    schema.to_toml(tmp_path / "people.toml")
    read = Schema.from_toml(tmp_path / "people.toml")
    for name, weight in session.weights.items():
        assert read[name].weight == pytest.approx(weight)
    for method in (SaNGreeA, Mondrian):
        assert (method(read, k=10).fit(FRAME).labels_ >= 0).all()
    few = read.with_roles(other=[name for name in QUASI if name not in ("age", "sex", "race")])
    assert anonymize(FRAME, few, k=10, method="flash").k >= 10
    assert Flash(few, k=10).fit(FRAME).labels_.max() > 0


def test_an_attribute_may_have_any_name():
    frame = pl.DataFrame({"self": [1, 2, 3, 4, 5, 6], "weights": [3, 1, 6, 2, 5, 4]})
    session = WeightSession(frame, Schema([Attribute("self"), Attribute("weights")]), k=2, weights={"self": 3.0})
    assert [one.weight for one in session.schema()] == [1.5, 0.5]


def test_sessions_are_saved_and_loaded(session, tmp_path):
    answer_all(session, lambda question: "second", 3)
    session.save(tmp_path / "answers.json")
    again = WeightSession.load(tmp_path / "answers.json", FRAME, SCHEMA)
    assert again.weights == session.weights
    assert again.ask() == session.ask()
    text = (tmp_path / "answers.json").read_text()
    assert "Female" not in text  # nothing personal but row numbers
    with pytest.raises(DataError, match="about another table"):
        WeightSession.load(tmp_path / "answers.json", FRAME[1:], SCHEMA)
    with pytest.raises(DataError, match="about another table"):
        WeightSession.load(tmp_path / "answers.json", FRAME, SCHEMA.with_roles(other=["age"]))
    for broken in ("", "[]", "{}", '{"names": 3}'):
        (tmp_path / "broken.json").write_text(broken)
        with pytest.raises(DataError):
            WeightSession.load(tmp_path / "broken.json", FRAME, SCHEMA)
    for broken in ({"first": [0.0]}, {"weights": None}, {"choice": "third"}, {"second": [float("nan")] * len(QUASI)}):
        kept = session.to_dict()
        kept["log"][0] = kept["log"][0] | broken
        with pytest.raises(DataError, match="These are not the answers of a session"):
            WeightSession.from_dict(kept, FRAME, SCHEMA)
    with pytest.raises(DataError, match="cannot be read"):
        WeightSession.load(tmp_path / "none.json", FRAME, SCHEMA)
    with pytest.raises(DataError, match="does not exist: create it"):
        session.save(tmp_path / "nowhere" / "answers.json")


def test_bad_input_gets_one_sentence(session):
    for options, sentence in (
        ({"k": 10_000}, "Groups of 10000 rows cannot be made"),
        ({"weights": {"none": 1.0}}, "'none', which is not a quasi-identifier"),
        ({"weights": {"age": -1.0}}, "weight of 'age' must be a number of at least 0"),
        ({"weights": dict.fromkeys(QUASI, 0.0)}, "All weights are 0"),
    ):
        with pytest.raises(ShoalError, match=sentence):
            WeightSession(FRAME, SCHEMA, **options)
    with pytest.raises(ShoalError, match="'age' is the only quasi-identifier"):
        WeightSession(FRAME.select("age"), Schema([Attribute("age")]))
    with pytest.raises(ShoalError, match="no quasi-identifier"):
        WeightSession(FRAME.select("age"), Schema([Attribute("age", role="other")]))
    with pytest.raises(ShoalError, match="No question is open"):
        session.answer("first")
    session.ask()
    for wrong in ("third", 2, None, True, 1.5, ["first"]):
        with pytest.raises(ShoalError, match="is not an answer: choose first, second, skip"):
            session.answer(wrong)
    with pytest.raises(ShoalError, match="no answer to take back"):
        session.undo()


@pytest.mark.parametrize(
    ("columns", "culprit"),
    [
        ({"a": [1] * 20, "b": ["x"] * 20}, "because none of a, b has several values"),
        ({"a": list(range(20)), "b": ["x"] * 20}, "because only 'a' of a, b has several values"),
        ({"a": [1, 2] * 10, "b": ["x", "y"] * 10}, "No question was found, because few groups of 5 rows"),
    ],
)
@pytest.mark.parametrize("library", [pl.DataFrame, pd.DataFrame, pa.table])
def test_where_nothing_can_be_traded_there_is_no_question(columns, culprit, library):
    session = WeightSession(library(columns), Schema([Attribute("a"), Attribute("b", kind="nominal")]))
    with pytest.raises(ShoalError, match=culprit):
        session.ask()
    assert session.weights == {"a": 1.0, "b": 1.0}


def test_whole_numbers_answer_too(session):
    session.ask()
    session.answer(0)
    session.ask()
    session.answer(1)
    assert [one.choice for one in session.log] == ["first", "second"]


def test_groups_of_many_rows_and_columns_of_many_values_are_asked_about():
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"a": random.random(5000), "b": random.random(5000), "c": random.integers(0, 9, 5000)})
    session = WeightSession(frame, Schema([Attribute(name) for name in "abc"]), k=2000)
    question = session.ask()
    assert question.first.size == question.second.size == 2000
    low, high = (float(end) for end in question.first.values["a"].strip("[]").split(", "))
    rows = frame["a"].gather(list(question.first.rows))
    assert (low, high) == (rows.min(), rows.max())
