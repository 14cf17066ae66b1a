import dataclasses
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import numpy as np
import pytest
from PIL import Image

from acer_tf.errors import EvidenceError
from acer_tf.figures import figure3_draws, figure4_ablation
from acer_tf.reproduction.curves import RunCurve
from acer_tf.reproduction.evidence import Evidence, write_evidence
from acer_tf.reproduction.figure import figures, make_cells
from acer_tf.reproduction.published import published_ablations
from acer_tf.reproduction.report.page import _ours, require_page, results_of, write_page
from tests.reproduction.report.example import CELLS, COMMIT, HOSTILE, WHOLE, build, cell, fill
from tests.reproduction.report.synthetic import outcome


class Page(HTMLParser):
    """What is in a page: its ids, links, sources and tags, each tag closed where it must be."""

    VOID = {"meta", "link", "img", "br"}

    def __init__(self, path):
        super().__init__()
        self.html = path.read_text(encoding="utf-8")
        self.tags, self.ids, self.links, self.images, self.videos, self._open = [], [], [], [], [], []
        self.feed(self.html)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if tag == "a" else []
        self.images += [given] if tag == "img" else []
        self.videos += [given] if tag == "video" else []
        self._open += [] if tag in self.VOID else [tag]

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def section(self, title):
        (found,) = (s for s in self.html.split("<section ")[1:] if re.search(rf"<h2[^>]*>{re.escape(title)}", s))
        return found


@pytest.fixture
def results(tmp_path):
    return build(tmp_path / "results")


@pytest.fixture
def page(results):
    return Page(write_page(results))


def test_the_page_is_written_whole_beside_the_experiments(results):
    assert write_page(results) == results / "index.html"
    assert sorted(path.name for path in results.iterdir()) == ["deep", "index.html", "no_experiment", "torn", "whole"]


def test_every_link_leads_to_a_file_or_a_section(page, results):
    sources = [media["src"] for media in page.images + page.videos]
    assert len(page.links) > 20 and len(sources) == 5
    for address in page.links + sources:
        path, fragment = urldefrag(address)
        assert (results / unquote(path)).exists(), address
        assert not fragment or fragment in page.ids, address
    assert len(set(page.ids)) == len(page.ids)


def test_the_page_needs_nothing_but_its_folder(page):
    assert not {"iframe", "object"} & set(page.tags)
    assert re.findall("<link[^>]*>", page.html) == ['<link rel="icon" href="data:,">']
    assert page.html.count("<script") == page.html.count("<script>") == 1  # its own, in the page
    written = page.html.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    assert "http" not in written and "@import" not in written and "url(" not in written


def test_the_same_files_give_the_same_page_wherever_they_are(tmp_path, results):
    first = write_page(results).read_bytes()
    assert write_page(results).read_bytes() == first
    assert write_page(build(tmp_path / "elsewhere")).read_bytes() == first


def test_text_is_shown_as_it_is_written(page):
    assert "<script>alert" not in page.html and "& <b>" not in page.html
    # The title thrice (contents, heading, labels), text, command, captions, a table's cell and a reason.
    assert page.html.count("&lt;script&gt;alert(") >= 8


def test_other_experiments_come_by_path_each_with_its_anchor(page):
    titles = re.findall(r"<h2[^>]*>(\w+)", page.html)
    assert titles == ["torn", "Whole", "Title"]
    assert "#deep/a%20%231%20%26%2050%25" in page.links and "deep/a%20%231%20%26%2050%25" in page.ids
    assert "no_experiment" not in page.html


def test_an_unreadable_experiment_is_a_section_that_says_so(page):
    assert "experiment.json cannot be read (JSONDecodeError" in page.section("torn")
    assert page.html.count("cannot be read") == 2  # in the contents too


def test_unfinished_cells_come_first_with_their_reasons(page):
    section = page.section("Title")
    assert "2 of 5 cells finished" in section and "1 failed, 1 interrupted, 1 not begun" in section
    assert "<details open" not in section
    states = re.findall(r'state state-([\w-]+)">([\w ]+)<', section)
    assert states == [
        ("failed", "failed"),
        ("interrupted", "interrupted"),
        ("not-begun", "not begun"),
        ("finished", "finished"),
        ("finished", "finished"),
    ]
    assert section.index("given up &lt;script") < section.index("Ctrl-C") < section.index("not begun</span>")
    assert "199 / 200 (99 %)" in section and "0 / 200 (0 %)" in section
    assert "incomplete" in page.html.split("<section")[0]


def test_a_cell_shows_its_hours_and_its_return_if_it_has_one(page):
    section = page.section("Title")
    assert ">1.00<" in section  # of 3,600 seconds
    assert ">-1.25<" in section and ">nan<" not in section


