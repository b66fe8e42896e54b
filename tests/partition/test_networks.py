"""Networks: structural loss and distance on graphs computed by hand, and SaNGreeA in them equal to its twin."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive import sangreea as naive
from naive.promises import promises_of
from shoal import Attribute, KMap, LDiversity, SaNGreeA, Schema, anonymize
from shoal.data.table import encode
from shoal.errors import GuaranteeError
from shoal.partition.networks import Network, cluster_graph, neighbourhood_distance, read_network, structural_loss
from shoal.reports.report import report, to_json
from tables import tables

FEWER = settings(max_examples=settings.default.max_examples // 2 + 1)


# Two triangles, 0-1-2 and 3-4-5, joined by the link 2-3, and row 6 alone.
TRIANGLES = [[0, 1], [1, 2], [0, 2], [3, 4], [4, 5], [3, 5], [2, 3]]


def neighbours_of(edges, n):
    found = [set() for _ in range(n)]
    for one, other in edges:
        found[one].add(other)
        found[other].add(one)
    return found


def by_degree(edges, n):
    neighbours = neighbours_of(edges, n)
    return sorted(range(n), key=lambda row: (-len(neighbours[row]), row))


@st.composite
def networks(draw, n):
    if n < 2:
        return []
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] != pair[1])
    return [list(edge) for edge in draw(st.lists(pair, max_size=3 * n))]


def test_distances_of_two_triangles():
    """Of the five other rows: 0 and 1 differ in none; 0 and 2 in row 3; 0 and 6 in 1 and 2; 2 and 3 in 0, 1, 4, 5."""
    network = read_network(TRIANGLES, 7)
    pairs = [(0, 1), (0, 2), (0, 6), (2, 3), (0, 4)]
    assert [neighbourhood_distance(network, *pair) for pair in pairs] == [0.0, 0.2, 0.4, 0.8, 0.8]


def test_loss_of_two_triangles():
    """Each triangle is complete: it loses nothing. Between them there is 1 link of 9: 2 * 1 * (1 - 1/9) = 16/9."""
    network = read_network(TRIANGLES, 7)
    graph = cluster_graph(network, np.array([0, 0, 0, 1, 1, 1, 2]))
    assert graph.sizes.tolist() == [3, 3, 1]
    assert graph.inner.tolist() == [3, 3, 0]
    assert (graph.pairs.tolist(), graph.between.tolist()) == ([[0, 1]], [1])
    loss = structural_loss(graph)
    assert loss.intra.tolist() == [0.0, 0.0, 0.0]
    assert loss.inter == pytest.approx([16 / 9])
    assert loss.nsil == pytest.approx(16 / 9 / (7 * 6 / 4))


def test_loss_of_a_bad_partition():
    """Clusters 0, 1, 3 with 1 link of 3 and 2, 4, 5 with 1 of 3; between them 0-2, 1-2, 3-2, 3-4, 3-5: 5 of 9."""
    network = read_network(TRIANGLES, 7)
    graph = cluster_graph(network, np.array([0, 0, 1, 0, 1, 1, -1]))
    assert (graph.inner.tolist(), graph.between.tolist()) == ([1, 1, 0], [5])
    loss = structural_loss(graph)
    assert loss.intra == pytest.approx([2 * (1 - 1 / 3), 2 * (1 - 1 / 3), 0])
    assert loss.inter == pytest.approx([10 * (1 - 5 / 9)])


def test_the_largest_loss_is_one():
    """Half of all pairs linked, everybody in one cluster."""
    edges = [[0, 1], [1, 2], [2, 3]]
    assert structural_loss(cluster_graph(read_network(edges, 4), np.zeros(4, int))).nsil == 1.0


def test_clusters_follow_the_links():
    """All rows are equal, so only links matter: row 2 starts (3 links, like row 3), the most similar rows follow."""
    frame = pl.DataFrame({"a": [1] * 7})
    anonymizer = SaNGreeA(k=3, edges=TRIANGLES, beta=1.0).fit(frame)
    # From 2: rows 0 and 1 differ in 1 other, 3 in 4, 4 and 5 in 3 (0, 1, and 5 or 4), 6 in 3. Then 0 and 1 are alike.
    # From 3: rows 4, 5; left over is 6, with 7/15 from the first (3 + 2 + 2 links) as from the second: the first.
    assert anonymizer.labels_.tolist() == [0, 0, 0, 1, 1, 1, 0]
    graph = anonymizer.cluster_graph_
    assert (graph.sizes.tolist(), graph.inner.tolist(), graph.between.tolist()) == ([4, 3], [3, 3], [1])
    expected = 2 * 3 * (1 - 3 / 6) + 0 + 2 * 1 * (1 - 1 / 12)
    assert anonymizer.structural_loss_.nsil == pytest.approx(expected / (7 * 6 / 4))


def test_alpha_and_beta_weigh_values_against_links():
    frame = pl.DataFrame({"a": [0, 5, 9, 0, 5, 9]})
    links = SaNGreeA(k=2, edges=[[0, 1], [1, 2], [0, 2], [3, 4], [4, 5], [3, 5]], alpha=0.01).fit(frame).labels_
    values = SaNGreeA(k=2, edges=[[0, 1], [1, 2], [0, 2], [3, 4], [4, 5], [3, 5]], beta=0.01).fit(frame).labels_
    # The triangle of row 2 is taken; the rows of the other one are all equally dissimilar, and row 5 has its value.
    assert links.tolist() == [0, 0, 1, 2, 2, 1]
    assert values.tolist() == [0, 1, 2, 0, 1, 2]


@given(tables(most_rows=25), st.integers(1, 5), st.data())
def test_equals_the_naive_twin(random_table, k, data):
    frame, schema = random_table
    n, k = len(frame), min(k, len(frame))
    edges = data.draw(networks(n))
    alpha, beta = data.draw(st.sampled_from([(1.0, 1.0), (0.3, 2.0), (0.0, 1.0), (1.0, 0.0)]))
    labels = SaNGreeA(schema, k, edges=edges, alpha=alpha, beta=beta).fit(frame).labels_
    weights = [attribute.weight for attribute in schema.quasi]
    network = (neighbours_of(edges, n), alpha, beta)
    expected = naive.sangreea(encode(frame, schema), k, weights, seeds=by_degree(edges, n), network=network)
    assert labels.tolist() == expected


@pytest.mark.slow
@FEWER
@given(tables(least_rows=3, most_rows=20), st.integers(1, 4), st.data())
def test_equals_the_naive_twin_under_a_constraint(random_table, k, data):
    frame, schema = random_table
    n, k = len(frame), min(k, len(frame))
    edges = data.draw(networks(n))
    try:
        labels = SaNGreeA(schema, k, edges=edges, constraints=[LDiversity(2)]).fit(frame).labels_
    except GuaranteeError:
        return
    table = encode(frame, schema)
    expected = naive.sangreea(
        table,
        k,
        [attribute.weight for attribute in schema.quasi],
        seeds=by_degree(edges, n),
        network=(neighbours_of(edges, n), 1.0, 1.0),
        **promises_of((LDiversity(2),), table),
        most_tried=32,
    )
    assert labels.tolist() == expected


def test_many_rows_are_searched_in_boxes():
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"a": random.integers(0, 50, 300), "b": random.choice(list("abcdef"), 300)})
    edges = random.integers(0, 300, (900, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    labels = SaNGreeA(k=4, edges=edges, alpha=1.0, beta=20.0).fit(frame).labels_
    schema = Schema([Attribute("a"), Attribute("b", kind="nominal")])
    table, neighbours = encode(frame, schema), neighbours_of(edges.tolist(), 300)
    network, free = (neighbours, 1.0, 20.0), set(range(300))
    for number in range(3):
        seed = next(row for row in by_degree(edges.tolist(), 300) if row in free)
        rows = naive.grow(table, 4, [1.0, 1.0], seed, free, lambda rows: True, network)
        assert set(rows) <= set(np.flatnonzero(labels == number).tolist())
        free -= set(rows)


@pytest.mark.parametrize("kind", [list, tuple, np.array, pl.DataFrame, pd.DataFrame])
def test_edges_come_in_any_form(kind):
    edges = {"one": [0, 1, 3], "other": [1, 2, 0]}
    given_edges = kind(edges) if kind in (pl.DataFrame, pd.DataFrame) else kind(list(zip(*edges.values(), strict=True)))
    network = read_network(given_edges, 5)
    assert network.edges.tolist() == [[0, 1], [0, 3], [1, 2]]
    assert network.degrees.tolist() == [2, 2, 1, 1, 0]


def test_without_links_it_still_works():
    frame = pl.DataFrame({"a": [1, 9, 2, 8]})
    anonymizer = SaNGreeA(k=2, edges=[]).fit(frame)
    assert anonymizer.labels_.tolist() == [0, 1, 0, 1]
    assert anonymizer.structural_loss_.nsil == 0.0
    assert SaNGreeA(k=2).fit(frame).cluster_graph_ is None


EVIDENCE = pl.DataFrame({"a": [1] * 7})


@pytest.mark.parametrize("kind", [list, np.array, lambda edges: pl.DataFrame(edges, orient="row")])
def test_a_release_tells_the_cluster_graph_and_not_the_network(kind, tmp_path):
    release = anonymize(EVIDENCE, Schema([Attribute("a")]), 3, method="sangreea", edges=kind(TRIANGLES))
    assert release.parameters["edges"] == "7 entries, which are not shown"
    assert release.findings == {
        "cluster sizes": [4, 3],
        "links within clusters": [3, 3],
        "linked clusters": [[0, 1]],
        "links between clusters": [1],
        "nsil": pytest.approx((3 + 11 / 6) / (7 * 6 / 4)),
    }
    report(release, tmp_path / "report.html")
    assert "entries, which are not shown" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert json.loads(to_json(release))["parameters"]["edges"] == release.parameters["edges"]


def test_without_a_network_there_is_none_to_tell():
    release = anonymize(EVIDENCE, Schema([Attribute("a")]), 3, method="sangreea")
    assert (release.parameters["edges"], release.findings) == (None, {})


def test_what_has_forgotten_its_rows_has_forgotten_the_network():
    anonymizer = SaNGreeA(k=3, edges=np.array(TRIANGLES)).fit(EVIDENCE)
    forgetful = anonymizer.forget_rows()
    assert forgetful.get_params()["edges"] is None
    assert not any(isinstance(value, Network) for value in vars(forgetful).values())
    assert forgetful.cluster_graph_.sizes.tolist() == [4, 3]


def test_links_of_rows_that_are_not_released_are_not_counted():
    """Of both triangles two rows are released, of the link between them one end, and of the third cluster nothing."""
    frame = pl.DataFrame({"a": [1, 1, 1, 9, 9, 9, 9], "m": [True, True, False, True, True, False, False]})
    schema = Schema([Attribute("a"), Attribute("m", "other", "nominal")])
    anonymizer = SaNGreeA(schema, 1, edges=TRIANGLES, beta=0.0, constraints=[KMap(3, "m")]).fit(frame)
    graph = anonymizer.cluster_graph_
    assert sorted(graph.sizes.tolist()) == [0, 2, 2]
    assert (sorted(graph.inner.tolist()), graph.between.tolist()) == ([0, 1, 1], [])
    assert anonymizer.structural_loss_.nsil == 0.0
