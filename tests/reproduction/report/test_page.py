import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from acer_tf.reproduction.evidence import Evidence, write_evidence
from acer_tf.reproduction.report.page import write_page
from tests.reproduction.report.example import CELLS, COMMIT, HOSTILE, WHOLE, build, cell, fill


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
    assert not {"script", "iframe", "object"} & set(page.tags)
    assert "http" not in page.html and "@import" not in page.html and "url(" not in page.html


def test_the_same_files_give_the_same_page_wherever_they_are(tmp_path, results):
    first = write_page(results).read_bytes()
    assert write_page(results).read_bytes() == first
    assert write_page(build(tmp_path / "elsewhere")).read_bytes() == first


def test_text_is_shown_as_it_is_written(page):
    assert "<script" not in page.html and "& <b>" not in page.html
    # The title thrice (contents, heading, labels), text, command, captions, a table's cell and a reason.
    assert page.html.count("&lt;script&gt;alert(") >= 8


def test_experiments_come_by_path_each_with_its_anchor(page):
    titles = re.findall(r"<h2[^>]*>(\w+)", page.html)
    assert titles == ["Title", "torn", "Whole"]
    assert "#deep/a%20%231%20%26%2050%25" in page.links and "deep/a%20%231%20%26%2050%25" in page.ids
    assert "no_experiment" not in page.html


def test_an_unreadable_experiment_is_a_section_that_says_so(page):
    assert "experiment.json cannot be read (JSONDecodeError" in page.section("torn")
    assert page.html.count("cannot be read") == 2  # in the contents too


def test_unfinished_cells_come_first_with_their_reasons(page):
    section = page.section("Title")
    assert "2 of 5 cells finished" in section and "1 failed, 1 interrupted, 1 not begun" in section
    assert "<details open>" in section
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
        (b"", "All 5 cells"),
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
    assert [image["src"] for image in page.images if image.get("loading") == "lazy"] == ["whole/videos/play.gif"]


def test_an_experiment_without_cells_counts_none(tmp_path):
    write_evidence(tmp_path / "e", Evidence("e", "Bare", (), "c"))
    assert "cells" not in Page(write_page(tmp_path)).section("Bare")


def test_a_folder_without_experiments_says_so(tmp_path):
    assert "No experiment has results here yet" in Page(write_page(tmp_path)).html