def test_a_whole_experiment_has_no_warning(page):
    section = page.section("Whole")
    assert "2 of 2 cells finished" in section and "<details>" in section
    assert "Incomplete" not in section and "Missing" not in section and 'class="error"' not in section


def test_commits_are_short_and_changed_code_is_marked(page):
    contents = page.html.split("<section")[0]
    assert contents.count(f'<code title="{COMMIT}">0123456</code>') == 2
    assert contents.count(f'<code title="{COMMIT}+changes">0123456</code> <span class="changes">+ changes') == 1


def test_records_are_linked_where_they_are(page):
    records = [unquote(link) for link in page.links if link.endswith(("run.json", "progress.csv"))]
    assert len(records) == 2 * (len(CELLS) - 1 + len(WHOLE.cells))
    assert "deep/a #1 & 50%/runs/broken/progress.csv" in records
    assert not [link for link in page.links if "waiting" in link]


def test_a_policy_is_linked_inside_the_results_and_named_outside(tmp_path, monkeypatch):
    results = tmp_path / "results"
    for place in (results / "e" / "near", tmp_path / "out", results / "by_cwd"):
        place.mkdir(parents=True)
    policies = ("near", "results/by_cwd", "out", "nowhere", None)
    cells = tuple(cell(f"c{n}", policy=policy) for n, policy in enumerate(policies))
    fill(results / "e", Evidence("e", "E", (), "c", cells))
    monkeypatch.chdir(tmp_path)
    page = Page(write_page(Path("results")))
    assert [link for link in page.links if link.endswith("/")] == ["e/near/", "by_cwd/"]
    assert re.findall(r'<code class="place">(\w+)</code>', page.html) == ["out", "nowhere"]


@pytest.mark.parametrize("policy", ["a\0b", "x" * 5000, "circle", "../../secret", "\ud800"])
def test_a_policy_that_cannot_be_is_no_link(tmp_path, policy):
    results = tmp_path / "results"
    fill(results / "e", Evidence("e", "E", (), "c", (cell("c", policy=policy),)))
    (results / "e" / "circle").symlink_to("circle")
    assert not [link for link in Page(write_page(results)).links if "policy" in link]


def test_links_out_of_the_results_are_not_followed(tmp_path, results):
    secret = tmp_path / "secret"
    fill(secret, Evidence("s", "Secret", (), "c", (cell("c"),), tables={"table": ""}, figures={"figure": ""}))
    for name in ("table.csv", "figure.png"):
        (results / "whole" / name.replace("table", "scores").replace("figure", "plot")).unlink()
    (results / "whole" / "scores.csv").symlink_to(secret / "table.csv")
    (results / "whole" / "plot.png").symlink_to(secret / "figure.png")
    (results / "whole" / "film.mp4").symlink_to(secret / "figure.png")
    (results / "whole" / "videos" / "film.gif").symlink_to("film.gif")
    (results / "whole" / "runs" / "a" / "packages.txt").symlink_to(secret / "experiment.json")
    (results / "linked").symlink_to(secret)
    page = Page(write_page(results))
    assert "Secret" not in page.html
    assert "experiment.json is not a file in this folder" in page.section("linked")
    assert "Missing: <code>plot.png</code>." in page.section("Whole")
    assert "Missing: <code>scores.csv</code>." in page.section("Whole")
    assert not [link for link in page.links if "film" in link or link.endswith("packages.txt")]


def test_names_that_are_not_unicode_are_shown(tmp_path):
    folder = tmp_path / "results" / "\udcff"
    fill(folder, Evidence("e", "Title \ud800", (), "c"))
    (folder / "\udcfe.mp4").touch()
    page = Page(write_page(tmp_path / "results"))
    assert [video["src"] for video in page.videos] == ["%FF/%FE.mp4"]
    assert page.section("Title ?")


def test_a_page_that_cannot_be_read_is_not_ours(tmp_path):
    (tmp_path / "index.html").mkdir()
    with pytest.raises(EvidenceError, match="is not a page of results"):
        write_page(tmp_path)


def test_figures_are_loaded_lazily_in_a_place_of_their_size(page):
    (image,) = (image for image in page.images if image["src"].endswith("/figure.png"))
    assert {each["loading"] for each in page.images} == {"lazy"}
    assert (image["width"], image["height"]) == ("506", "304")  # of 1125 by 675 pixels


def test_the_folder_of_a_page_is_that_in_which_the_evidence_lies(tmp_path, monkeypatch):
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert results_of(Path("results/figure")) == Path("results")
    assert results_of(Path(".")) == tmp_path / "a" and results_of(Path("..")) == tmp_path


def test_a_figure_that_claims_to_be_huge_is_shown_without_a_size(results, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    images = [image for image in Page(write_page(results)).images if image["src"].endswith("/figure.png")]
    assert images and not any("width" in image for image in images)


def test_figures_have_a_caption_an_alternative_text_and_an_svg(page):
    (image,) = (image for image in page.images if image["src"].endswith("/figure.png"))
    assert image["alt"] == f"Title {HOSTILE}: Curves {HOSTILE}"
    assert image["src"].replace(".png", ".svg") in page.links
    assert all(image["alt"].strip() for image in page.images)


def test_a_missing_figure_is_said_to_be_missing(page):
    assert "Missing: <code>gone.png</code>, <code>gone.svg</code>." in page.section("Title")
    assert "Lost" in page.section("Title")


def test_tables_are_of_their_csv_with_numbers_to_the_right(page):
    section = page.section("Title").split("<details")[0]
    assert section.count('<td class="number">1,234.5 ± 6.7</td>') == 11
    assert section.count('<th scope="col" class="number">environment number') == 11
    assert "<td>much</td>" in section and "<td>ACER</td>" in section
    assert [link for link in page.links if link.startswith("whole/scores")] == ["whole/scores.csv", "whole/scores.md"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a,b\n1,2\n3\n", "row 3 does not have the 2 cells"),
        (b"a,b\n\xff,2\n", "table.csv cannot be read"),
        (None, "Missing: <code>table.csv</code>."),
        (b"", "5 cells</summary>"),
    ],
)
def test_a_table_that_cannot_be_shown_says_why(results, content, said):
    path = results / "deep" / "a #1 & 50%" / "table.csv"
    path.unlink() if content is None else path.write_bytes(content)
    section = Page(write_page(results)).section("Title")
    assert said in section and "environment number" not in section


def test_videos_load_when_asked_for(page):
    assert [(v["src"], v["preload"]) for v in page.videos] == [
        ("whole/other.webm", "none"),
        ("whole/videos/play.mp4", "none"),
    ]


def test_an_experiment_without_cells_counts_none(tmp_path):
    write_evidence(tmp_path / "e", Evidence("e", "Bare", (), "c"))
    assert "cells" not in Page(write_page(tmp_path)).section("Bare")


def test_a_folder_without_experiments_says_so(tmp_path):
    assert "No experiment has results here yet" in Page(write_page(tmp_path)).html


def test_a_page_that_could_not_be_written_is_refused_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # root may write anywhere
    with pytest.raises(EvidenceError, match=f"/index.html cannot be written, because {tmp_path} is not writable"):
        require_page(tmp_path / "new" / "results")
    monkeypatch.undo()
    require_page(tmp_path / "new" / "results")


def test_the_page_is_not_written_through_a_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in (f"index.html.{os.getpid()}.partial", "index.html"):
        results = tmp_path / name
        results.mkdir()
        (results / name).symlink_to(victim)
        if name == "index.html":
            with pytest.raises(EvidenceError, match="is not a page of results"):
                write_page(results)
        else:
            assert not write_page(results).is_symlink()
        assert victim.read_text() == "mine"


def test_experiments_come_in_the_papers_order_then_curves_then_diagnostics(tmp_path):
    names = ("table1_prioritized", "figure4_ablation", "figure3_continuous", "figure1_minatar", "figure1_atari57")
    for name in names:
        write_evidence(tmp_path / name, Evidence(name, name, (), "command"))
    write_evidence(tmp_path / "a_check", Evidence("curves", "a_check", (), "command", diagnostic=True))
    write_evidence(tmp_path / "b_curve", Evidence("curves", "b_curve", (), "command"))
    html = write_page(tmp_path).read_text()
    titles = re.findall(r"<h2[^>]*>([^<]*)", html)
    assert titles == [*sorted(names, key=list(figures()).index), "b_curve", "a_check"]
    assert titles[0] == "figure1_atari57"
    assert re.findall(r'<section id="(\w+)"[^>]* class="collapsed"', html) == ["a_check"]


def test_of_sections_of_one_title_the_largest_is_shown_and_each_names_its_folder(tmp_path):
    for name, title, cells in (("a", "Same", 1), ("b", "Same", 2), ("c", "Other", 1)):
        made = tuple(cell(f"cell{n}") for n in range(cells))
        write_evidence(tmp_path / name, Evidence("x", title, (), "command", made))
    html = write_page(tmp_path).read_text()
    assert re.findall(r"<h2[^>]*>([^<]*)", html) == ["Same (b)", "Same (a)", "Other"]
    assert re.findall(r'<section id="(\w)"[^>]* class="collapsed"', html) == ["a"]


def test_what_is_long_or_not_the_first_is_shown_when_asked_for(tmp_path):
    tables, drawn = {"table": "", "more": ""}, {"figure": "", "games": ""}
    evidence = Evidence("x", "T", ("What.", "How."), "c", tables=tables, figures=drawn)
    fill(tmp_path / "x", evidence)
    rows = "".join(f"{n},1\n" for n in range(20))
    (tmp_path / "x" / "table.csv").write_text("a,b\n" + rows)
    first, *asked = Page(write_page(tmp_path)).section("T").split("<summary>")
    assert [text.partition("<")[0] for text in asked] == [
        "Protocol and deviations",
        "Figure games",
        "Table table: 20 rows",
        "Table more: 2 rows",
        "Command",
    ]
    assert "figure.png" in first and "How." not in first and "<table" not in first


def test_policies_are_shown_with_their_score_and_video(tmp_path):
    folder = tmp_path / "policies"
    (folder / "pong").mkdir(parents=True)
    (folder / "pong" / "saved_model.pb").write_bytes(b"")
    (folder / "pong.mp4").write_bytes(b"")
    score = {"env": "atari/Pong", "mean": 19.6, "standard_error": 0.2, "episodes": 30}
    (folder / "pong.json").write_text(json.dumps(score))
    (folder / "once.json").write_text(json.dumps(score | {"standard_error": None, "episodes": 1}))
    (folder / "torn.json").write_text("{")
    (folder / "other.json").write_text('["not an evaluation"]')
    (tmp_path / "elsewhere.mp4").write_bytes(b"")
    page = Page(write_page(tmp_path))
    assert "atari/Pong: 19.6 ± 0.2 over 30 episodes" in page.html
    assert "atari/Pong: 19.6 over 1 episode" in page.html and "over 1 episodes" not in page.html
    assert [video["src"] for video in page.videos] == ["policies/pong.mp4"]
    assert {"policies/pong.json", "policies/pong/"} <= set(page.links)
    assert "torn" not in page.html and "not an evaluation" not in page.html


def test_of_how_much_of_the_paper_the_runs_are_is_said(tmp_path):
    one = cell("a", steps=5_000_000)
    settings = {**one.settings, "env": "atari/Pong", "seed": 0, "total_steps": 5_000_000}
    evidence = Evidence("table_atari49", "T", (), "c", (dataclasses.replace(one, method="acer", settings=settings),))
    write_evidence(tmp_path / "x", evidence)
    html = write_page(tmp_path).read_text()
    assert "cells finished</span>; of the whole: 1/49 games, 1/2 methods, 1/3 seeds, 50 % of steps" in html


def test_runs_that_do_not_overlap_have_no_mean():
    def run(returns):
        steps = np.arange(1, 6) * 1000
        return RunCurve("atari/Pong", 0, 9000, steps, steps, steps, np.array(returns, float), np.array(returns, float))

    early, late = run([1, 1, np.nan, np.nan, np.nan]), run([np.nan, np.nan, 2, 2, 2])
    assert _ours("ACER", "seeds", [early, late]) is None
    curve = _ours("ACER", "seeds", [late, run([0, 0, 0, 4, 4])])
    assert (curve["x"][0], curve["x"][-1], curve["y"][-1]) == (3000, 5000, 3)


def test_the_published_curves_are_those_of_the_figure(tmp_path):
    labels = {key: method.label for key, method in figure4_ablation.FIGURE.methods.items()}
    methods, env = figure4_ablation.FIGURE.methods, "control/walker2d"
    made = outcome(
        tmp_path / "x", methods, make_cells(methods, (env,), 1, total_steps=2_000_000), lambda cell: [1.0] * 10
    )
    write_evidence(tmp_path / "x", Evidence("figure4_ablation", "T", (), "c", made.cells, labels))
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', write_page(tmp_path).read_text(), re.DOTALL)
    curves = {curve["label"]: curve for curve in json.loads(data)[env]}
    theirs = {curve.label: curve for curve in published_ablations(env)}
    assert set(curves) == {method.label for method in methods.values()} | set(theirs)
    for label, curve in theirs.items():
        assert curves[label]["y"][-1] == pytest.approx(curve.mean[-1], rel=1e-3)


def test_the_draws_of_a_search_are_one_curve_with_their_range(tmp_path):
    methods = {"tis": figure3_draws.searches(3)["tis"]}
    cells = make_cells(methods, ("control/reacher3",), 1, total_steps=2_000_000)
    made = outcome(tmp_path / "x", methods, cells, lambda cell: [float(cell.seed)] * 10)
    write_evidence(tmp_path / "x", Evidence("figure3_draws", "T", (), "c", made.cells, {"tis": "TIS"}))
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', write_page(tmp_path).read_text(), re.DOTALL)
    curves = {curve["label"]: curve for curve in json.loads(data)["control/reacher3"]}
    ours = curves["TIS"]
    assert (ours["runs"], ours["unit"]) == (3, "draws")
    assert {(y, low, high) for y, low, high in zip(ours["y"], ours["low"], ours["high"], strict=True)} == {(1, 0, 2)}
    assert [label for label in curves if "draw" in label] == []
